"""``report.junit`` writes valid XML, with one failure message for all cases of a cause."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from conformance.report import junit
from conformance.results import document
from tests.support.sample_legs import leg, results_with_three_verdicts


def test_the_file_is_valid_xml_for_any_message(tmp_path: Path) -> None:
    path = tmp_path / "junit.xml"
    junit.write_junit(path, results_with_three_verdicts())
    text = path.read_text()
    assert "\x00" not in text
    assert '<failure type="fail" message="fail: s1: &lt;/script&gt;&lt;b&gt;&amp;">' in text


def test_cases_of_one_cause_have_one_message(tmp_path: Path) -> None:
    rows = [
        {
            "id": f"value/scan{number}@float32",
            "verdict": "fail",
            "seconds": 0.1,
            "failures": [{"kind": "exception", "message": f"it raised RuntimeError: lost lane {number}"}],
        }
        for number in range(3)
    ]
    cases = {str(row["id"]).rpartition("@")[0]: "fail" for row in rows}
    path = tmp_path / "junit.xml"
    junit.write_junit(path, document.results_document([leg("eager", results=rows, cases=cases, exit=1)]))
    messages = [element.get("message") for element in ElementTree.parse(path).iter("failure")]
    assert len(messages) == 3 and len(set(messages)) == 1
