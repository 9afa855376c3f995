"""Rerun a result with other samples, to decide whether a shrunk sample still fails."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Callable, Iterator
from typing import Any

from conformance.framework.property import Property
from conformance.model.verdicts import Failure, Kind, Result, ResultId, seed_of
from conformance.oracle import modules as module_oracle
from conformance.oracle import optimizers as optimizer_oracle
from conformance.oracle import reference as oracle
from conformance.samples import modules as module_samples
from conformance.samples import operators as samples
from conformance.samples import optimizers as optimizer_samples
from conformance.samples import recorded_calls
from conformance.samples.random_programs import generator as programs
from conformance.target.target import Target
from conformance.worker.executor import Executor

#: The cache key of a sample set, such as (kind of set, dtype, ...).
Key = Any


@dataclasses.dataclass
class RerunTrial:
    """A result with the data that is needed to check it again in this process."""

    executor: Executor
    entry: Property
    subject: Any
    id: ResultId

    @property
    def target(self) -> Target:
        """The target of the result."""
        return self.executor.target

    @property
    def run_seed(self) -> int:
        """The seed of the check."""
        return seed_of(self.subject.name, self.id.dtype)

    def run(self) -> Result:
        """Run the check and return the result. Exceptions of the check are failures of kind ``harness``."""
        clear_reference_caches()
        return self.executor._run_check(self.entry, self.subject, self.id)

    def used_sample_sets(self) -> dict[Key, list[Any]]:
        """Return the sample sets that the last run used."""
        if self.subject.kind not in _CACHES:
            return {}
        cache, members_of, _ = _CACHES[self.subject.kind]
        return {key: members_of(sample_set) for key, sample_set in cache.get(self.subject.name, {}).items()}

    @contextlib.contextmanager
    def with_sample_sets(self, sets: dict[Key, list[Any]]) -> Iterator[None]:
        """Let the check use other sample sets within the block."""
        before = self.used_sample_sets()
        self._put_into_caches(sets)
        try:
            yield
        finally:
            self._put_into_caches(before)
            clear_reference_caches()

    def _put_into_caches(self, sets: dict[Key, list[Any]]) -> None:
        if self.subject.kind in _CACHES:
            cache, _, set_of = _CACHES[self.subject.kind]
            cache[self.subject.name] = {
                key: set_of(self.subject.name, members) for key, members in sets.items()
            }

    def cpu_trial(self) -> RerunTrial | None:
        """Return the trial of the same result on the CPU in eager mode, or None if the CPU has no such
        result.
        """
        target = self.target
        if target.is_cpu or target.mode not in self.entry.modes or target.mode not in ("eager", "lazy"):
            return None
        return RerunTrial(Executor(target.on_cpu()), self.entry, self.subject, self.id)

    def passes_with(self, sets: dict[Key, list[Any]]) -> bool:
        """Run the check on other samples and return whether it finds no failure."""
        with self.with_sample_sets(sets):
            return not self.run().failures

    def failure_with(self, sets: dict[Key, list[Any]], wanted_signature: str) -> Failure | None:
        """Run the check on other samples and return its failure with the wanted signature, or None."""
        with self.with_sample_sets(sets):
            result = self.run()
        return next(
            (failure for failure in result.failures if failure_signature(failure) == wanted_signature), None
        )


def clear_reference_caches() -> None:
    """Delete all cached references.

    Call this after samples were replaced. The cache keys contain only the index of a sample, so the caches
    would still return the references of the old samples.
    """
    oracle.clear_cache()
    module_oracle.clear_cache()
    optimizer_oracle.clear_cache()


#: For each subject kind: the cache of its sample sets, a function that returns the members of a set, and a
#: function that makes a set of members.
_CACHES: dict[str, tuple[Any, Callable[[Any], list[Any]], Callable[[str, list[Any]], Any]]] = {
    "operator": (samples._cache, lambda sample_set: list(sample_set.chosen(None)), samples.SampleSet),
    "overload": (recorded_calls._cache, lambda sample_set: list(sample_set.chosen(None)), samples.SampleSet),
    "module": (
        module_samples._cache,
        lambda sample_set: list(sample_set.samples),
        lambda _, members: module_samples.ModuleSamples(members),
    ),
    "optimizer": (optimizer_samples._cache, list, lambda _, members: members),
    "api": (programs._cache, list, lambda _, members: members),
}


#: Failure kinds whose messages quote an exception. The failure's signature includes the quoted text.
_QUOTING = (Kind.EXCEPTION, Kind.REFUSED, Kind.ERROR_TYPE, Kind.MESSAGE, Kind.HARNESS)
#: Matches the text between the target's result and the expected value in a message.
_EXPECTATION = re.compile(r" where |, expected |, but ")


def failure_signature(failure: Failure) -> str:
    """Return the kind of a failure and its message pattern. Failures with the same cause have equal
    signatures.

    Numbers, lists and arguments are removed from the message, because they differ for a smaller sample.
    """
    text = failure.message.split("\n")[0]
    if failure.kind not in _QUOTING:
        text = _EXPECTATION.split(text)[0]
    text = re.sub(r"\(.*\)", "()", text)
    text = re.sub(r"\[[^\]]*\]", "[]", text)
    text = re.sub(r"'[^']*'", "''", text)
    text = re.sub(r"[-+]?(\d[\w.]*([-+]\d+)?|\binf\b|\bnan\b)j?", "#", text)
    return f"{failure.kind.value}: {' '.join(text.split())[:200]}"
