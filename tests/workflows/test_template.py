"""The template as a vendor would copy it in, from the checkout to signed results, for the tiny device."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import shutil
import site
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, copied

from conformance.ci import pull
from conformance.ci.template import render
from conformance.site import registry, submissions

SUITE = "conformance/suite"
FOREIGN = ROOT / "tests" / "foreign"


@pytest.fixture
def machine(tmp_path_factory, monkeypatch) -> Path:
    """The interpreter of a machine with the vendor's device: this one's torch, and the vendor's package."""
    folder = tmp_path_factory.mktemp("machine")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    (place,) = folder.glob("lib/python*/site-packages")
    shutil.copytree(FOREIGN / "tinyaccel", place / "tinyaccel")
    shutil.copy(FOREIGN / "tinyaccel_build.py", place)
    (place / "torch.pth").write_text("\n".join(site.getsitepackages()) + "\n")
    monkeypatch.setenv("TINYACCEL_BUILD", str(place / "tinyaccel" / "build"))
    python = folder / "bin" / "python"
    subprocess.run([str(python), "-m", "tinyaccel_build"], check=True, cwd=folder)
    return python


@pytest.fixture
def vendor(runner, machine, tmp_path):
    """Runs the template in the vendor's repository, whose device is at a stage of its growth."""
    sys.path.insert(0, str(FOREIGN))
    try:
        import harness
    finally:
        sys.path.remove(str(FOREIGN))
    suite = tmp_path / "suite"
    copied(suite)
    place = runner.root / "conformance"  # the name of the suite's own package: what is installed is to be run
    place.mkdir(parents=True)
    harness.target(place)
    text = render(
        suite=f"{SUITE}@{'a' * 40}",
        target="conformance/tiny.toml",
        runner=["self-hosted", "tiny"],
        python=str(machine),
        modes="eager",
        level="bringup",
        package="tinyaccel",
    )
    runner.workflow("conformance.yml", text)
    runner.publish(runner.root)
    return lambda: runner("conformance.yml", repositories={SUITE: suite})["jobs"]


def artifact(runner) -> Path:
    return runner.state / "artifacts" / pull.ARTIFACT


def signed(runner) -> bool:
    digest = hashlib.sha256((artifact(runner) / "results.json").read_bytes()).hexdigest()
    return (runner.state / "attestations" / digest).exists()


def gets_to_the_site(runner, tmp_path, monkeypatch):
    """By the registry's word for who the vendor is, and by the signature."""
    repository, workflow, commit = "owner/name", ".github/workflows/conformance.yml", "c" * 40
    today = datetime.date.today()
    known = registry.Backend(
        "tiny",
        "Tiny",
        device="tiny",
        repository=repository,
        workflow=workflow,
        expires=today + datetime.timedelta(90),
    )
    gh = tmp_path / "gh"
    shutil.copytree(artifact(runner), gh / repository / "artifacts" / "7" / pull.ARTIFACT)
    run = {"id": 7, "path": workflow, "head_sha": commit, "event": "schedule", "head_branch": "main"}
    run |= {"head_repository": {"full_name": repository}, "listed": "main"}
    (gh / repository / "runs.json").write_text(json.dumps([run]))
    (gh / "attestations").mkdir()
    for one in (runner.state / "attestations").iterdir():
        (gh / "attestations" / one.name).write_text(f"{repository}/{workflow} refs/heads/main {commit}")
    monkeypatch.setenv("FAKE_GH", str(gh))
    monkeypatch.setenv("GH_TOKEN", "x")
    monkeypatch.setenv("PATH", str(runner.programs), prepend=os.pathsep)
    monkeypatch.setattr(registry, "load", lambda: {"tiny": known})
    (line,) = pull.pull(known, tmp_path / "new", tmp_path / "present", today)
    assert "fetched and verified" in line
    found, refused = submissions.read(tmp_path / "new", {"tiny": known}, today)
    assert not refused and found[0].provenance.channel == "vendor-workflow"


def test_results_of_a_device_that_conforms(vendor, runner, tmp_path, monkeypatch):
    found = vendor()
    assert {name: job["result"] for name, job in found.items()} == {"measure": "success", "attest": "success"}
    written = {path.name for path in artifact(runner).iterdir()}
    assert {"results.json", "report.html", "junit.xml", "relay.json"} <= written
    (leg,) = json.loads((artifact(runner) / "results.json").read_text())["legs"]
    assert leg["target"]["name"] == "tiny" and leg["totals"]["pass"] > 50
    assert signed(runner)
    log = (runner.state / "log.txt").read_text()
    assert "tiny" in (runner.state / "summary.md").read_text()
    assert "torch 2." in log and "tinyaccel" in log
    gets_to_the_site(runner, tmp_path, monkeypatch)


def test_results_of_a_device_that_does_not(vendor, runner, monkeypatch):
    """The job fails, and what it has measured is told and signed all the same."""
    monkeypatch.setenv("TINY_STAGE", "3")
    found = vendor()
    assert found["measure"]["result"] == "failure" and found["attest"]["result"] == "success"
    assert found["measure"]["why"].startswith("Run: Run: exit 1")
    (leg,) = json.loads((artifact(runner) / "results.json").read_text())["legs"]
    assert leg["totals"]["fail"] > 10 and signed(runner)
