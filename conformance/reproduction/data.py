"""What a snippet needs to know of its result: samples, tolerances, error inputs, as source text."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from conformance import torch_private
from conformance.checking import tolerances
from conformance.oracle import renewal
from conformance.oracle.promises.table import promise_of
from conformance.properties.modes import reasons
from conformance.properties.modules import _common as module_properties
from conformance.properties.operators import dtypes as dtypes_property
from conformance.reproduction.literal import Writer
from conformance.reproduction.modules import Place
from conformance.reproduction.source import Collector
from conformance.reproduction.trial import Trial
from conformance.samples import operators as samples
from conformance.samples.operators import Sample
from conformance.subjects.databases import find

#: The module whose names in capitals get their values from here.
STANDINS = "conformance.reproduction.standins"
_PROMISES: Place = ("conformance.oracle.promises.table", "_TABLE")


class Data:
    """Writes the values of data that the code of a snippet asks for.

    ``only`` restricts error inputs to one of them; without ``rules`` the check is not run to see which
    tolerances it looks up.
    """

    collector: Collector
    writer: Writer

    def __init__(self, trial: Trial, only: int | None, rules: bool) -> None:
        self.trial = trial
        self.only = only
        self.run = rules
        self.asked: dict[Place, Callable[[], str]] = {
            (STANDINS, "SAMPLES"): lambda: self._operator_sets("samples"),
            (STANDINS, "REFERENCE_SAMPLES"): lambda: self._operator_sets("reference"),
            (STANDINS, "MODULE_SAMPLES"): self._module_sets,
            (STANDINS, "OPTIMIZER_SAMPLES"): self._optimizer_sets,
            (STANDINS, "RULES"): self._recorded_rules,
            (STANDINS, "REASONS"): self._reasons,
            (STANDINS, "ERROR_INPUTS"): self._error_inputs,
            (STANDINS, "MODULE_ERROR_INPUTS"): self._module_error_inputs,
            (STANDINS, "OPTIMIZER_ERROR_INPUTS"): self._optimizer_error_inputs,
            (STANDINS, "BACKWARD_DTYPES"): lambda: self._dtypes(torch_private.backward_dtypes),
            (STANDINS, "FORWARD_DTYPES"): lambda: self._dtypes(torch_private.forward_dtypes),
            (STANDINS, "FIRST_SAMPLES"): self._first_samples,
            (STANDINS, "OTHERS"): self._others,
            _PROMISES: self._promises,
        }

    def _operator_sets(self, word: str) -> str:
        entries = []
        for key, found in self.trial.sets().items():
            if key[0] != word or not found:
                continue
            self.writer.share([one.arguments for one in found])
            made = ", ".join(map(self._sample, found))
            entries.append(f"{self._key(key)}: [{made}]")
        return f"{{{', '.join(entries)}}}"

    @staticmethod
    def _key(key: Any) -> str:
        return repr((f"torch.{key[1]}", key[2])) if key[0] == "samples" else repr(f"torch.{key[1]}")

    def _sample(self, sample: Sample) -> str:
        made = self.collector.require("conformance.samples.operators", "Sample")
        words = [str(sample.index), self.writer.write(sample.input)]
        if sample.args:
            words.append(f"args={self.writer.write(sample.args)}")
        if sample.kwargs:
            words.append(f"kwargs={self.writer.write(sample.kwargs)}")
        if sample.process is not None:
            words.append(f"process={self.writer.write(sample.process)}")
        if sample.broadcasts_input:
            words.append("broadcasts_input=True")
        if sample.stays:
            words.append(f"stays={self.writer.write(sample.stays)}")
        return f"{made}({', '.join(words)})"

    def _module_sets(self) -> str:
        made = self.collector.require("conformance.samples.modules", "ModuleSamples")
        one = self.collector.require("conformance.samples.modules", "ModuleSample")
        entries = []
        for key, found in self.trial.sets().items():
            self.writer.share([sample.call for sample in found])
            words = []
            for sample in found:
                fields = [
                    f"{field.name}={self.writer.write(getattr(sample, field.name))}"
                    for field in dataclasses.fields(sample)
                    if field.name != "_module"
                ]
                words.append(f"{one}({', '.join(fields)})")
            entries.append(f"{f'torch.{key}'!r}: {made}([{', '.join(words)}])")
        return f"{{{', '.join(entries)}}}"

    def _optimizer_sets(self) -> str:
        entries = []
        for key, found in self.trial.sets().items():
            words = ", ".join(map(self.writer.write, found))
            entries.append(f"{(f'torch.{key[0]}', key[1])!r}: [{words}]")
        return f"{{{', '.join(entries)}}}"

    def _recorded_rules(self) -> str:
        """The tolerances that the check asks for, seen by running it once more."""
        asked: dict[tuple[str, str, str], tolerances.Rule] = {}
        if self.run:
            with _watched_rules(asked):
                self.trial.run()
        name, dtype = self.trial.subject.name, getattr(torch, self.trial.id.dtype, torch.float32)
        for direction in tolerances.DIRECTIONS if self.trial.subject.kind == "operator" else ():
            asked.setdefault((name, str(dtype), direction), tolerances.rule(name, dtype, direction))
        made = self.collector.require("conformance.checking.tolerances", "Rule")
        words = []
        for key, found in asked.items():
            fields = ", ".join(
                f"{field.name}={self.writer.write(getattr(found, field.name))}"
                for field in dataclasses.fields(found)
                if getattr(found, field.name) != field.default
            )
            words.append(f"{key!r}: {made}({fields})")
            # Other dtypes come up only where the failure is gone.
            words.append(f"{(key[0], key[2])!r}: {made}({fields})")
        return f"{{{', '.join(words)}}}"

    def _reasons(self) -> str:
        name = self.trial.subject.name
        found = {}
        for mode in ("compile", "graph", "lazy"):
            for table in _TABLES:
                try:
                    known = reasons(mode, table)
                except LookupError:
                    continue
                found[(mode, table)] = {key: why for key, why in known.items() if key.split("@")[0] == name}
        return self.writer.write(found)

    def _error_inputs(self) -> str:
        subject = self.trial.subject
        seed = torch_private.seed_for("errors", subject.name)
        device = self.trial.target.device
        return self._errors(torch_private.error_inputs(subject.info, device, seed=seed))

    def _errors(self, found: list[Any]) -> str:
        if self.only is not None and self.only < len(found):
            found = [found[self.only]]
        return f"[{', '.join(map(self._described, found))}]"

    def _described(self, item: Any) -> str:
        writer = self.writer
        before, writer.attributes = writer.attributes, _ERROR_ATTRIBUTES
        try:
            return writer.record(item)
        finally:
            writer.attributes = before

    def _module_error_inputs(self) -> str:
        subject, dtype = self.trial.subject, samples.dtype_of(self.trial.id.dtype)
        entries = []
        for training in (True, False):
            seed = torch_private.seed_for("module errors", subject.name, str(training))
            found = torch_private.module_error_inputs(subject.info, dtype, training=training, seed=seed)
            entries.append(f"{training}: {self._errors(found)}")
        return f"{{{', '.join(entries)}}}"

    def _optimizer_error_inputs(self) -> str:
        subject, dtype = self.trial.subject, samples.dtype_of(self.trial.id.dtype)
        seed = torch_private.seed_for("optimizer errors", subject.name)
        return self._errors(torch_private.optimizer_error_inputs(subject.info, dtype, seed=seed))

    def _dtypes(self, of: Callable[[Any], frozenset[torch.dtype]]) -> str:
        found = of(find(self.trial.subject.kind, self.trial.subject.name).info)
        return f"frozenset([{', '.join(sorted(map(str, found)))}])"

    def _first_samples(self) -> str:
        found = dtypes_property._first(self.trial.subject.name)
        words = [f"{dtype}: ({self._sample(sample)}, {able})" for dtype, (sample, able) in found.items()]
        return f"{{{', '.join(words)}}}"

    def _others(self) -> str:
        """The samples of another seed, where one has the form of the sample whose data it may replace."""
        entries = []
        for key, found in self.trial.sets().items():
            if key[0] != "samples" or not found:
                continue
            made = renewal._others(self.trial.subject.name, samples.dtype_of(key[1]), key[2])
            if all(place < len(made) for place in range(len(found))) and all(
                renewal.same_form(one, made[place]) for place, one in enumerate(found)
            ):
                words = ", ".join(self._sample(made[place]) for place in range(len(found)))
                entries.append(f"{(f'torch.{key[1]}', key[2])!r}: [{words}]")
        return f"{{{', '.join(entries)}}}"

    def _promises(self) -> str:
        name = self.trial.subject.name
        promise = promise_of(name)
        return "{}" if promise is None else f"{{{name!r}: {self.writer.write(promise)}}}"


#: Tables of operators that the modes' files have.
_TABLES = ("no_graph", "no_backward_graph", "no_inplace_graph", "host", "no_kernels", "host_sometimes")
_ERROR_ATTRIBUTES = {
    "sample_input", "input", "args", "kwargs", "output_process_fn_grad", "broadcasts_input", "error_type",
    "error_regex", "module_error_input", "optimizer_error_input", "constructor_input", "forward_input",
    "desc",    "params", "error_on", "name",
}  # fmt: skip


@contextmanager
def _watched_rules(asked: dict[tuple[str, str, str], tolerances.Rule]) -> Iterator[None]:
    """Write down every rule that is looked up meanwhile, wherever the function was imported to."""
    original = tolerances.rule

    def watched(operator: str, dtype: torch.dtype, direction: str = "forward") -> tolerances.Rule:
        found = asked[(operator, str(dtype), direction)] = original(operator, dtype, direction)
        return found

    module_properties.rule_of.cache_clear()
    places = [
        (module, name)
        for module in list(sys.modules.values())
        if getattr(module, "__name__", "").startswith("conformance")
        for name, value in list(vars(module).items())
        if value is original
    ]
    for module, name in places:
        setattr(module, name, watched)
    try:
        yield
    finally:
        for module, name in places:
            setattr(module, name, original)
        module_properties.rule_of.cache_clear()
