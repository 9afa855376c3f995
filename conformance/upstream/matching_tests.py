"""Upstream's test methods for a property and a subject, from the coverage map read backwards.

Only methods that run over torch's databases of operators, modules and optimizers count, since their tests are
named by an entry and a dtype. The names are those that :mod:`conformance.upstream.coverage_map` pins.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping

from conformance import torch_testing_internals
from conformance.subjects import torch_databases
from conformance.upstream import coverage_map

#: Test classes whose methods run over one class of entries, and over those alone.
_ENTRIES = {
    "TestUnaryUfuncs": "UnaryUfuncInfo",
    "TestBinaryUfuncs": "BinaryUfuncInfo",
    "TestReductions": "ReductionOpInfo",
    "TestFFT": "SpectralFuncInfo",
}
#: Those whose methods run over entries with one prefix.
_PREFIXES = {"TestMasked": "masked."}
#: Those whose methods do not run over operators.
_KINDS = {"TestModule": "module", "TestOptimRenewed": "optimizer"}


@dataclasses.dataclass(frozen=True, order=True)
class UpstreamMethod:
    """A test method of upstream, and the database that it runs over: operator, module or optimizer."""

    owner: str
    name: str
    kind: str


@dataclasses.dataclass(frozen=True)
class Databases:
    """The entries that upstream's tests run over.

    Operators have the class of their entry; modules say if upstream tests them in training and evaluation.
    """

    operators: Mapping[str, str]
    modules: Mapping[str, bool]
    optimizers: frozenset[str]

    @staticmethod
    @functools.cache
    def load() -> Databases:
        """The databases of the installed torch."""
        operators = torch_testing_internals.op_db()
        modules = torch_testing_internals.module_db()
        return Databases(
            {torch_databases.operator_name(info): type(info).__name__ for info in operators},
            {info.name: bool(getattr(info, "train_and_eval_differ", False)) for info in modules},
            frozenset(info.optim_cls.__name__ for info in torch_testing_internals.optim_db()),
        )

    def kind(self, subject: str) -> str | None:
        """The database that has an entry of that name."""
        if subject in self.operators:
            return "operator"
        if subject in self.modules:
            return "module"
        return "optimizer" if subject in self.optimizers else None

    def has(self, test: UpstreamMethod, subject: str) -> bool:
        """Return True if a test method runs over that entry, as far as names say."""
        if self.kind(subject) != test.kind:
            return False
        entry = _ENTRIES.get(test.owner)
        if entry is not None and self.operators[subject] != entry:
            return False
        return subject.startswith(_PREFIXES.get(test.owner, ""))


@functools.cache
def covering_properties() -> Mapping[UpstreamMethod, tuple[str, ...]]:
    """The properties that cover each method; behaviours, which are programs of their own, do not count."""
    properties_by_method: dict[UpstreamMethod, tuple[str, ...]] = {}
    for stem in coverage_map.file_stems():
        for method in coverage_map.methods(stem):
            properties = tuple(name for name in method.covered_by if "/" not in name)
            if method.wheel and properties:
                kind = _KINDS.get(method.owner, "operator")
                properties_by_method[UpstreamMethod(method.owner, method.name, kind)] = properties
    return properties_by_method


@functools.cache
def _methods_by_property() -> Mapping[str, tuple[UpstreamMethod, ...]]:
    methods_by_property: dict[str, list[UpstreamMethod]] = {}
    for test, properties in covering_properties().items():
        for name in properties:
            methods_by_property.setdefault(name, []).append(test)
    return {name: tuple(sorted(tests)) for name, tests in methods_by_property.items()}


def methods_for_property(name: str, subject: str, databases: Databases) -> list[UpstreamMethod]:
    """The methods that state a property of a subject: those that it covers alone, else those that it shares.

    A deviation from a property need not make a method fail that other properties cover as well.
    """
    tests = [test for test in _methods_by_property().get(name, ()) if databases.has(test, subject)]
    alone = [test for test in tests if covering_properties()[test] == (name,)]
    return alone or tests
