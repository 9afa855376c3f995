"""Artificial subjects, most of which misbehave on purpose. With them, tests check the runner and the workers
without a device and without torch's operator databases.

The environment variable ``SHAM`` lists the subjects of a process, separated by commas. ``SHAM_STATE`` is a
folder for state that must outlive a process. To load the module, set ``CONFORMANCE_KINDS=sham`` and use the
option ``--extra tests.support.misbehaving_subjects``.
"""

from __future__ import annotations

import ctypes
import dataclasses
import os
import re
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from conformance import pytest_modules
from conformance.device import known_answer_probe
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Basis, Kind
from conformance.oracle import value_digests
from conformance.results import journal
from conformance.subjects import catalogue
from conformance.target.target import Target


@dataclasses.dataclass(frozen=True)
class Subject:
    name: str
    kind: str = "sham"


def is_first_call(name: str) -> bool:
    """Return True at the first call with this name in any process of the run, and False at later calls."""
    try:
        (Path(os.environ["SHAM_STATE"]) / name).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def is_first_dtype(recorder: Recorder) -> bool:
    """Return whether the result is in the first dtype, float32. Subjects that terminate or hang their process
    do so only in this dtype, because each lost process costs seconds.
    """
    return recorder.id.dtype == "float32"


def report_broken_device() -> None:
    """Make the check of the device after each result report wrong additions, as on a broken device."""
    known_answer_probe.PARTS["add"] = lambda start: (start, [[0, 2, 4], [6, 8, 10]])


def good(recorder: Recorder) -> None:
    recorder.compared(3)


def fail(recorder: Recorder) -> None:
    recorder.compared(3)
    recorder.fail(Kind.VALUE, "2 of 3 elements differ")


def differs(recorder: Recorder) -> None:
    recorder.compared(3)
    recorder.fail(Kind.ERROR_TYPE, "raised ValueError, expected RuntimeError", basis=Basis.PARITY)


def fails_twice(recorder: Recorder) -> None:
    recorder.fail(Kind.VALUE, "element 0 differs")
    recorder.fail(Kind.METADATA, "strides differ")


def error(recorder: Recorder) -> None:
    raise KeyError("a fault of the suite")


def fails_once(recorder: Recorder) -> None:
    recorder.compared(3)
    if is_first_call(f"fails-{recorder.id.dtype}"):
        recorder.fail(Kind.VALUE, "1 of 3 elements differs")


def half(recorder: Recorder) -> None:
    """Fail in the first dtype and pass in the other."""
    (fail if is_first_dtype(recorder) else good)(recorder)


def leaves(recorder: Recorder) -> None:
    recorder.compared(1)
    sys.exit(0)


def grad_off(recorder: Recorder) -> None:
    recorder.compared(1)
    torch.set_grad_enabled(False)


def vacuous(recorder: Recorder) -> None:
    recorder.compared(0)


def unsupported(recorder: Recorder) -> None:
    recorder.unsupported("no such thing on this device")


def segfault(recorder: Recorder) -> None:
    recorder.compared(1)
    if is_first_dtype(recorder):
        ctypes.string_at(0)


def always_crash(recorder: Recorder) -> None:
    recorder.compared(1)
    ctypes.string_at(0)


def hang(recorder: Recorder) -> None:
    recorder.compared(1)
    if is_first_dtype(recorder):
        time.sleep(100_000)


def crash_twice(recorder: Recorder) -> None:
    recorder.compared(1)
    if is_first_call("one crash") or is_first_call("another crash"):
        os.kill(os.getpid(), signal.SIGKILL)


def crash_once(recorder: Recorder) -> None:
    recorder.compared(1)
    if is_first_call("crash"):
        os.kill(os.getpid(), signal.SIGKILL)


def hang_with_gil(recorder: Recorder) -> None:
    recorder.compared(1)
    if is_first_dtype(recorder):
        re.fullmatch(r"(a|aa)+b", "a" * 200)


