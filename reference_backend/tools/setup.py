"""Build libhlml.so, which needs neither torch nor Python."""

from __future__ import annotations

from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

SOURCES = sorted(
    str(path.relative_to(Path(__file__).parent)) for path in Path(__file__).parent.glob("csrc/*.cpp")
)


class Library(build_ext):
    """Gives the library the file name by which programs load it."""

    def get_ext_filename(self, fullname: str) -> str:
        """Return the path below the build folder, without a Python version tag."""
        return str(Path(*fullname.split(".")).with_suffix(".so"))

    def get_export_symbols(self, ext: Extension) -> list[str]:
        """Return an empty list, because the library is not a Python module."""
        return []


setup(
    ext_modules=[
        Extension(
            "hpu_reference_tools.libhlml",
            SOURCES,
            extra_compile_args=["-std=c++20", "-O2", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden"],
            extra_link_args=["-pthread", "-static-libstdc++"],
        )
    ],
    cmdclass={"build_ext": Library},
)
