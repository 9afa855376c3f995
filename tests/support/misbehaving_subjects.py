"""Artificial subjects, most of which misbehave on purpose. With them, tests check the runner and the workers
without a device and without torch's operator databases.

The environment variable ``ARTIFICIAL_SUBJECTS`` lists the subjects of a process, separated by commas.
``ARTIFICIAL_STATE`` is a folder for state that must outlive a process. To load the module, set
``CONFORMANCE_KINDS=artificial`` and use the option ``--extra tests.support.misbehaving_subjects``.
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
class ArtificialSubject:
    name: str
    kind: str = "artificial"


def is_first_call(name: str) -> bool:
    """Return True at the first call with this name in any process of the run, and False at later calls."""
    try:
        (Path(os.environ["ARTIFICIAL_STATE"]) / name).touch(exist_ok=False)
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


def pass_check(recorder: Recorder) -> None:
    recorder.compared(3)


def fail_with_wrong_value(recorder: Recorder) -> None:
    recorder.compared(3)
    recorder.fail(Kind.VALUE, "2 of 3 elements differ")


def fail_with_parity_deviation(recorder: Recorder) -> None:
    recorder.compared(3)
    recorder.fail(Kind.ERROR_TYPE, "raised ValueError, expected RuntimeError", basis=Basis.PARITY)


def fail_two_comparisons(recorder: Recorder) -> None:
    recorder.fail(Kind.VALUE, "element 0 differs")
    recorder.fail(Kind.METADATA, "strides differ")


def raise_key_error(recorder: Recorder) -> None:
    raise KeyError("a fault of the suite")


def fail_on_first_call(recorder: Recorder) -> None:
    recorder.compared(3)
    if is_first_call(f"fails-{recorder.id.dtype}"):
        recorder.fail(Kind.VALUE, "1 of 3 elements differs")


def fail_in_first_dtype(recorder: Recorder) -> None:
    """Fail in the first dtype and pass in the other."""
    (fail_with_wrong_value if is_first_dtype(recorder) else pass_check)(recorder)


def exit_process(recorder: Recorder) -> None:
    recorder.compared(1)
    sys.exit(0)


def disable_gradients(recorder: Recorder) -> None:
    recorder.compared(1)
    torch.set_grad_enabled(False)


def compare_nothing(recorder: Recorder) -> None:
    recorder.compared(0)


def report_unsupported(recorder: Recorder) -> None:
    recorder.unsupported("no such thing on this device")


def segfault_in_first_dtype(recorder: Recorder) -> None:
    recorder.compared(1)
    if is_first_dtype(recorder):
        ctypes.string_at(0)


def segfault_always(recorder: Recorder) -> None:
    recorder.compared(1)
    ctypes.string_at(0)


def hang_in_first_dtype(recorder: Recorder) -> None:
    recorder.compared(1)
    if is_first_dtype(recorder):
        time.sleep(100_000)


def kill_process_twice(recorder: Recorder) -> None:
    recorder.compared(1)
    if is_first_call("one crash") or is_first_call("another crash"):
        os.kill(os.getpid(), signal.SIGKILL)


def kill_process_once(recorder: Recorder) -> None:
    recorder.compared(1)
    if is_first_call("crash"):
        os.kill(os.getpid(), signal.SIGKILL)


def hang_holding_gil(recorder: Recorder) -> None:
    recorder.compared(1)
    if is_first_dtype(recorder):
        re.fullmatch(r"(a|aa)+b", "a" * 200)


def fail_and_break_device(recorder: Recorder) -> None:
    fail_with_wrong_value(recorder)
    if is_first_dtype(recorder):
        report_broken_device()


def pass_and_break_device(recorder: Recorder) -> None:
    recorder.compared(1)
    if is_first_dtype(recorder) and is_first_call("poison"):
        report_broken_device()


def exit_after_next_result(recorder: Recorder) -> None:
    """Exit the worker process after it has written the next result to the journal. A crash in queued device
    work has the same effect.
    """
    recorder.compared(1)
    if is_first_call("after"):
        writer = journal.Journal.write

        def write_and_exit(self: journal.Journal, event: str, **fields: object) -> None:
            writer(self, event, **fields)
            if event == "result":
                os._exit(9)

        journal.Journal.write = write_and_exit  # type: ignore[method-assign]


def send_reference_digest(recorder: Recorder) -> None:
    recorder.compared(1)
    value_digests.send_digest("artificial", recorder.id.dtype, 0, "d0")


def interrupt_runner(recorder: Recorder) -> None:
    """Send Ctrl-C to the process that started the run."""
    os.kill(int(os.environ["ARTIFICIAL_RUNNER"]), signal.SIGINT)
    time.sleep(60)


def kill_runner(recorder: Recorder) -> None:
    """Send SIGKILL to the runner during this check, but only once per run."""
    recorder.compared(1)
    if is_first_dtype(recorder) and is_first_call("kill"):
        os.kill(int(os.environ["ARTIFICIAL_RUNNER"]), signal.SIGKILL)
        time.sleep(60)


CHECKS: dict[str, Callable[[Recorder], None]] = {
    "good": pass_check,
    "always_crash": segfault_always,
    "hang": hang_in_first_dtype,
    "crash_beside": pass_check,
    "crash_twice": kill_process_twice,
    "fail": fail_with_wrong_value,
    "differs": fail_with_parity_deviation,
    "fails_twice": fail_two_comparisons,
    "fails_once": fail_on_first_call,
    "half": fail_in_first_dtype,
    "error": raise_key_error,
    "leaves": exit_process,
    "grad_off": disable_gradients,
    "vacuous": compare_nothing,
    "unsupported": report_unsupported,
    "segfault": segfault_in_first_dtype,
    "crash_once": kill_process_once,
    "hang_with_gil": hang_holding_gil,
    "poison": fail_and_break_device,
    "silent_poison": pass_and_break_device,
    "crash_after": exit_after_next_result,
    "oracle_good": send_reference_digest,
    "stops": interrupt_runner,
    "kills": kill_runner,
}


def _subject_names() -> list[str]:
    names = os.environ.get("ARTIFICIAL_SUBJECTS", "good").split(",")
    return [
        f"{name}{index}" for name in names for index in range(int(os.environ.get("ARTIFICIAL_COPIES", "1")))
    ]


def _both_dtypes(target: Target, subject: ArtificialSubject) -> list[str]:
    return ["float32", "int64"]


def _run_check_of_subject(target: Target, subject: ArtificialSubject, recorder: Recorder) -> None:
    CHECKS[subject.name.rstrip("0123456789")](recorder)


def _pass_or_crash(target: Target, subject: ArtificialSubject, recorder: Recorder) -> None:
    recorder.compared(1)
    if subject.name.startswith("always_"):
        _run_check_of_subject(target, subject, recorder)
    elif subject.name.startswith("crash_beside") and is_first_dtype(recorder):
        ctypes.string_at(0)


def _dtypes_of_lost_subjects(target: Target, subject: ArtificialSubject) -> list[str]:
    """Return both dtypes for subjects that always end their processes, and no dtype for other subjects."""
    return _both_dtypes(target, subject) if subject.name.startswith("always_") else []


catalogue.add_subjects("artificial", [ArtificialSubject(name) for name in _subject_names()], smoke=("good0",))
register(
    "acts",
    subject_kind="artificial",
    statement="the subject acts",
    level="core",
    applies=_both_dtypes,
    smoke=True,
)(_run_check_of_subject)
register(
    "beside", subject_kind="artificial", statement="nothing happens", level="training", applies=_both_dtypes
)(_pass_or_crash)
for name in ("third", "fourth"):
    register(
        name,
        subject_kind="artificial",
        statement="the subject acts again",
        level="core",
        applies=_dtypes_of_lost_subjects,
    )(_run_check_of_subject)

test_artificial = pytest_modules.cases("artificial")
