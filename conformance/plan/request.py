"""What a run was asked for."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from conformance.distributed import LIMIT, RANKS, USUAL_LIMIT
from conformance.plan.plan import Shard
from conformance.processes import memory_limit, orphan
from conformance.target.file import TargetFile


@dataclasses.dataclass(frozen=True)
class Options:
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

    def target_words(self) -> dict[str, Any]:
        """What a results file says of the target."""
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
        """How many processes use the device in a mode: workers, or the ranks of the one worker's world."""
        return self.ranks if mode == "distributed" else self.workers

    def workers_of(self, mode: str) -> int:
        """How many workers a mode has at most: in ``distributed`` one, which has a world of ranks."""
        return 1 if mode == "distributed" else self.workers

    def environment(self, mode: str) -> dict[str, str]:
        """The variables of a process that works for this run.

        Backends that register themselves for autoloading stay away unless the user asks for them: the
        target's own module is imported by name, and no other backend may become the accelerator.
        """
        variables = dict(os.environ)
        variables.pop("PYTEST_ADDOPTS", None)
        variables.update(self.target.variables(mode))
        variables.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
        processes = self.processes(mode)
        variables.setdefault("OMP_NUM_THREADS", str(max(1, cores() // processes)))
        variables[RANKS] = str(self.ranks)
        variables[LIMIT] = str(self.timeout)
        variables.setdefault(memory_limit.VARIABLE, str(memory_limit.share(processes)))
        variables[orphan.VARIABLE] = str(os.getpid())
        variables["PYTHONWARNINGS"] = "ignore"
        variables["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        root = str(Path(__file__).resolve().parents[2])
        if "site-packages" not in root:
            variables["PYTHONPATH"] = os.pathsep.join(filter(None, (root, variables.get("PYTHONPATH"))))
        return variables


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
