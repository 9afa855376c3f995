"""Measure the seconds that autoloading the backend adds to `import torch`."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time

from benchmarks.measure import print_figure


def import_seconds(autoload: str, bytecode: str) -> float:
    """Return the wall seconds of a process that imports torch.

    ``autoload`` is the value of TORCH_DEVICE_BACKEND_AUTOLOAD. ``bytecode`` is a folder for compiled modules:
    pip compiles the modules of an installed package, but a checkout may have none.
    """
    environment = os.environ | {"TORCH_DEVICE_BACKEND_AUTOLOAD": autoload, "PYTHONPYCACHEPREFIX": bytecode}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import torch"], check=True, env=environment)
    return time.perf_counter() - start


def main() -> None:
    """Import torch with and without autoloading in alternation, and print the median difference in seconds.

    Raises:
        SystemExit: the backend is not installed with its metadata, so it does not autoload.
    """
    loaded = subprocess.run(
        [sys.executable, "-c", "import torch; print(hasattr(torch, 'hpu'))"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    if loaded != "True":
        raise SystemExit(
            "the backend does not autoload here. Install it with its metadata, as nox -s bench does."
        )
    with tempfile.TemporaryDirectory() as bytecode:
        import_seconds("1", bytecode)
        differences = [import_seconds("1", bytecode) - import_seconds("0", bytecode) for _ in range(15)]
    print_figure("import torch, time added by autoload", statistics.median(differences), 0.1, " s")


if __name__ == "__main__":
    main()
