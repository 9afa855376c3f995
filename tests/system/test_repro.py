"""``conformance repro`` prints one result in full, and reports errors of the user."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from expecttest import assert_expected_inline

from tests.support.cli_process import Run, conformance, write_bare_target

ADD = "value/add@float32"


def run_conformance(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "conformance", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)


def usage_error_of(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 2, (done.returncode, done.stdout[-500:], done.stderr[-2000:])
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1 and len(lines[0]) < 500, done.stderr[-2000:]
    return lines[0]


@pytest.mark.nightly("each case starts a process", every=3)
@pytest.mark.parametrize(
    ("result_id", "message"),
    [
        ("value/ad@float32", "no operator is called 'ad'; similar: add"),
        ("valu/add@float32", "no property is called 'valu'; similar: value"),
        ("value/*@float32", "no operator is called '*'"),
    ],
)
def test_repro_of_a_misspelt_id(tmp_path: Path, result_id: str, message: str) -> None:
    assert message in usage_error_of(run_conformance(tmp_path, "repro", result_id, "--target", "cpu"))


def test_repro_of_a_sample_that_does_not_exist(tmp_path: Path) -> None:
    done = run_conformance(tmp_path, "repro", ADD, "--target", "cpu", "--sample", "999")
    assert "--sample 999 does not exist" in usage_error_of(done)


def test_repro_says_why_it_writes_no_snippet(tmp_path: Path) -> None:
    done = run_conformance(tmp_path, "repro", ADD, "--target", "cpu", "--snippet", "s.py")
    assert done.returncode == 0 and "no snippet is written: the verdict is pass" in done.stdout


def test_repro_rejects_an_unwritable_snippet_path_before_it_runs(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = run_conformance(tmp_path, "repro", ADD, "--target", "cpu", "--snippet", "file/s.py")
    assert "--snippet file cannot be written" in usage_error_of(done)


Cli = Callable[..., Run]


def test_repro_shows_everything_about_one_result(cli: Cli) -> None:
    run = cli("repro", "acts/fails_twice0@int64", "--no-snippet", subjects="fails_twice")
    assert_expected_inline(
        run.out,
        """\
acts/fails_twice0@int64: the subject acts
verdict: fail
seed: 303588048
comparisons: 0
value: element 0 differs
metadata: strides differ
""",
    )
    assert run.code == 1
    assert cli("repro", "acts/nothing0@int64").err == (
        "conformance repro: acts/nothing0@int64 does not exist: no artificial is called 'nothing0'; "
        "see the ids in the results.json of a run\n"
    )


def test_a_deviation_of_parity_alone_is_reported_as_a_run_reports_it(tmp_path: Path) -> None:
    target = tmp_path / write_bare_target(tmp_path)
    strict = target.read_text()
    for parity, code, verdict in (("strict", 1, "fail"), ("apart", 0, "parity")):
        target.write_text(strict.replace('parity = "strict"', f'parity = "{parity}"'))
        arguments = ("--target", target.name, "--no-snippet")
        run = conformance(tmp_path, "repro", "acts/differs0@float32", *arguments, subjects="differs")
        assert run.code == code and f"verdict: {verdict}" in run.out
