"""A request for a run: target, modes, level, selection and limits."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from conformance.distributed import USUAL_LIMIT
from conformance.model.records import TargetRecord
from conformance.plan.plan import Shard
from conformance.target.file import TargetFile


@dataclasses.dataclass(frozen=True)
class Request:
    """Everything that decides what a run does; checked before it starts."""

    target: TargetFile
    target_argument: str
    modes: Sequence[str]
    output: Path
    level: str = "full"
    shard: Shard = dataclasses.field(default_factory=Shard)
    workers: int = 1
    select: str | None = None
    samples: str = "default"
    timeout: float = USUAL_LIMIT
    extra: Sequence[str] = ()
    part: bool = False
    #: Ranks of the worlds of mode ``distributed``.
    ranks: int = 2
    #: Whether workers measure what their time goes into.
    profile: bool = False

    def target_words(self) -> TargetRecord:
        """The target as a results file describes it."""
        target = self.target
        return {
            "name": target.name,
            "file": target.path.name,
            "device": target.device,
            "precision": target.precision,
            "simulated": target.simulated,
            "untested": target.untested,
            "declared": target.declared(),
        }

    def processes(self, mode: str) -> int:
        """The number of processes on the device in a mode: workers, or ranks of the one worker's world."""
        return self.ranks if mode == "distributed" else self.workers

    def workers_of(self, mode: str) -> int:
        """The largest number of workers in a mode: in ``distributed`` one, which has a world of ranks."""
        return 1 if mode == "distributed" else self.workers
