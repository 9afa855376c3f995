"""The suite against a device that it was not written for: gaps read as gaps, never as faults of the suite."""

from __future__ import annotations

import collections
from pathlib import Path

from tests.vendor import harness

#: Subjects of every kind; together they meet random numbers, generators, streams, events, pinning, autocast,
#: views, gradients, factories, refusals, state and printing.
CHOICE = (
    "/add@ or /bernoulli@ or /item@ or /nn.functional.dropout@ or /Stream@ or /Event@ or stream or event or "
    "/nn.Linear@ or /nn.Dropout@ or /SGD@ or /copying@ or /checkpoint@ or /rng@ or /printing@ or "
    "/autocast@ or pinned"
)
WORSE = {"error", "crash", "timeout", "vacuous"}


def test_what_is_absent_is_refused_and_nothing_is_an_error(tmp_path: Path) -> None:
    file = harness.target(tmp_path)
    words = ("--samples", "1", "-n", "2", "--timeout", "60")
    done = harness.conformance(tmp_path, "run", "--target", file, "-k", CHOICE, *words, "-o", "out")
    assert done.returncode == 1, done.stdout + done.stderr
    found = harness.rows(tmp_path / "out")
    by_verdict = collections.defaultdict(list)
    for row in found:
        by_verdict[row["verdict"]].append(row)
    bad = [(row["id"], row["failures"]) for word in WORSE for row in by_verdict[word]]
    assert not bad, bad
    assert len(by_verdict["pass"]) > 50
    assert len(by_verdict["unsupported"]) > 10
    # Every failure says what was refused or what was wrong.
    assert all(row["failures"][0]["message"] for row in by_verdict["fail"])
    ids = {row["id"] for row in by_verdict["unsupported"]}
    assert "stream_query/Stream@any" in ids
    assert "event_timing/Event@any" in ids


def test_at_its_first_stage_it_is_refused_as_a_whole(tmp_path: Path) -> None:
    file = harness.target(tmp_path, asynchronous=False)
    words = ("--level", "bringup", "-k", "/add@ or /view@ or /clone@", "-n", "1", "-o", "out")
    done = harness.conformance(tmp_path, "run", "--target", file, *words, stage=1)
    verdicts = {
        row["id"]: row["verdict"] for row in harness.rows(tmp_path / "out") if row["verdict"] != "skip"
    }
    assert verdicts.pop("value/add@float32") == "fail", done.stdout
    assert verdicts.pop("value/clone@float32") == "pass"
    assert not WORSE & set(verdicts.values())
    assert "Could not run 'aten::add.out'" in done.stdout
