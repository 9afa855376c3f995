"""``conformance run`` in a separate process prints the expected output, writes the expected files, and
returns the expected exit code.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from expecttest import assert_expected_inline

from tests.support.cli_process import Run, environment_with_subjects, write_bare_target

Cli = Callable[..., Run]


def without_machine_dependent_parts(text: str) -> str:
    """Replace the torch version and the seconds in a run's output by constants."""
    text = re.sub(r"torch \d\.\d+\.\d+[a-z0-9.]*(\+\w+)?", "torch VERSION", text)
    return re.sub(r"\d+ s$", "N s", text, flags=re.M)


def test_the_printed_output_of_a_run(cli: Cli) -> None:
    run = cli("run", "-n", "1", subjects="good,fail,unsupported")
    assert_expected_inline(
        without_machine_dependent_parts(run.out),
        """\
bare, eager, torch VERSION: 8 pass, 2 unsupported, 2 fail in 6 cases, N s
2 unexpected, by cause (largest first):
  fail0: 2 fail
    acts/fail0@float32 (value) 2 of 3 elements differ
    conformance repro acts/fail0@float32 --target bare.toml --mode eager
unexpected results: exit 1
files: out/results.json, out/report.html, out/junit.xml
""",
    )
    assert run.code == 1
    assert {path.name for path in run.folder.iterdir()} >= {
        "journal.jsonl",
        "results.json",
        "junit.xml",
        "report.html",
    }
    suite = ElementTree.parse(run.folder / "junit.xml").getroot()[0]
    assert {key: suite.get(key) for key in ("tests", "failures", "errors", "skipped")} == {
        "tests": "6",
        "failures": "1",
        "errors": "0",
        "skipped": "1",
    }
    report = cli("report", str(run.folder))
    assert (report.code, without_machine_dependent_parts(report.out.replace(f"{run.folder}/", "out/"))) == (
        1,
        without_machine_dependent_parts(run.out),
    )


def test_a_difference_that_no_page_forbids_is_reported_apart(cli: Cli) -> None:
    run = cli("run", "-n", "1", "--parity", "apart", subjects="good,differs")
    assert (run.code, run.results["totals"]) == (0, {"parity": 2, "pass": 6})
    assert "2 differ from the CPU, and no documentation page says which is right (verdict parity;" in run.out
    case = next(item for item in ElementTree.parse(run.folder / "junit.xml").iter("testcase") if len(item))
    assert (case[0].tag, "expected RuntimeError" in str(case[0].text)) == ("system-out", True)
    assert cli("report", str(run.folder)).code == 0
    strict = cli("run", "-n", "1", subjects="good,differs")  # the target file makes parity a failure
    assert (strict.code, strict.results["totals"]) == (1, {"fail": 2, "pass": 6})
    same = cli("diff", str(run.folder), str(run.folder))
    assert (same.code, "no regressions" in same.out) == (0, True)


def test_results_omitted_by_k_are_counted(cli: Cli) -> None:
    run = cli("run", "-n", "1", "-k", "acts and int64 and not fail", subjects="good,fail")
    assert run.code == 0
    assert list(run.rows) == ["acts/good0@int64"]
    assert run.results["totals"] == {"skip": 7, "pass": 1}


def test_selecting_nothing_is_a_usage_error(cli: Cli) -> None:
    run = cli("run", "-k", "nothing_is_called_so")
    assert (run.code, run.err) == (
        2,
        "conformance run: -k 'nothing_is_called_so' matches none of 4 results; write a broader expression\n",
    )
    assert not run.folder.exists()


def test_an_expectation_that_matches_nothing_stops_the_run(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        'schema = 1\nname = "mine"\ndevice = "cpu"\nexpectations = "known.toml"\n'
    )
    (tmp_path / "known.toml").write_text(
        'schema = 1\n[[expect]]\nid = "acts/gone*@*"\nkind = "value"\nreason = "accuracy"\n'
        'link = "https://example.org/1"\nuntil = "2999-01-01"\n'
    )
    run = cli("run", "--target", "mine.toml")
    assert run.code == 2
    assert "1 expectations match no result: acts/gone*@* (value) in known.toml" in run.err


