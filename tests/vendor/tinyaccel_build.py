"""Builds the device's kernels: ``python -m tinyaccel_build``. Needs a C++ compiler and ninja."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import sys
from pathlib import Path

import torch

SOURCES = sorted((Path(__file__).parent / "tinyaccel" / "csrc").glob("*"))
#: One library for each torch and each state of the sources, so that none is ever taken for another.
FOLDER = Path(os.environ.get("TINYACCEL_BUILD", Path(__file__).parent / "tinyaccel" / "build"))


def library() -> Path:
    """Path of the library for the torch of this process and the present sources, built or not."""
    digest = hashlib.sha256(f"{torch.__version__} {sys.version}".encode())
    for source in SOURCES:
        digest.update(source.read_bytes())
    return FOLDER / digest.hexdigest()[:12] / "tinyaccel_kernels.so"


def build() -> Path:
    """Build the library unless it is there; processes that want the same one wait for the first."""
    made = library()
    made.parent.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            from torch.utils import cpp_extension

            here = os.path.dirname(sys.executable)  # ninja may stand beside the interpreter
            os.environ["PATH"] = f"{here}{os.pathsep}{os.environ.get('PATH', '')}"
            work = made.parent / "work"
            work.mkdir(exist_ok=True)
            cpp_extension.load(
                name="tinyaccel_kernels",
                sources=[str(path) for path in SOURCES if path.suffix == ".cpp"],
                extra_cflags=["-O1", "-g0"],
                build_directory=str(work),
                is_python_module=False,
                with_cuda=False,
            )
            (work / "tinyaccel_kernels.so").rename(made)
            shutil.rmtree(work)
    return made


if __name__ == "__main__":
    print(build())
