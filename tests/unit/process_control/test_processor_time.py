"""``process_control.processor_time`` measures the processor time of a process together with
its descendants.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from conformance.process_control.processor_time import processor_seconds

COMPUTE = "import time\nwhile time.process_time() < 0.5: pass\n"


def seconds_of(program: str) -> float:
    """Run a program. When it prints ``ready``, return the processor seconds that it and its children have
    used.
    """
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        seconds = processor_seconds(process.pid)
        process.kill()
    assert seconds is not None
    return seconds


def test_a_process_that_sleeps_uses_no_time() -> None:
    before = processor_seconds(os.getpid())
    time.sleep(0.3)
    after = processor_seconds(os.getpid())
    assert before is not None and after is not None and after - before < 0.1


@pytest.mark.parametrize("waits", [True, False])
def test_children_count_whether_they_ended_or_not(waits: bool) -> None:
    child = COMPUTE + "print('ready', flush=True)\ntime.sleep(60)" * (not waits)
    program = (
        f"import subprocess, sys, time\nchild = subprocess.Popen([sys.executable, '-c', {child!r}])\n"
        + "child.wait()\nprint('ready', flush=True)\n" * waits
        + "time.sleep(60)"
    )
    assert 0.45 < seconds_of(program) < 5


def test_the_time_of_a_process_that_ended_is_unknown() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert processor_seconds(process.pid) is None
