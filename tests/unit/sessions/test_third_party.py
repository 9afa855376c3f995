"""``sessions.third_party`` reads the JUnit reports of third-party programs and writes the page of their
results.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from conformance.target import file as target_file
from sessions import interpreters
from sessions.third_party import backends, programs, reports

REPORT = """<testsuites><testsuite>
<testcase classname="a" name="passes"/>
<testcase classname="a" name="traces"><failure message="there is no profiler">at once</failure></testcase>
<testcase classname="a" name="breaks"><error message="x"/></testcase>
<testcase classname="a" name="expected"><skipped type="pytest.xfail"/></testcase>
<testcase classname="a" name="skipped"><skipped type="pytest.skip" message="/a/b/c.py wants
more, see https://x.org/a/b"/></testcase>
</testsuite></testsuites>"""
CLIENT = programs.ThirdPartyProgram(
    "program", "1.0", (), (), known_failures={"no profiler at once": "there is no profiler"}
)


def test_failures_are_grouped_by_known_cause(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(REPORT)
    outcome = reports.read_reports(CLIENT, "all", [report])
    assert len(outcome.passed) == 1 and outcome.expected == {"": ["a.expected"]}
    assert list(outcome.skipped.values()) == [["a.skipped"]]
    assert outcome.failed == {"there is no profiler": ["a.traces"], "": ["a.breaks"]}
    text = "\n".join(
        reports.page_lines([outcome, reports.ProgramTestResults(CLIENT, "all", note="source not available")])
    )
    assert "| program | 1.0 |  | all | 1 | 1 | 2 | 1 |" in text and "**Not explained**: 1" in text
    assert "source not available" in text and "there is no profiler: 1" in text
    assert "tests that the client expects to fail\n\nno reason given: 1\n\n```text\na.expected\n" in text
    assert '"c.py wants more, see https://x.org/a/b": 1' in text


def test_a_missing_report_is_a_failure(tmp_path: Path) -> None:
    outcome = reports.read_reports(CLIENT, "all", [tmp_path / "none.xml"])
    assert (
        outcome.failed[""] == ["pytest itself: it did not write the report none.xml"] and not outcome.passed
    )


def test_a_damaged_report_is_a_failure(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(REPORT + REPORT)  # as if two ranks wrote the file at the same time
    outcome = reports.read_reports(CLIENT, "all", [report])
    assert outcome.failed[""] == ["pytest itself: its report report.xml is damaged"] and not outcome.passed


def test_a_report_without_a_passed_test_is_a_failure(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text("<testsuites><testsuite/></testsuites>")
    assert reports.read_reports(CLIENT, "all", [report]).failed[""] == [
        "pytest itself: no test passed and no test failed"
    ]


AGAIN = """<testsuites><testsuite><testcase classname="a" name="breaks"/></testsuite></testsuites>"""


def test_a_test_that_passes_in_its_own_process_counts_as_passed(tmp_path: Path) -> None:
    report, rerun = tmp_path / "report.xml", tmp_path / "again.xml"
    report.write_text(REPORT)
    rerun.write_text(AGAIN)
    outcome = reports.read_reports(CLIENT, "all", [report], [rerun, tmp_path / "none.xml"], "3.10, 2.6.0")
    assert (len(outcome.passed), outcome.alone) == (2, ["a.breaks"])
    assert outcome.failed == {"there is no profiler": ["a.traces"]}
    text = "\n".join(reports.page_lines([outcome]))
    assert "| program | 1.0 | 3.10, 2.6.0 | all | 2 | 1 | 1 | 1 |" in text
    assert "passed in a separate process" in text and "a.breaks" in text


def test_a_test_that_is_skipped_in_its_own_process_has_not_passed(tmp_path: Path) -> None:
    report, rerun = tmp_path / "report.xml", tmp_path / "again.xml"
    report.write_text(REPORT)
    rerun.write_text(AGAIN.replace('"breaks"/>', '"breaks"><skipped type="pytest.skip"/></testcase>'))
    outcome = reports.read_reports(CLIENT, "all", [report], [rerun])
    assert (len(outcome.passed), outcome.alone) == (1, [])


def test_an_interpreter_must_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shim = tmp_path / "python3.9"
    shim.write_text("#!/bin/sh\necho not switched on >&2; exit 127\n")
    shim.chmod(0o755)
    inside = tmp_path / "root" / "versions" / "3.9.1" / "bin" / "python"
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "root"))
    interpreters.interpreter_of.cache_clear()
    assert interpreters.interpreter_of("3.9") is None
    inside.parent.mkdir(parents=True)
    inside.write_text("#!/bin/sh\necho 3.9\n")
    inside.chmod(0o755)
    interpreters.interpreter_of.cache_clear()
    assert interpreters.interpreter_of("3.9") == inside
    assert interpreters.interpreter_of(interpreters.OWN_PYTHON) == Path(sys.executable)
    interpreters.interpreter_of.cache_clear()


def test_a_test_passes_if_every_rank_passes(tmp_path: Path) -> None:
    report = tmp_path / f"0-0{reports.RANK}.xml"
    report.write_text(AGAIN)
    (tmp_path / "0-0-rank1.xml").write_text(AGAIN)
    assert len(reports.read_reports(CLIENT, "all", [report]).passed) == 1
    (tmp_path / "0-0-rank1.xml").write_text(
        AGAIN.replace('"breaks"/>', '"breaks"><error message="x"/></testcase>')
    )
    outcome = reports.read_reports(CLIENT, "all", [report])
    assert outcome.failed == {"": ["a.breaks"]} and not outcome.passed


def test_a_damaged_report_of_a_rerun_is_not_a_pass(tmp_path: Path) -> None:
    report, rerun = tmp_path / "report.xml", tmp_path / "again.xml"
    report.write_text(REPORT)
    rerun.write_text("")
    assert reports.read_reports(CLIENT, "all", [report], [rerun]).alone == []


def test_a_rerun_that_fails_in_one_rank_has_not_passed(tmp_path: Path) -> None:
    report, rerun = tmp_path / "report.xml", tmp_path / f"again{reports.RANK}.xml"
    report.write_text(REPORT)
    rerun.write_text(AGAIN)
    (tmp_path / "again-rank1.xml").write_text(REPORT)
    assert reports.read_reports(CLIENT, "all", [report], [rerun]).alone == []


def test_tests_that_no_run_passes_are_named() -> None:
    runs = (
        programs.ProgramTestRun("one", ("tests",)),
        programs.ProgramTestRun("two", ("tests",)),
        programs.ProgramTestRun("own", ("{backend}/t",)),
    )
    client = programs.ThirdPartyProgram("program", "1.0", (), runs, own_test_count=5)
    outcomes = [
        reports.ProgramTestResults(
            client, "one", passed=["a"], expected={"": ["b"]}, skipped={"": ["c", "d"]}
        ),
        reports.ProgramTestResults(client, "two", passed=["c"], failed={"": ["e"]}),
        reports.ProgramTestResults(client, "own", passed=["d"]),
    ]
    text = "\n".join(reports.page_lines(outcomes))
    assert (
        "3 of the 5 tests of program pass, or fail as program expects, in at least one run. The other" in text
    )
    assert "The other tests:\n\n```text\nd\ne\n```" in text and "**The runs of" not in text
    outcomes[1].failed.clear()
    assert "**The runs of program report 4 tests.**" in "\n".join(reports.page_lines(outcomes))
    outcomes[0].note = "source not available"
    assert "of the 5" not in "\n".join(reports.page_lines(outcomes))


def test_each_backend_has_a_target_file() -> None:
    for name, backend in backends.BACKENDS.items():
        file = target_file.load(name)
        assert (file.name, file.modes[:1]) == (backend.target, ("eager",))


def test_errors_of_the_suite_are_found(tmp_path: Path) -> None:
    rows = [{"id": "value/add@float32", "verdict": verdict} for verdict in ("pass", "fail", "error")]
    results = tmp_path / "results.json"
    results.write_text(json.dumps({"legs": [{"results": rows}]}))
    assert reports.errors_of_suite(results) == ["value/add@float32"]
    results.write_text(json.dumps({"legs": [{"results": rows[:2]}]}))
    assert reports.errors_of_suite(results) == []
