"""Build and load the interposer: a C++ extension that runs in front of the device's kernels.

The extension is built from ``csrc/`` on demand. No wheel contains it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Protocol, cast

_SOURCES = Path(__file__).with_name("csrc")
_NAME = "conformance_mutation"
#: Debug information and higher optimisation only lengthen the build.
_FLAGS = ["-O1", "-g0"]

MutantDescription = tuple[str, int, int, int]


class Interposer(Protocol):
    """The functions of the extension; see ``csrc/interposer.cpp``."""

    def install(self, key: str, names: list[str]) -> None:
        """Interpose the kernels of overloads at a dispatch key."""

    def set_observed(self, point: int, mutants: list[MutantDescription]) -> None:
        """Select the mutants that are observed at a point."""

    def observe(self, on: bool) -> None:
        """Start or stop recording triggered mutants."""

    def take_triggered(self) -> list[tuple[int, int, int]]:
        """Return the mutants that were triggered since this method was last called: point, index of the
        mutant, dtype number.
        """

    def activate(self, point: int, mutant: MutantDescription) -> None:
        """Enable a mutant at a point."""

    def deactivate(self) -> tuple[int, int]:
        """Disable the mutant; return the numbers of triggered and altered calls."""

    def install_guard(self, device: str, mutants: list[tuple[str, str]]) -> None:
        """Interpose the guard of a device permanently. ``mutants`` are the guard's mutants."""

    def observe_guard(self, on: bool) -> None:
        """Start or stop recording triggered mutants of the guard."""

    def take_triggered_guard_mutants(self) -> list[int]:
        """Return the mutants of the guard that were triggered since this method was last called."""

    def activate_guard(self, mutant: int) -> None:
        """Enable a mutant of the guard, given by its index in the argument of `install_guard`."""

    def deactivate_guard(self) -> int:
        """Disable the mutant of the guard; return the number of altered calls."""

    def install_autocast(self, key: str, device: str, names: list[str]) -> None:
        """Interpose the kernels of overloads at the device's autocast key."""

    def observe_autocast(self, on: bool) -> None:
        """Start or stop recording triggered mutants of autocast."""

    def take_triggered_autocast_mutants(self) -> list[tuple[int, str]]:
        """Return pairs (point, operator) for the events since this method was last called.

        A triggered mutant is recorded as its point and its operator. A called point is also recorded, with an
        empty operator.
        """

    def activate_autocast(self, point: int, mutation_operator: str) -> None:
        """Enable a mutant of autocast."""

    def deactivate_autocast(self) -> tuple[int, int]:
        """Disable the mutant of autocast; return the numbers of triggered and altered calls."""


def build_and_load(folder: Path) -> Interposer:
    """Build the extension in ``folder`` if necessary, and load it. Requires ninja and a C++ compiler."""
    from torch.utils import cpp_extension

    folder.mkdir(parents=True, exist_ok=True)
    # Find the ninja of the running Python's environment, even if the environment is not activated.
    programs = [str(Path(sys.executable).parent), os.environ.get("PATH", "")]
    os.environ["PATH"] = os.pathsep.join(filter(None, programs))
    module = cpp_extension.load(
        _NAME,
        [str(path) for path in sorted(_SOURCES.glob("*.cpp"))],
        build_directory=str(folder),
        extra_cflags=_FLAGS,
        verbose=False,
    )
    return cast("Interposer", module)
