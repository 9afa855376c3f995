"""One result, run again and again with other samples: what decides whether a shrunk sample still fails."""

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

#: The key of a set of samples in the caches, e.g. (kind of set, dtype, ...).
Key = Any


@dataclasses.dataclass
class Trial:
    """A result with what is needed to check it again in this process."""

    executor: Executor
    entry: Property
    subject: Any
    id: ResultId

    @property
    def target(self) -> Target:
        """The target on which the result is checked."""
        return self.executor.target

    @property
    def run_seed(self) -> int:
        """The seed from which the check draws."""
        return seed_of(self.subject.name, self.id.dtype)

    def run(self) -> Result:
        """The result now; errors of the check are failures of kind ``harness``."""
        forget_oracles()
        return self.executor._check(self.entry, self.subject, self.id)

    def sets(self) -> dict[Key, list[Any]]:
        """The sets of samples from which the last run took."""
        if self.subject.kind not in _CACHES:
            return {}
        cache, members_of, _ = _CACHES[self.subject.kind]
        return {key: members_of(made) for key, made in cache.get(self.subject.name, {}).items()}

    @contextlib.contextmanager
    def with_sets(self, sets: dict[Key, list[Any]]) -> Iterator[None]:
        """Let the check take from other sets of samples for a while."""
        before = self.sets()
        self._put(sets)
        try:
            yield
        finally:
            self._put(before)
            forget_oracles()

    def _put(self, sets: dict[Key, list[Any]]) -> None:
        if self.subject.kind in _CACHES:
            cache, _, set_of = _CACHES[self.subject.kind]
            cache[self.subject.name] = {
                key: set_of(self.subject.name, members) for key, members in sets.items()
            }

    def on_cpu(self) -> Trial | None:
        """The same result on the CPU in eager mode; None if there is no such result, or this is it."""
        target = self.target
        if target.is_cpu or target.mode not in self.entry.modes or target.mode not in ("eager", "lazy"):
            return None
        return Trial(Executor(target.on_cpu()), self.entry, self.subject, self.id)

    def holds(self, sets: dict[Key, list[Any]]) -> bool:
        """Return whether the check finds no failure with these samples."""
        with self.with_sets(sets):
            return not self.run().failures

    def fails(self, sets: dict[Key, list[Any]], wanted: str) -> Failure | None:
        """The failure of that signature which the check finds with these samples, or None."""
        with self.with_sets(sets):
            result = self.run()
        return next((failure for failure in result.failures if signature(failure) == wanted), None)


def forget_oracles() -> None:
    """Drop all oracle values: they are kept by the number of a sample."""
    oracle.forget()
    module_oracle.forget()
    optimizer_oracle.forget()


#: For each kind of subject: the cache of its sets of samples, a set's members, and a set of members.
_CACHES: dict[str, tuple[Any, Callable[[Any], list[Any]], Callable[[str, list[Any]], Any]]] = {
    "operator": (samples._cache, lambda made: list(made.chosen(None)), samples.SampleSet),
    "overload": (recorded_calls._cache, lambda made: list(made.chosen(None)), samples.SampleSet),
    "module": (
        module_samples._cache,
        lambda made: list(made.samples),
        lambda _, members: module_samples.ModuleSamples(members),
    ),
    "optimizer": (optimizer_samples._cache, list, lambda _, members: members),
    "api": (programs._cache, list, lambda _, members: members),
}


#: Kinds whose messages quote an error, of which type and words count.
_QUOTING = (Kind.EXCEPTION, Kind.REFUSED, Kind.ERROR_TYPE, Kind.MESSAGE, Kind.HARNESS)
#: Ends the part of a message that says what the target did; the expected value follows.
_EXPECTATION = re.compile(r" where |, expected |, but ")


def signature(failure: Failure) -> str:
    """The kind of a failure and the form of its message, which are equal for failures of the same fault.

    Numbers, lists, and the arguments in words are left out of it: a smaller sample has others.
    """
    text = failure.message.split("\n")[0]
    if failure.kind not in _QUOTING:
        text = _EXPECTATION.split(text)[0]
    text = re.sub(r"\(.*\)", "()", text)
    text = re.sub(r"\[[^\]]*\]", "[]", text)
    text = re.sub(r"'[^']*'", "''", text)
    text = re.sub(r"[-+]?(\d[\w.]*([-+]\d+)?|\binf\b|\bnan\b)j?", "#", text)
    return f"{failure.kind.value}: {' '.join(text.split())[:200]}"