def test_patterns_of_the_target_file_that_match_nothing_stop_the_run(cli: Cli, tmp_path: Path) -> None:
    text = 'schema = 1\nname = "mine"\ndevice = "cpu"\n'
    (tmp_path / "mine.toml").write_text(text + '[unsupported]\n"acts/gone*@*" = "why"\n')
    run = cli("run", "--target", "mine.toml")
    assert (run.code, "unsupported 'acts/gone*@*' matches no result" in run.err) == (2, True)
    (tmp_path / "mine.toml").write_text(text + '[operators.gone]\ndtypes = ["bool"]\n')
    run = cli("run", "--target", "mine.toml")
    assert (run.code, "operators.gone is not the name of a checked operator" in run.err) == (2, True)


def test_expected_failures_are_expected_and_kept_apart_by_kind(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        'schema = 1\nname = "mine"\ndevice = "cpu"\nexpectations = "known.toml"\n'
    )
    entry = (
        '[[expect]]\nid = "acts/{}0@*"\nkind = "value"\nreason = "accuracy"\nlink = "https://example.org/1"\n'
    )
    entries = "".join(
        entry.format(name) + 'until = "2999-01-01"\n' for name in ("fail", "fails_twice", "good")
    )
    (tmp_path / "known.toml").write_text("schema = 1\n" + entries)
    run = cli("run", "--target", "mine.toml", "-n", "1", "--level", "core", subjects="fail,fails_twice,good")
    actual_verdicts = {result_id: row["verdict"] for result_id, row in run.rows.items()}
    assert actual_verdicts == {
        "acts/fail0@float32": "xfail",
        "acts/fail0@int64": "xfail",
        "acts/fails_twice0@float32": "fail",
        "acts/fails_twice0@int64": "fail",
        "acts/good0@float32": "xpass",
        "acts/good0@int64": "xpass",
    }
    assert run.code == 1


def test_ctrl_c_writes_the_results_so_far(tmp_path: Path) -> None:
    # A shell starts background processes with SIGINT ignored, and child processes inherit this setting. The
    # command below therefore restores Python's SIGINT handler.
    command = [sys.executable, "-c", "import os, signal; os.environ['ARTIFICIAL_RUNNER'] = str(os.getpid());"
               "signal.signal(signal.SIGINT, signal.default_int_handler);"
               "from conformance.cli import main; raise SystemExit(main())"]  # fmt: skip
    command += [
        "run",
        "--target",
        write_bare_target(tmp_path),
        "--extra",
        "tests.support.misbehaving_subjects",
        "-n",
        "1",
        "-o",
        str(tmp_path / "out"),
    ]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=environment_with_subjects(tmp_path, "good,stops"),
        capture_output=True,
        text=True,
        timeout=60,
    )
    run = Run(done, tmp_path / "out")
    assert (run.code, run.results["exit"], run.results["complete"]) == (3, 3, False)
    assert set(run.rows) == {
        f"{name}/good0@{dtype}" for name in ("acts", "beside") for dtype in ("float32", "int64")
    }
    assert run.results["legs"][0]["missing"] == {
        "count": 4,
        "first": ["acts/stops0@float32", "acts/stops0@int64", "beside/stops0@float32", "beside/stops0@int64"],
    }
    assert signal.getsignal(signal.SIGINT) is not None
    assert "incomplete: exit 3\nresume with: conformance run --resume out\n" in run.out


