"""A sampling profiler of the worker, which divides the time of each result into phases.

A thread inspects the stack of the working thread every few milliseconds. The thread charges the time since
its last inspection to the phase of the innermost frame that has a phase. While an operator holds the GIL, the
sampling thread waits; then it finds the frame that called the operator. The division of one short result is
inexact. The sums over many results are accurate, because no time is dropped.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from types import CodeType, FrameType

_INTERVAL = 0.004
_DEPTH = 1000  # the maximum number of inspected frames; torch.compile has deep stacks
_ROOT = Path(__file__).parents[1]

#: Maps a file or folder of the suite to the phase of its frames. The first match counts. An empty phase means
#: that the time belongs to the phase of the caller.
_PHASE_BY_PATH = (
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
#: Functions whose phase differs from the phase of their file. An empty phase means the phase of the caller.
_PHASE_BY_FUNCTION = {
    ("samples/operators.py", "call"): "",
    ("samples/recorded_calls.py", "__torch_dispatch__"): "",
    ("framework/calls.py", "attempt_on"): "device",
    ("behaviours/behaviour.py", "run_on_cpu_reference"): "oracle",
    ("behaviours/behaviour.py", "run_on_target"): "device",
}


class StackSampler:
    """Measures the time per phase of the thread that creates the sampler, until :meth:`close`."""

    def __init__(self, interval: float = _INTERVAL) -> None:
        self._interval = interval
        self._thread = threading.get_ident()
        self._spent: dict[str, float] = {}
        self._active = False
        self._last = time.perf_counter()
        #: Phases by file and function name. Code objects cannot be keys, because the code objects of equal
        #: functions in two files are equal.
        self._phases: dict[tuple[str, str], str] = {}
        self._closed = threading.Event()
        self._sampler = threading.Thread(target=self._sample_until_closed, name="stack sampler", daemon=True)
        self._sampler.start()

    def begin_result(self) -> None:
        """Start the measurement of a result."""
        self._spent = {}
        self._last = time.perf_counter()
        self._active = True

    def end_result(self) -> dict[str, float]:
        """End the measurement of a result, and return the seconds of each phase."""
        self._active = False
        return {phase: round(seconds, 4) for phase, seconds in dict(self._spent).items()}

    def close(self) -> None:
        """Stop sampling."""
        self._closed.set()
        self._sampler.join()

    def _sample_until_closed(self) -> None:
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
            # The time of a worker function that a property calls directly belongs to the phase "property".
            own_code = own_code or phase == "property"
            if phase and phase != "property":
                return "property" if own_code and phase == "harness" else phase
            frame = frame.f_back
        return "property" if own_code else "harness"


def phase_of(code: CodeType) -> str:
    """Return the phase of a function's frames. The phase is empty for a function outside the suite, and for a
    function whose time belongs to its caller.
    """
    try:
        path = Path(code.co_filename).relative_to(_ROOT).as_posix()
    except ValueError:
        return ""
    if (path, code.co_name) in _PHASE_BY_FUNCTION:
        return _PHASE_BY_FUNCTION[path, code.co_name]
    return next(phase for start, phase in _PHASE_BY_PATH if path.startswith(start))
