"""Find the upstream test methods for a property and a subject, by inverting the coverage map.

Only methods that run over torch's databases of operators, modules and optimizers are considered, because only
the names of their tests contain the entry and the dtype. The method names come from the folder ``test_names``
of :mod:`conformance.upstream.coverage_map`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping

from conformance import torch_testing_internals
from conformance.subjects import torch_databases
from conformance.upstream import coverage_map

#: Test classes whose methods run only over entries of one OpInfo class.
_ENTRIES = {
    "TestUnaryUfuncs": "UnaryUfuncInfo",
    "TestBinaryUfuncs": "BinaryUfuncInfo",
    "TestReductions": "ReductionOpInfo",
    "TestFFT": "SpectralFuncInfo",
}
#: Test classes whose methods run only over entries whose names have a prefix.
_PREFIXES = {"TestMasked": "masked."}
#: Test classes whose methods run over modules or optimizers instead of operators.
_KINDS = {"TestModule": "module", "TestOptimRenewed": "optimizer"}


@dataclasses.dataclass(frozen=True, order=True)
class UpstreamMethod:
    """An upstream test method, and the database that it runs over: operator, module or optimizer."""

    owner: str
    name: str
    kind: str


@dataclasses.dataclass(frozen=True)
class Databases:
    """The entries of torch's databases.

    ``operators`` maps a name to the class of its entry. ``modules`` maps a name to True if upstream tests the
    module in training and evaluation mode.
    """

    operators: Mapping[str, str]
    modules: Mapping[str, bool]
    optimizers: frozenset[str]

    @staticmethod
    @functools.cache
    def load() -> Databases:
        """Return the databases of the installed torch."""
        operators = torch_testing_internals.op_db()
        modules = torch_testing_internals.module_db()
        return Databases(
            {torch_databases.operator_name(info): type(info).__name__ for info in operators},
            {info.name: bool(getattr(info, "train_and_eval_differ", False)) for info in modules},
            frozenset(info.optim_cls.__name__ for info in torch_testing_internals.optim_db()),
        )

    def kind(self, subject: str) -> str | None:
        """Return the kind of the database that has an entry of this name, or None."""
        if subject in self.operators:
            return "operator"
        if subject in self.modules:
            return "module"
        return "optimizer" if subject in self.optimizers else None

    def runs_test_over_entry(self, test: UpstreamMethod, subject: str) -> bool:
        """Return True if a test method runs over an entry, according to the names of the method's class and
        of the entry.
        """
        if self.kind(subject) != test.kind:
            return False
        entry = _ENTRIES.get(test.owner)
        if entry is not None and self.operators[subject] != entry:
            return False
        return subject.startswith(_PREFIXES.get(test.owner, ""))


@functools.cache
def covering_properties() -> Mapping[UpstreamMethod, tuple[str, ...]]:
    """Return the properties that cover each upstream method. Behaviours are not included."""
    properties_by_method: dict[UpstreamMethod, tuple[str, ...]] = {}
    for stem in coverage_map.file_stems():
        for method in coverage_map.methods_of_file(stem):
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
    """Return the upstream methods for a property of a subject.

    Methods that only this property covers are preferred. A method that several properties cover is returned
    only if no such method exists, because a deviation from one of these properties need not make the method
    fail.
    """
    tests = [
        test for test in _methods_by_property().get(name, ()) if databases.runs_test_over_entry(test, subject)
    ]
    alone = [test for test in tests if covering_properties()[test] == (name,)]
    return alone or tests
