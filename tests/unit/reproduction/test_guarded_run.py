"""``reproduction.guarded_run`` runs work in a guarded process and reports how the process ended."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support import python_path

#: Script that runs ``work`` in a guarded process. The guard forks, so the script must not have loaded torch.
CODE = """
import os, signal, sys, time
from conformance.errors import UsageError
from conformance.reproduction.guarded_run import run_guarded

def work(watch):
    print("again" if watch.again else "first", flush=True)
    if watch.again:
        watch.trace.write_text("the last call")
    exec(sys.argv[1])
    return 5

print("code", run_guarded(work, 1.0))
"""
DIE = "os.kill(os.getpid(), signal.SIGSEGV)"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("watch.report_checked()", ["first", "code 5"]),
        ("watch.report_checked(); time.sleep(1.5)", ["first", "code 5"]),
        ("raise UsageError('unfit')", ["first", "conformance repro: unfit", "code 2"]),
        ("1 / 0", ["first", "ZeroDivisionError", "a fault of the suite, please report it", "code 3"]),
        (
            DIE,
            [
                "first",
                "the process died of SIGSEGV before the result",
                "again",
                "in the second run, the process died of SIGSEGV before the result",
                "the last call",
                "code 1",
            ],
        ),
        (
            f"watch.again or {DIE}",
            ["first", "again", "no snippet: the second run did not fail", "code 1"],
        ),
        (
            "watch.again or time.sleep(100)",
            [
                "first",
                "was stopped after 1 s, before the result",
                "again",
                "no snippet",
                "code 1",
            ],
        ),
        (
            f"watch.report_checked(); {DIE}",
            [
                "first",
                "the process died of SIGSEGV after the result",
                "the result is printed above",
                "code 1",
            ],
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