def poison(recorder: Recorder) -> None:
    fail(recorder)
    if is_first_dtype(recorder):
        report_broken_device()


def silent_poison(recorder: Recorder) -> None:
    recorder.compared(1)
    if is_first_dtype(recorder) and is_first_call("poison"):
        report_broken_device()


def crash_after(recorder: Recorder) -> None:
    """Exit the worker process after it has written the next result to the journal. A crash in queued device
    work has the same effect.
    """
    recorder.compared(1)
    if is_first_call("after"):
        writer = journal.Journal.write

        def write(self: journal.Journal, event: str, **fields: object) -> None:
            writer(self, event, **fields)
            if event == "result":
                os._exit(9)

        journal.Journal.write = write  # type: ignore[method-assign]


def oracle_good(recorder: Recorder) -> None:
    recorder.compared(1)
    value_digests.send_digest("sham", recorder.id.dtype, 0, "d0")


def stops(recorder: Recorder) -> None:
    """Send Ctrl-C to the process that started the run."""
    os.kill(int(os.environ["SHAM_RUNNER"]), signal.SIGINT)
    time.sleep(60)


def kills(recorder: Recorder) -> None:
    """Send SIGKILL to the runner during this check, but only once per run."""
    recorder.compared(1)
    if is_first_dtype(recorder) and is_first_call("kill"):
        os.kill(int(os.environ["SHAM_RUNNER"]), signal.SIGKILL)
        time.sleep(60)


CHECKS: dict[str, Callable[[Recorder], None]] = {
    "good": good,
    "always_crash": always_crash,
    "hang": hang,
    "crash_beside": good,
    "crash_twice": crash_twice,
    "fail": fail,
    "differs": differs,
    "fails_twice": fails_twice,
    "fails_once": fails_once,
    "half": half,
    "error": error,
    "leaves": leaves,
    "grad_off": grad_off,
    "vacuous": vacuous,
    "unsupported": unsupported,
    "segfault": segfault,
    "crash_once": crash_once,
    "hang_with_gil": hang_with_gil,
    "poison": poison,
    "silent_poison": silent_poison,
    "crash_after": crash_after,
    "oracle_good": oracle_good,
    "stops": stops,
    "kills": kills,
}


def _subject_names() -> list[str]:
    names = os.environ.get("SHAM", "good").split(",")
    return [f"{name}{index}" for name in names for index in range(int(os.environ.get("SHAM_COPIES", "1")))]


def _both_dtypes(target: Target, subject: Subject) -> list[str]:
    return ["float32", "int64"]


def _check_acts(target: Target, subject: Subject, recorder: Recorder) -> None:
    CHECKS[subject.name.rstrip("0123456789")](recorder)


def _check_beside(target: Target, subject: Subject, recorder: Recorder) -> None:
    recorder.compared(1)
    if subject.name.startswith("always_"):
        _check_acts(target, subject, recorder)
    elif subject.name.startswith("crash_beside") and is_first_dtype(recorder):
        ctypes.string_at(0)


def _dtypes_of_lost_subjects(target: Target, subject: Subject) -> list[str]:
    """Return both dtypes for subjects that always end their processes, and no dtype for other subjects."""
    return _both_dtypes(target, subject) if subject.name.startswith("always_") else []


catalogue.add_subjects("sham", [Subject(name) for name in _subject_names()], smoke=("good0",))
register(
    "acts", subject_kind="sham", statement="the subject acts", level="core", applies=_both_dtypes, smoke=True
)(_check_acts)
register("beside", subject_kind="sham", statement="nothing happens", level="training", applies=_both_dtypes)(
    _check_beside
)
for name in ("third", "fourth"):
    register(
        name,
        subject_kind="sham",
        statement="the subject acts again",
        level="core",
        applies=_dtypes_of_lost_subjects,
    )(_check_acts)

test_sham = pytest_modules.cases("sham")
