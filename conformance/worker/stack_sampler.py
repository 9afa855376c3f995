"""Sampling of the worker's stack: the phases that the time of each result goes into.

A thread looks at the stack of the working thread every few milliseconds, and charges the time since its last
look to the innermost frame that belongs to a phase. While an operator holds the interpreter's lock the thread
waits, and then finds the frame that called it. The share of one short result is left to chance; the sums of
many are not, as no time is dropped.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from types import CodeType, FrameType

_INTERVAL = 0.004
_DEPTH = 1000  # torch.compile goes deep
_ROOT = Path(__file__).parents[1]

#: Phase of the frames of a file or folder of the suite, the first that fits. An empty one has no phase: what
#: called it has.
_PLACES = (
    ("samples/", "samples"),
    ("subjects/", "samples"),
    ("oracle/", "oracle"),
    ("framework/compare.py", "compare"),
    ("framework/tolerances/", "compare"),
    ("framework/", ""),
    ("behaviours/observation.py", "compare"),
    ("behaviours/", ""),
    ("target/", "device"),
    ("device/", "device"),
    ("distributed/", "device"),
    ("properties/", "property"),
    ("", "harness"),
)
#: Functions that have the phase of their caller (an empty one), or one of their own, whatever their file.
_FUNCTIONS = {
    ("samples/operators.py", "call"): "",
    ("samples/recorded_calls.py", "__torch_dispatch__"): "",
    ("framework/calls.py", "attempt_on"): "device",
    ("behaviours/behaviour.py", "on_cpu"): "oracle",
    ("behaviours/behaviour.py", "on_target"): "device",
}


class StackSampler:
    """Charges the time of the thread that makes it to results and phases, until it is closed."""

    def __init__(self, interval: float = _INTERVAL) -> None:
        self._interval = interval
        self._thread = threading.get_ident()
        self._spent: dict[str, float] = {}
        self._active = False
        self._last = time.perf_counter()
        #: By file and function: equal functions of two files are equal code objects.
        self._phases: dict[tuple[str, str], str] = {}
        self._closed = threading.Event()
        self._sampler = threading.Thread(target=self._run, name="stack sampler", daemon=True)
        self._sampler.start()

    def begin(self) -> None:
        """Begin a result."""
        self._spent = {}
        self._last = time.perf_counter()
        self._active = True

    def end(self) -> dict[str, float]:
        """End the result; return the seconds charged to each phase that was seen."""
        self._active = False
        return {phase: round(seconds, 4) for phase, seconds in dict(self._spent).items()}

    def close(self) -> None:
        """End the sampling."""
        self._closed.set()
        self._sampler.join()

    def _run(self) -> None:
        while not self._closed.wait(self._interval):
            frame = sys._current_frames().get(self._thread)
            now = time.perf_counter()
            spent, self._last = now - self._last, now
            if frame is not None and self._active:
                phase = self._phase_of(frame)
                self._spent[phase] = self._spent.get(phase, 0.0) + spent

    def _phase_of(self, frame: FrameType | None) -> str:
        own_code = False
        for _ in range(_DEPTH):
            if frame is None:
                break
            code = frame.f_code
            key = (code.co_filename, code.co_name)
            phase = self._phases.get(key)
            if phase is None:
                phase = self._phases[key] = phase_of(code)
            # What a property calls directly belongs to the phase that the property runs in, if there is one.
            own_code = own_code or phase == "property"
            if phase and phase != "property":
                return "property" if own_code and phase == "harness" else phase
            frame = frame.f_back
        return "property" if own_code else "harness"


def phase_of(code: CodeType) -> str:
    """Phase of the frames of a function; empty for a file outside the suite and for a helper."""
    try:
        place = Path(code.co_filename).relative_to(_ROOT).as_posix()
    except ValueError:
        return ""
    if (place, code.co_name) in _FUNCTIONS:
        return _FUNCTIONS[place, code.co_name]
    return next(phase for start, phase in _PLACES if place.startswith(start))
