"""``runner.progress`` formats the progress line of a run."""

from __future__ import annotations

import io

import pytest

from conformance.results.run_state import RunState
from conformance.runner.progress import Progress


def progress_of(run_state: RunState, **expected: float) -> Progress:
    """Return the progress of a run of four results that starts empty and then receives the attempts of
    ``run_state``.
    """
    attempts, run_state.attempts = run_state.attempts, {}
    expected_seconds = expected or {f"p/s@{index}": 1.0 for index in range(4)}
    progress = Progress(run_state, expected_seconds, label="leg", out=io.StringIO())
    run_state.attempts.update(attempts)
    return progress


@pytest.mark.parametrize(
    ("verdicts", "says"),
    [
        (["pass", "skip"], "2/4 results (50 %), none failing, 1/s, 2 s left"),
        (["pass", "fail", "fail"], "3/4 results (75 %), 2 failing, expected ones included, 2/s, 1 s left"),
        # The crash took 30 s, and so will its second attempt. One of three results crashed, so the estimate
        # adds a third of a second attempt for the fourth result.
        (["pass", "fail", "crash"], "3/4 results (75 %), 2 failing, expected ones included, 2/s, 41 s left"),
        (
            ["pass", "fail", "crash", "timeout"],
            "4 results, 3 failing, expected ones included; second attempt 1 of 2, 1 min 00 s left",
        ),
        (
            ["pass", "pass", "pass", "crash at once"],
            "4 results, 1 failing, expected ones included; second attempt 1 of 1, 3 s left",
        ),
        (["pass"] * 4, "4 results, none failing; reference values are recomputed"),
        ([], "0/4 results (0 %), none failing, 0/s, ? left"),
    ],
)
def test_the_progress_line(verdicts, says):
    run_state = RunState()
    run_state.attempts = {
        f"p/s@{index}": [
            {
                "verdict": verdict.partition(" ")[0],
                "seconds": 30.0 if verdict in ("crash", "timeout") else 0.0 if verdict != "pass" else 0.5,
            }
        ]
        for index, verdict in enumerate(verdicts)
    }
    assert progress_of(run_state).progress_line(2.0) == f"leg: {says}"


def test_the_progress_line_counts_parity_apart() -> None:
    run_state = RunState()
    failures = {
        basis: [{"kind": "value", "message": "m", "basis": basis}] for basis in ("parity", "documented")
    }
    run_state.attempts = {
        f"p/s@{index}": [{"verdict": "fail", "seconds": 0.5, "failures": failures[basis]}]
        for index, basis in enumerate(("parity", "parity", "documented"))
    }
    progress = progress_of(run_state)
    assert "3 failing, expected ones included, 2/s" in progress.progress_line(2.0)
    run_state.header = {"parity": "apart"}
    assert "1 failing, expected ones included, 2 parity, 2/s" in progress.progress_line(2.0)
