"""Fresh Python processes that import the device as the tests do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

#: Variables that would change how the device loads, runs or writes files.
_CHANGING = ("PT_", "HABANA_", "HLS_", "HPU_", "TORCH", "OMPI_", "GRAPH_")


def clean_environment(path: tuple[object, ...] = ()) -> dict[str, str]:
    """Variables of this process without those that concern the device, and with its search path.

    Args:
        path: entries that come before all others, so that a test can shadow a module of the backend.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(_CHANGING) and name not in ("RANK", "PYTHONPATH")
    }
    kept["PYTHONPATH"] = os.pathsep.join([*map(str, path), *(entry for entry in sys.path if entry)])
    kept["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    return kept


def run_code(
    code: str,
    *arguments: str,
    cwd: Path,
    path: tuple[object, ...] = (),
    options: tuple[str, ...] = (),
    timeout: float = 300,
    **environment: str,
) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh interpreter and wait for it.

    Args:
        code: the program.
        arguments: its ``sys.argv[1:]``.
        cwd: the folder that it runs in.
        path: see `clean_environment`.
        options: of the interpreter.
        timeout: seconds.
        environment: variables on top of `clean_environment`.

    Raises:
        subprocess.TimeoutExpired: it took longer.
    """
    return subprocess.run(
        [sys.executable, *options, "-c", code, *arguments],
        env=clean_environment(path) | environment,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=timeout,
    )
