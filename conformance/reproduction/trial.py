"""One result, run again and again with other samples: what decides whether a shrunk sample still fails."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Iterator
from typing import Any

from conformance.checking.property import Property
from conformance.model.verdicts import Failure, Kind, Result, ResultId, seed_of
from conformance.oracle import modules as module_oracle
from conformance.oracle import operators as oracle
from conformance.oracle import optimizers as optimizer_oracle
from conformance.samples import (
    modules as module_samples,
)
from conformance.samples import (
    operators as samples,
)
from conformance.samples import (
    optimizers as optimizer_samples,
)
from conformance.target.target import Target
from conformance.worker.executor import Executor

#: Where a result's samples came from: (kind of set, …) as the caches name it.
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
        """The sets of samples that the last run took from."""
        return {key: list(found) for key, found in _sets(self.subject).items()}

    @contextlib.contextmanager
    def with_sets(self, sets: dict[Key, list[Any]]) -> Iterator[None]:
        """Let the check take from other sets of samples for a while."""
        before = _sets(self.subject)
        _put(self.subject, sets)
        try:
            yield
        finally:
            _put(self.subject, before)
            forget_oracles()

    def on_cpu(self) -> Trial | None:
        """The same result on the CPU in eager mode, or None where that is none or this one."""
        target = self.target
        if target.is_cpu or target.mode not in self.entry.modes or target.mode not in ("eager", "lazy"):
            return None
        host = dataclasses.replace(
            target, name="cpu", module=None, device="cpu", hooks={}, mode="eager", rehearses=False
        )
        return Trial(Executor(host), self.entry, self.subject, self.id)

    def holds(self, sets: dict[Key, list[Any]]) -> bool:
        """Whether the check finds no failure with these samples."""
        with self.with_sets(sets):
            return not self.run().failures

    def fails(self, sets: dict[Key, list[Any]], wanted: str) -> Failure | None:
        """The failure of that signature which the check finds with these samples, or None."""
        with self.with_sets(sets):
            result = self.run()
        return next((one for one in result.failures if signature(one) == wanted), None)


def forget_oracles() -> None:
    """Drop all oracle values: they are kept by the number of a sample."""
    oracle.forget()
    module_oracle.forget()
    optimizer_oracle.forget()


def _sets(subject: Any) -> dict[Key, list[Any]]:
    if subject.kind == "operator":
        return {key: list(one._samples) for key, one in samples._cache.get(subject.name, {}).items()}
    if subject.kind == "module":
        return {key: list(one.samples) for key, one in module_samples._cache.get(subject.name, {}).items()}
    if subject.kind == "optimizer":
        return {key: list(one) for key, one in optimizer_samples._cache.get(subject.name, {}).items()}
    return {}


def _put(subject: Any, sets: dict[Key, list[Any]]) -> None:
    if subject.kind == "operator":
        samples._cache[subject.name] = {
            key: samples.SampleSet(subject.name, found) for key, found in sets.items()
        }
    elif subject.kind == "module":
        module_samples._cache[subject.name] = {
            key: module_samples.ModuleSamples(found) for key, found in sets.items()
        }
    elif subject.kind == "optimizer":
        optimizer_samples._cache[subject.name] = dict(sets)


#: Kinds whose messages quote an error, of which type and words count.
_QUOTING = (Kind.EXCEPTION, Kind.REFUSED, Kind.ERROR_TYPE, Kind.MESSAGE, Kind.HARNESS)
#: Ends the part of a message that says what the target did; the expected value follows.
_EXPECTATION = re.compile(r" where |, expected |, but ")


def signature(failure: Failure) -> str:
    """What two failures must share to be of one kind: the kind and the form of the message.

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
