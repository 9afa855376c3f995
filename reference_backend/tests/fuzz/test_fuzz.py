"""Test the device with random programs: for six seconds, or for an hour with CONFORMANCE_NIGHTLY=1.

`python -m fuzz` searches by hand.
"""

from __future__ import annotations

import os
import time

import pytest

from tests.support.nightly import NIGHTLY

from .program import Program, Step, make_program
from .search import MODES, FailingProgram, ProgramRunner, failing_programs, shrink

#: Seconds for which the test searches in each mode.
SECONDS = (3600 if NIGHTLY else 6) / len(MODES)


def _failure_message(mode: str, failure: FailingProgram) -> str:
    with ProgramRunner(mode) as runner:
        short = shrink(runner, failure.program)
    command = f"python -m fuzz --mode {mode} --only {failure.program.seed}"
    return f"{failure.reason}\n{short.text()}\n(in reference_backend/tests: {command})"


@pytest.mark.parametrize("mode", MODES)
def test_random_programs(mode):
    first = int(time.time()) if NIGHTLY else 1
    for failure in failing_programs(mode, first, SECONDS):
        pytest.fail(_failure_message(mode, failure))


def test_equal_seeds_give_equal_programs():
    assert make_program(17) == make_program(17)
    assert make_program(17) != make_program(18)
    assert any(len(make_program(seed).threads) > 1 for seed in range(20))


@pytest.fixture
def broken(monkeypatch, tmp_path):
    """Inject two faults into the workers: wrong values and a crash.

    Unary operators add 1 after a view was created. A step `read_on_host` whose last number is 999 aborts the
    process.
    """
    (tmp_path / "sitecustomize.py").write_text(BROKEN)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))


BROKEN = """
def spoil():
    from fuzz import program
    state = program.ThreadState
    view, unary, read = state.create_view, state.compute_unary, state.read_on_host
    def spoilt_view(self, *numbers):
        self.seen = True
        view(self, *numbers)
    def spoilt_unary(self, *numbers):
        unary(self, *numbers)
        if self.on_device and getattr(self, 'seen', False):
            self.tensors[-1].add_(1)
    def spoilt_read(self, *numbers):
        if self.on_device and numbers[3] == 999:
            import os
            os.abort()
        read(self, *numbers)
    state.create_view, state.compute_unary = spoilt_view, spoilt_unary
    state.read_on_host = spoilt_read
import sys
class Finder:
    def find_spec(self, name, path, target=None):
        if name == 'fuzz.worker':
            sys.meta_path.remove(self)
            spoil()
sys.meta_path.insert(0, Finder())
"""


def _one_thread_program(*kinds: str) -> Program:
    return Program(5, (tuple(Step(kind, (3, 1, 4, 1)) for kind in kinds),))


def test_a_wrong_value_is_detected_and_shrunk(broken):
    long = _one_thread_program(
        "create_tensor", "compute_binary", "create_view", "read_on_host", "compute_unary", "switch_stream"
    )
    with ProgramRunner("eager") as runner:
        assert "off by 1" in runner.failure_reason(long)
        short = shrink(runner, long)
        assert {step.kind for step in short.threads[0]} == {"create_view", "compute_unary"}
        assert short.text().splitlines()[0] == "seed 5"


def test_a_crash_is_a_failure_and_the_next_program_runs(broken):
    dead = Program(5, ((Step("read_on_host", (0, 0, 0, 999)),),))
    with ProgramRunner("eager") as runner:
        assert "the process ended with -6" in runner.failure_reason(dead)
        assert runner.failure_reason(_one_thread_program("create_tensor", "compute_unary")) == ""
