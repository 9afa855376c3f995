"""``conformance run --seed`` draws other samples, and records the seed for later commands."""

from __future__ import annotations

import zlib
from pathlib import Path

from conformance.report.summary import leg_title, repro_command
from tests.support.cli_process import conformance

NAME = "acts/fail0@float32"


def test_a_run_without_the_option_has_the_seed_of_the_release(tmp_path: Path) -> None:
    # An environment variable must not silently change the seed of a run.
    run = conformance(tmp_path, "run", "-n", "1", subjects="fail", CONFORMANCE_SEED="5")
    assert run.results["legs"][0]["seed"] == 0
    assert run.rows[NAME]["seed"] == zlib.crc32(b"fail0@float32")
    assert "--seed" not in run.out


def test_a_run_records_its_seed_and_passes_it_to_its_workers(tmp_path: Path) -> None:
    run = conformance(tmp_path, "run", "-n", "1", "--seed", "7", subjects="fail")
    (leg,) = run.results["legs"]
    assert leg["seed"] == 7 and leg_title(leg).endswith(", seed 7")
    assert ", seed 7" in run.out and "--seed 7" in run.out
    assert repro_command(NAME, "cpu", leg).endswith(" --seed 7")
    assert run.rows[NAME]["seed"] == zlib.crc32(b"fail0@float32#7")
    again = conformance(tmp_path, "repro", NAME, "--no-snippet", "--seed", "7", subjects="fail")
    assert f"seed: {run.rows[NAME]['seed']}" in again.out
    recorded = conformance(
        tmp_path, "repro", NAME, "--no-snippet", "--results", str(run.folder), subjects="fail"
    )
    assert f"seed: {run.rows[NAME]['seed']}" in recorded.out


def test_a_rerun_keeps_the_seed(tmp_path: Path) -> None:
    conformance(tmp_path, "run", "-n", "1", "--seed", "7", subjects="fail")
    rerun = ("run", "--rerun-failed", str(tmp_path / "out"))
    refused = conformance(tmp_path, *rerun, "--seed", "8", subjects="fail")
    assert refused.code == 2 and "--seed is 8, but the run in" in refused.err
    repeated = conformance(tmp_path, *rerun, subjects="fail")
    assert repeated.code == 1 and repeated.results["legs"][0]["seed"] == 7
    assert repeated.rows[NAME]["seed"] == zlib.crc32(b"fail0@float32#7")
