"""JUnit files."""

from __future__ import annotations

from pathlib import Path

from conformance.report import junit
from tests.support.legs import three_results


def test_junit_xml_is_xml_whatever_the_messages_hold(tmp_path: Path) -> None:
    path = tmp_path / "junit.xml"
    junit.write(path, three_results())
    text = path.read_text()
    assert "\x00" not in text
    assert '<failure type="fail" message="fail: d">' in text
