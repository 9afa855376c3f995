"""The printed summary, the report page and the certificate state whether the device is simulated."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.certificate import certify
from conformance.report import page_data, summary
from conformance.results.document import results_document
from tests.support import sample_passing_leg


def _leg_of_device(simulated: bool) -> sample_passing_leg.Leg:
    leg = sample_passing_leg.leg()
    leg["target"]["simulated"] = simulated
    return leg


@pytest.mark.parametrize("simulated", [True, False])
def test_summary_report_and_certificate_state_a_simulated_device(simulated: bool, tmp_path: Path) -> None:
    leg = _leg_of_device(simulated)
    lines = list(summary.summary_lines(results_document([leg]), folder=tmp_path))
    assert ("mine (simulated), eager" in lines[0]) is simulated
    assert page_data.page_data(results_document([leg]))["legs"][0]["target"]["simulated"] is simulated
    _, certificate, _ = certify.issue_certificate(leg, sample_passing_leg.committed_manifest(), "bringup")
    assert (certificate["claim"]["notice"] is not None) is simulated
    assert certificate["statements"]["target"]["simulated"] is simulated
