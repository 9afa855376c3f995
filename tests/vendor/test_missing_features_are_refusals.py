"""The suite reports features that the tiny device lacks as refusals, and never as faults of the suite."""

from __future__ import annotations

import collections
from pathlib import Path

from tests.vendor import harness

#: An expression for ``-k`` that selects subjects of every kind. Together, these subjects use random numbers,
#: generators, streams, events, pinned memory, autocast, views, gradients, factories, refusals, state and
#: printing.
CHOICE = (
    "/add@ or /bernoulli@ or /item@ or /nn.functional.dropout@ or /Stream@ or /Event@ or stream or event or "
    "/nn.Linear@ or /nn.Dropout@ or /SGD@ or /copying@ or /checkpoint@ or /rng@ or /printing@ or "
    "/autocast@ or pinned"
)
WORSE = {"error", "crash", "timeout", "vacuous"}


def test_missing_features_are_refusals_and_not_errors(tmp_path: Path) -> None:
    file = harness.write_target(tmp_path)
    options = ("--samples", "1", "-n", "2", "--timeout", "60")
    done = harness.run_conformance(tmp_path, "run", "--target", file, "-k", CHOICE, *options, "-o", "out")
    assert done.returncode == 1, done.stdout + done.stderr
    result_rows = harness.result_rows(tmp_path / "out")
    by_verdict = collections.defaultdict(list)
    for row in result_rows:
        by_verdict[row["verdict"]].append(row)
    bad = [(row["id"], row["failures"]) for verdict in WORSE for row in by_verdict[verdict]]
    assert not bad, bad
    assert len(by_verdict["pass"]) > 50
    assert len(by_verdict["unsupported"]) > 10
    # Every failure has a message, which names the refusal or the wrong value.
    assert all(row["failures"][0]["message"] for row in by_verdict["fail"])
    ids = {row["id"] for row in by_verdict["unsupported"]}
    assert "stream_query/Stream@any" in ids
    assert "event_timing/Event@any" in ids


def test_missing_kernels_of_the_first_stage_cause_no_error(tmp_path: Path) -> None:
    file = harness.write_target(tmp_path, asynchronous=False)
    options = ("--level", "bringup", "-k", "/add@ or /view@ or /clone@", "-n", "1", "-o", "out")
    done = harness.run_conformance(tmp_path, "run", "--target", file, *options, stage=1)
    verdicts = {
        row["id"]: row["verdict"] for row in harness.result_rows(tmp_path / "out") if row["verdict"] != "skip"
    }
    assert verdicts.pop("value/add@float32") == "fail", done.stdout
    assert verdicts.pop("value/clone@float32") == "pass"
    assert not WORSE & set(verdicts.values())
    assert "Could not run 'aten::add.out'" in done.stdout
