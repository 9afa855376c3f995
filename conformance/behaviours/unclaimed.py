"""Lines of a behaviour that need dtypes which the target does not declare.

A program names its dtypes where it likes, and most need no more than what a device has. So they are looked up
only when the device has refused a line: the program runs once more on the CPU, and each operator notes the
dtypes of its tensors beside the line that led to it.
"""

from __future__ import annotations

import dataclasses
import sys
import traceback
from collections.abc import Callable
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

from conformance.checking import claims, refusal
from conformance.checking.invocation import attempt, one_line
from conformance.target.target import Target


@dataclasses.dataclass(frozen=True)
class Raised:
    """An error without its frames, since a behaviour may watch what they hold.

    ``clean`` says whether it is a clean refusal; ``places`` are the (file, line) pairs that it passed, the
    innermost last.
    """

    text: str
    clean: bool
    places: tuple[tuple[str, int], ...]

    @staticmethod
    def of(error: Exception) -> Raised:
        """Return what is kept of an error."""
        frames = traceback.walk_tb(error.__traceback__)
        places = tuple((frame.f_code.co_filename, line) for frame, line in frames)
        return Raised(one_line(error), refusal.clean(error), places)

    def line_in(self, file: str) -> int | None:
        """Return the innermost line of a file at which it came up, or None if it did not pass there."""
        return next((line for name, line in reversed(self.places) if name == file), None)


class _Lines(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes for each line of a file which dtypes that a target does not declare its operators meet."""

    def __init__(self, target: Target, file: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.target = target
        self.file = file
        self.found: dict[int, frozenset[str]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if missing := claims.unclaimed(self.target, args, kwargs, result):
            frame = sys._getframe(1)
            while frame is not None and frame.f_code.co_filename != self.file:
                frame = frame.f_back  # type: ignore[assignment]
            if frame is not None:
                self.found[frame.f_lineno] = self.found.get(frame.f_lineno, frozenset()) | missing
        return result


def lines(target: Target, file: str, run: Callable[[], object]) -> dict[int, frozenset[str]]:
    """Return, by the line numbers of a file, the dtypes that a program needs on the CPU and a target lacks.

    What the program raises is left aside: the lines before it are known then.
    """
    if claims.declares_all(target):
        return {}
    mode = _Lines(target, file)
    with mode:
        attempt(run)
    return mode.found
