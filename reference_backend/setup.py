"""Builds the C++ core with torch's own extension builder, through ninja (and ccache where it is present)."""

from __future__ import annotations

import os
from pathlib import Path

import torch
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension, include_paths

HERE = Path(__file__).parent
SOURCES = sorted(str(path.relative_to(HERE)) for path in (HERE / "csrc").rglob("*.cpp"))
BUILD_INFO = HERE / "habana_frameworks" / "torch" / "_build_info.py"


def write_build_info() -> None:
    """What the core was built for; the loader compares it before it opens the core."""
    label = torch.__version__.partition("+")[2]
    text = (
        '"""Written by the build: the torch that the core was compiled against."""\n\n'
        f"TORCH_VERSION = {torch.__version__.partition('+')[0]!r}\n"
        f"CXX11_ABI = {bool(torch._C._GLIBCXX_USE_CXX11_ABI)!r}\n"
        f"FORK = {label.startswith(('git', 'hpu'))!r}\n"
    )
    if not BUILD_INFO.exists() or BUILD_INFO.read_text() != text:
        BUILD_INFO.write_text(text)


# Two parallel compilers of this size fill a small machine; ninja would start one per core and two more.
os.environ.setdefault("MAX_JOBS", str(os.cpu_count() or 1))
write_build_info()

EXTENSION = CppExtension(
    "habana_frameworks.torch._C",
    SOURCES,
    include_dirs=[str(HERE / "csrc")],
    extra_compile_args=[
        "-O2",
        "-g0",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-Wno-unused-parameter",
        "-fvisibility=hidden",
        # Warnings are errors in our code, not in torch's headers.
        *(f"-isystem{path}" for path in include_paths()),
    ],
)

setup(
    # Skipped where the extension has been built in place and only the metadata is wanted.
    ext_modules=[] if os.environ.get("HPU_REFERENCE_SKIP_EXTENSION") == "1" else [EXTENSION],
    cmdclass={"build_ext": BuildExtension},
)
