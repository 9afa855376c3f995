"""The options of a run: target, modes, level, selection and limits."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from conformance.distributed import USUAL_LIMIT
from conformance.model import seeds
from conformance.model.records import TargetRecord
from conformance.plan.plan import Shard
from conformance.target.file import TargetFile


@dataclasses.dataclass(frozen=True)
class RunRequest:
    """The validated options of a run."""

    target: TargetFile
    target_argument: str
    modes: Sequence[str]
    output: Path
    level: str = "full"
    shard: Shard = dataclasses.field(default_factory=Shard)
    workers: int = 1
    select: str | None = None
    samples: str = "default"
    #: The seed of the run (:mod:`conformance.model.seeds`).
    seed: int = seeds.RELEASE_SEED
    #: How to judge differences from the CPU that no documentation page rules out, one of
    #: :data:`conformance.model.vocabulary.PARITY`.
    parity: str = "apart"
    timeout: float = USUAL_LIMIT
    extra: Sequence[str] = ()
    part: bool = False
    #: World size in mode ``distributed``.
    ranks: int = 2
    #: Whether workers record a time profile.
    profile: bool = False

    def target_record(self) -> TargetRecord:
        """Return the description of the target for a results file."""
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

    def process_count(self, mode: str) -> int:
        """Return the number of processes that use the device in a mode: the ranks in mode ``distributed``,
        else the workers.
        """
        return self.ranks if mode == "distributed" else self.workers

    def worker_count(self, mode: str) -> int:
        """Return the maximum number of workers in a mode. Mode ``distributed`` has one worker, which starts
        the ranks.
        """
        return 1 if mode == "distributed" else self.workers
