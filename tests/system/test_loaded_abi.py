"""The suite reads the C++ ABI of a backend from its loaded library, even if the backend's path is a symbolic
link.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import torch

CODE = """
import mmap, sys
from pathlib import Path
import torch
from conformance.worker import bring_up_and_plan
library = open(sys.argv[2], "rb")
mapped = mmap.mmap(library.fileno(), 0, prot=mmap.PROT_READ)  # as a loaded one is
print(bring_up_and_plan._cpp_abi_of_package(Path(sys.argv[1])))
"""


def test_the_abi_of_a_loaded_library_is_found_through_a_symbolic_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir()
    link.symlink_to(real)
    library = next((Path(torch.__file__).parent / "lib").glob("libtorch_python.so*"))
    (real / "core.so").write_bytes(library.read_bytes())
    (real / "other.so").write_bytes(b"of another torch, and not loaded")
    for path in (real, link):
        done = subprocess.run(
            [sys.executable, "-c", CODE, str(path), str(real / "core.so")],
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.split()[-1] == str(int(torch._C._GLIBCXX_USE_CXX11_ABI)), path
