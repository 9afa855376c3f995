"""The interposer: an extension in C++ that stands before the kernels of the device under test.

It is built on demand from ``csrc/`` and belongs to no wheel: a device that is shipped knows nothing of it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Protocol, cast

_SOURCES = Path(__file__).with_name("csrc")
_NAME = "conformance_power"
#: Debug information and optimisation of values that are small take only time to build.
_FLAGS = ["-O1", "-g0"]

Description = tuple[str, int, int, int]


class Interposer(Protocol):
    """The functions of the extension; see ``csrc/interposer.cpp``."""

    def install(self, key: str, names: list[str]) -> None:
        """Stand before the kernels of overloads under a dispatch key."""

    def set_observed(self, place: int, faults: list[Description]) -> None:
        """Choose the faults whose conditions are looked for at a place."""

    def observe(self, on: bool) -> None:
        """Begin or end looking for conditions."""

    def take_met(self) -> list[tuple[int, int, int]]:
        """Return the conditions met since the last call: place, index of the fault, number of the dtype."""

    def activate(self, place: int, fault: Description) -> None:
        """Plant a fault at a place."""

    def deactivate(self) -> tuple[int, int]:
        """End the planted fault; return in how many calls its condition held, and how many it changed."""

    def install_guard(self, device: str, faults: list[tuple[str, str]]) -> None:
        """Stand before the guard of a device, for good; a fault is an index into ``faults``."""

    def observe_guard(self, on: bool) -> None:
        """Begin or end looking for conditions of the guard's faults."""

    def take_met_of_guard(self) -> list[int]:
        """Return the guard's faults whose conditions were met since the last call."""

    def activate_guard(self, fault: int) -> None:
        """Plant a fault of the guard."""

    def deactivate_guard(self) -> int:
        """End the planted fault of the guard; return how many calls it changed."""

    def install_autocast(self, key: str, device: str, names: list[str]) -> None:
        """Stand before the kernels of overloads under the key of a device's autocast."""

    def observe_autocast(self, on: bool) -> None:
        """Begin or end looking for conditions of autocast's faults."""

    def take_met_of_autocast(self) -> list[tuple[int, str]]:
        """Return place and kind of the conditions met since the last call; no kind for a call."""

    def activate_autocast(self, place: int, kind: str) -> None:
        """Plant a fault of autocast."""

    def deactivate_autocast(self) -> tuple[int, int]:
        """End autocast's fault; return in how many calls its condition held, and how many it changed."""


def load(folder: Path) -> Interposer:
    """Build the extension in a folder if it is not there yet, and load it; needs ninja and a C++ compiler."""
    from torch.utils import cpp_extension

    folder.mkdir(parents=True, exist_ok=True)
    # ninja of the environment whose Python runs, whether or not it is active.
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