@pytest.mark.nightly("starts several runs")
def test_a_reference_value_that_cannot_be_recomputed_makes_the_run_incomplete(cli: Cli) -> None:
    run = cli("run", "-n", "1", "--level", "smoke", "-k", "acts", subjects="good,oracle_good")
    assert run.code == 0, "level smoke must select only the subject good"
    run = cli("run", "-n", "1", "--level", "core", subjects="oracle_good")
    assert run.code == 3
    assert run.results["complete"] is False
    differences = run.results["legs"][0]["oracle"]["differences"]
    assert len(differences) == 2
    assert differences[0].startswith(
        "reference value of artificial@float32, sample 0 cannot be computed without the backend"
    )


def test_an_output_folder_that_cannot_be_written_is_a_usage_error(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("in the way")
    run = cli("run", "-n", "1")
    assert run.code == 2
    assert "--output" in run.err
    assert "cannot be written (Not a directory); choose a writable folder" in run.err


def test_files_that_no_run_has_written_are_not_replaced(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "out" / "logs").mkdir(parents=True)
    (tmp_path / "out" / "logs" / "mine.log").write_text("keep")
    run = cli("run", "-n", "1")
    assert run.code == 2
    assert "contains logs, which no earlier run has written; use a different folder" in run.err
    assert (tmp_path / "out" / "logs" / "mine.log").read_text() == "keep"


@pytest.mark.nightly("starts several runs; test_resume.py replaces runs too")
def test_a_replaced_run_is_reported(cli: Cli, tmp_path: Path) -> None:
    first = cli("run", "-n", "1", "--level", "core", subjects="good,fail")
    started = first.results["legs"][0]["started"]
    assert "replaced" not in first.err
    for options, description in (
        (("--level", "core", "-k", "good"), "-k 'good'"),
        (("-k", "good"), "-k 'good'"),
        (("--level", "smoke"), "level smoke"),
    ):
        refused = cli("run", *options, subjects="good,fail")
        assert (refused.code, refused.err) == (
            2,
            f"conformance run: --output out contains an unrestricted run (bare, eager, level core, "
            f"{started}), which a run with {description} would replace; use a different folder with -o\n",
        )
    assert first.results["legs"][0]["started"] == started
    second_run = cli("run", "-n", "1", "--level", "core", subjects="good,fail")
    line = f"the results of an earlier run in out (bare, eager, level core, {started}) are replaced\n"
    assert (second_run.code, line in second_run.err) == (1, True), second_run.err


@pytest.mark.nightly("unit tests of expectations cover waivers")
def test_waived_faults_of_torch_do_not_fail_a_target_without_expectations(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "conformance", "run", "--target", write_bare_target(tmp_path), "-n", "1"]
    command += ["--level", "full", "-k", "bits/nn.functional.max_pool1d", "-o", "out"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    text = (tmp_path / "out" / "results.json").read_text()
    assert "waived for every backend" in text and "docs/torch-bugs.md#max_pool1d" in text


@pytest.mark.nightly("it runs the suite twice; unit tests cover the profile")
def test_a_time_profile_is_written_and_does_not_change_verdicts(cli: Cli) -> None:
    unprofiled = cli("run", "-n", "1", subjects="good,fail,crash")
    run = cli("run", "-n", "1", "--profile", subjects="good,fail,crash")
    assert (run.code, run.rows.keys()) == (unprofiled.code, unprofiled.rows.keys())
    assert [row["verdict"] for row in run.rows.values()] == [
        row["verdict"] for row in unprofiled.rows.values()
    ]
    assert "Time by phase: out/conformance-profile.html" in run.out and "profile" not in unprofiled.out
    (leg,) = json.loads((run.folder / "conformance-profile.json").read_text())["legs"]
    # The time profile includes the results of lost workers.
    assert leg["total"]["results"] == len(run.rows) > 0
    assert 'href="conformance-profile.html"' in (run.folder / "report.html").read_text()
    report = cli("report", str(run.folder))
    assert report.code == run.code and (run.folder / "conformance-profile.html").exists()
    merged = run.folder.parent / "merged"
    cli("merge", str(run.folder), "-o", str(merged))
    (leg,) = json.loads((merged / "conformance-profile.json").read_text())["legs"]
    assert leg["total"]["results"] == len(run.rows)
