"""The manifest, the nox session and the nightly workflow name the same torch releases."""

from __future__ import annotations

import re

from conformance.plan.levels import manifest
from tests.support import ROOT

_SESSION = (ROOT / "sessions" / "releases.py").read_text()
RELEASES = re.findall(r'"(\d+\.\d+\.\d+)"', _SESSION)


def test_each_minor_of_the_manifest_has_a_release() -> None:
    assert tuple(map(manifest.minor_of, RELEASES)) == manifest.load().minors


def test_the_nightly_workflow_runs_every_release() -> None:
    workflow = (ROOT / ".github" / "workflows" / "nightly.yml").read_text()
    (listed,) = re.findall(r"^ +release: \[(.+)\]$", workflow, re.M)
    assert listed.split(", ") == RELEASES
