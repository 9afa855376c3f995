"""A simulated device is named as one in summary, report and certificate."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.certificate import issue
from conformance.report import compact, summary
from conformance.results.document import document
from tests.support import certifiable


def _leg(simulated: bool) -> certifiable.Leg:
    leg = certifiable.leg()
    leg["target"]["simulated"] = simulated
    return leg


@pytest.mark.parametrize("simulated", [True, False])
def test_summary_report_and_certificate_say_it(simulated: bool, tmp_path: Path) -> None:
    leg = _leg(simulated)
    lines = list(summary.lines(document([leg]), folder=tmp_path))
    assert ("mine (simulated), eager" in lines[0]) is simulated
    assert compact.compact(document([leg]))["legs"][0]["target"]["simulated"] is simulated
    _, certificate, _ = issue.issue(leg, certifiable.known(), "bringup")
    assert (certificate["claim"]["notice"] is not None) is simulated
    assert certificate["statements"]["target"]["simulated"] is simulated
