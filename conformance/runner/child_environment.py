"""The environment variables of the processes that a run starts."""

from __future__ import annotations

import os
from pathlib import Path

from conformance.distributed import LIMIT, RANKS
from conformance.model import seeds
from conformance.plan.run_request import RunRequest
from conformance.process_control import memory_limit


def environment_variables(request: RunRequest, mode: str) -> dict[str, str]:
    """Return the environment variables of a child process for a mode of a run.

    Autoloading of backends is disabled unless the user enables it: the target's own module is imported by
    name, and no other backend may become the accelerator.
    """
    variables = dict(os.environ)
    variables.pop("PYTEST_ADDOPTS", None)
    variables.update(request.target.variables(mode))
    variables.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
    processes = request.process_count(mode)
    variables.setdefault("OMP_NUM_THREADS", str(max(1, usable_cores() // processes)))
    variables[RANKS] = str(request.ranks)
    variables[seeds.VARIABLE] = str(request.seed)
    variables[LIMIT] = str(request.timeout)
    variables.setdefault(memory_limit.VARIABLE, str(memory_limit.memory_per_worker(processes)))
    variables["PYTHONWARNINGS"] = "ignore"
    variables["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    root = str(Path(__file__).resolve().parents[2])
    if "site-packages" not in root:
        variables["PYTHONPATH"] = os.pathsep.join(filter(None, (root, variables.get("PYTHONPATH"))))
    return variables


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
