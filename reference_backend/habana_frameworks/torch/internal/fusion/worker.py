"""Compile one description: `python worker.py DESCRIPTION_FILE OUT_FOLDER`.

This file runs as a script and not as a module, because importing the parent packages would load the device.
Exit codes: 0 success, 3 not fusable (the last line of stderr is the reason), otherwise an error.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
import threading
import time
from pathlib import Path

NOT_FUSABLE = 3
HERE = Path(__file__).resolve().parent
NAME = "hpu_reference_fusion"


def _exit_with_parent(parent: int) -> None:
    """Kill this process and its compilers when the process that requested the code has exited."""
    while os.getppid() == parent:
        time.sleep(1)
    os.killpg(os.getpgid(0), signal.SIGKILL) if os.getpgid(0) == os.getpid() else os._exit(1)


def _load_package() -> None:
    """Import the package of this file under a top-level name."""
    spec = importlib.util.spec_from_file_location(
        NAME, HERE / "__init__.py", submodule_search_locations=[str(HERE)]
    )
    assert spec is not None and spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules[NAME] = package
    spec.loader.exec_module(package)


def main(arguments: list[str]) -> int:
    """Compile a description file and return the exit code."""
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    # Python adds the script's folder to sys.path. Remove the folder, because its modules would shadow other
    # modules with the same names.
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != HERE]
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    threading.Thread(target=_exit_with_parent, args=(os.getppid(),), daemon=True).start()
    os.nice(10)
    _load_package()
    compiler = importlib.import_module(f"{NAME}.compile")
    description = importlib.import_module(f"{NAME}.description")
    try:
        compiler.compile_description(description.loads(Path(arguments[0]).read_text()), arguments[1])
    except description.NotFusable as error:
        print(f"not fusable: {error}", file=sys.stderr)
        return NOT_FUSABLE
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
