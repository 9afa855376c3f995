"""``python -m tinyaccel_build``: build the kernels of the tiny device. The build needs a C++ compiler and
ninja.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import sys
from pathlib import Path

import torch

SOURCES = sorted((Path(__file__).parent / "tinyaccel" / "csrc").glob("*"))
#: Folder of the libraries. Each version of torch and of the sources has a library of its own.
FOLDER = Path(os.environ.get("TINYACCEL_BUILD", Path(__file__).parent / "tinyaccel" / "build"))


def built_library_path() -> Path:
    """Return the path of the library for the torch of this process and the current sources. The library may
    not exist yet.
    """
    digest = hashlib.sha256(f"{torch.__version__} {sys.version}".encode())
    for source in SOURCES:
        digest.update(source.read_bytes())
    return FOLDER / digest.hexdigest()[:12] / "tinyaccel_kernels.so"


def build_library() -> Path:
    """Build the library unless it exists, and return its path. If several processes need the same library,
    one builds it and the others wait.
    """
    module_path = built_library_path()
    module_path.parent.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not module_path.exists():
            from torch.utils import cpp_extension

            here = os.path.dirname(sys.executable)  # ninja may be in the folder of the interpreter
            os.environ["PATH"] = f"{here}{os.pathsep}{os.environ.get('PATH', '')}"
            work = module_path.parent / "work"
            work.mkdir(exist_ok=True)
            cpp_extension.load(
                name="tinyaccel_kernels",
                sources=[str(path) for path in SOURCES if path.suffix == ".cpp"],
                extra_cflags=["-O1", "-g0"],
                build_directory=str(work),
                is_python_module=False,
                with_cuda=False,
            )
            (work / "tinyaccel_kernels.so").rename(module_path)
            shutil.rmtree(work)
    return module_path


if __name__ == "__main__":
    print(build_library())
