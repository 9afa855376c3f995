"""Artificial subjects that damage their process, for ``test_hostile_subjects.py``. Importing this module adds
them to ``misbehaving_subjects.CHECKS``.
"""

from __future__ import annotations

import atexit
import os
import sys
import tempfile
import threading
import time

import torch

from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from tests.support import misbehaving_subjects


class Unprintable(Exception):
    """An error whose ``__str__`` raises."""

    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


class Strange(BaseException):
    """An error that ``except Exception`` does not catch."""


def write_garbage_to_output(recorder: Recorder) -> None:
    """Write garbage to stdout and stderr, also directly to the file descriptors, with incomplete
    characters.
    """
    recorder.compared(1)
    for number in (1, 2):
        os.write(number, b"\x00\xff\xfe\x1b[2J\x1b]0;title\x07\r" * 2000 + b"\n")
    print('{"event": "result"}', file=sys.stderr)


def raise_base_exception(recorder: Recorder) -> None:
    raise Strange("not an Exception")


def raise_unprintable_error(recorder: Recorder) -> None:
    raise Unprintable


def raise_keyboard_interrupt(recorder: Recorder) -> None:
    """Raise KeyboardInterrupt although the user did not press Ctrl-C."""
    recorder.compared(1)
    if misbehaving_subjects.is_first_dtype(recorder):
        raise KeyboardInterrupt


def fail_with_odd_characters(recorder: Recorder) -> None:
    recorder.fail(
        Kind.VALUE, "a NUL \x00, half a character \ud800, an escape \x1b[31m, and a script </script>"
    )


def fail_with_long_message(recorder: Recorder) -> None:
    recorder.fail(Kind.VALUE, "word " * 1_000_000)


def record_many_failures(recorder: Recorder) -> None:
    for number in range(100_000):
        recorder.fail(Kind.VALUE, f"element {number}")


def close_standard_streams(recorder: Recorder) -> None:
    """Close the standard streams of the worker process."""
    recorder.compared(1)
    if misbehaving_subjects.is_first_dtype(recorder):
        for number in (0, 1, 2):
            os.close(number)


def remove_working_folder(recorder: Recorder) -> None:
    """Change to a folder, remove the folder, and clear the environment."""
    recorder.compared(1)
    if misbehaving_subjects.is_first_dtype(recorder):
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
        os.environ.clear()


def leave_endless_thread(recorder: Recorder) -> None:
    """Leave a thread that never ends. Python waits for the thread at exit."""
    recorder.compared(1)
    if misbehaving_subjects.is_first_dtype(recorder):
        threading.Thread(target=time.sleep, args=(3600,), daemon=False).start()


def hang_at_exit(recorder: Recorder) -> None:
    """Make the worker process hang when it exits."""
    recorder.compared(1)
    if misbehaving_subjects.is_first_dtype(recorder):
        atexit.register(time.sleep, 3600)


def leave_child_process(recorder: Recorder) -> None:
    """Leave a child process that inherits all open files of the worker and keeps them open."""
    recorder.compared(1)
    if misbehaving_subjects.is_first_dtype(recorder) and os.fork() == 0:
        time.sleep(3600)
        os._exit(0)


def retain_memory(recorder: Recorder) -> None:
    """Retain 256 MiB for every result."""
    recorder.compared(1)
    _KEPT.append(torch.ones(1 << 26))


def remove_suite_modules(recorder: Recorder) -> None:
    """Remove the suite's modules from ``sys.modules``."""
    recorder.compared(1)
    if misbehaving_subjects.is_first_dtype(recorder):
        for name in [name for name in sys.modules if name.startswith("conformance.")]:
            del sys.modules[name]


_KEPT: list[torch.Tensor] = []

CHECKS = {
    "babbles": write_garbage_to_output,
    "strange": raise_base_exception,
    "unprintable": raise_unprintable_error,
    "interrupts": raise_keyboard_interrupt,
    "odd_words": fail_with_odd_characters,
    "long_words": fail_with_long_message,
    "many_failures": record_many_failures,
    "deaf": close_standard_streams,
    "homeless": remove_working_folder,
    "threads": leave_endless_thread,
    "late": hang_at_exit,
    "children": leave_child_process,
    "leaks": retain_memory,
    "forgets": remove_suite_modules,
}
NAMES = tuple(CHECKS)
misbehaving_subjects.CHECKS.update(CHECKS)
