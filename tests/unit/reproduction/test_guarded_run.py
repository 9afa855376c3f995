"""A guarded process reports a result whose process crashed."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support import python_path

#: The guard needs a process that has not loaded torch.
CODE = """
import os, signal, sys, time
from conformance.errors import UsageError
from conformance.reproduction.guarded_run import guarded

def work(watch):
    print("again" if watch.again else "first", flush=True)
    if watch.again:
        watch.trace.write_text("the last call")
    exec(sys.argv[1])
    return 5

print("code", guarded(work, 1.0))
"""
DIE = "os.kill(os.getpid(), signal.SIGSEGV)"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("watch.checked()", ["first", "code 5"]),
        ("watch.checked(); time.sleep(1.5)", ["first", "code 5"]),
        ("raise UsageError('unfit')", ["first", "conformance repro: unfit", "code 2"]),
        ("1 / 0", ["first", "ZeroDivisionError", "a fault of the suite, please report it", "code 3"]),
        (
            DIE,
            [
                "first",
                "the process died of SIGSEGV before the end of the result",
                "again",
                "done again call by call, the process died of SIGSEGV before the end",
                "the last call",
                "code 1",
            ],
        ),
        (
            f"watch.again or {DIE}",
            ["first", "again", "no snippet: done again call by call, it did not", "code 1"],
        ),
        (
            "watch.again or time.sleep(100)",
            [
                "first",
                "had to be ended after 1 s, before the end of the result",
                "again",
                "no snippet",
                "code 1",
            ],
        ),
        (
            f"watch.checked(); {DIE}",
            ["first", "the process died of SIGSEGV after that", "the result itself is above", "code 1"],
        ),
    ],
)
def test_the_end_of_the_guarded_process_is_reported(code: str, words: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE, code],
        env={**os.environ, "PYTHONPATH": python_path()},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
    )
    text = done.stdout
    for fragment in words:
        assert fragment in text, done.stdout
        text = text.partition(fragment)[2]
