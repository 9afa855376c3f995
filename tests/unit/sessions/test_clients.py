"""Reports of the tests of other programs, and the page that they become."""

from __future__ import annotations

from pathlib import Path

from sessions.clients import programs, reports

REPORT = """<testsuites><testsuite>
<testcase classname="a" name="passes"/>
<testcase classname="a" name="traces"><failure message="there is no profiler">at once</failure></testcase>
<testcase classname="a" name="breaks"><error message="x"/></testcase>
<testcase classname="a" name="expected"><skipped type="pytest.xfail"/></testcase>
<testcase classname="a" name="skipped"><skipped type="pytest.skip"/></testcase>
</testsuite></testsuites>"""
CLIENT = programs.Client("program", "1.0", (), (), misses={"no profiler at once": "there is no profiler"})


def test_failures_have_their_cause_or_none(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(REPORT)
    outcome = reports.read(CLIENT, "all", [report])
    assert (outcome.passed, outcome.expected, outcome.skipped) == (1, 1, 1)
    assert outcome.failed == {"there is no profiler": ["a.traces"], "": ["a.breaks"]}
    text = "\n".join(reports.page([outcome, reports.Outcome(CLIENT, "all", note="source not to be had")]))
    assert "| program | 1.0 | all | 1 | 1 | 2 | 1 |" in text and "**Not explained**: 1" in text
    assert "source not to be had" in text and "there is no profiler: 1" in text


def test_a_runner_without_a_report_has_failed(tmp_path: Path) -> None:
    outcome = reports.read(CLIENT, "all", [tmp_path / "none.xml"])
    assert outcome.failed[""] == ["the test runner, which wrote no report none.xml"] and not outcome.passed


def test_a_runner_that_passed_no_test_has_failed(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text("<testsuites><testsuite/></testsuites>")
    assert reports.read(CLIENT, "all", [report]).failed[""] == ["the test runner, which passed no test"]
