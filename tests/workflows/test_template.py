"""The workflow template for vendors works with the tiny device, from the checkout to signed results."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import shutil
import site
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance import cli
from conformance.ci import vendor_results
from conformance.ci.template import render_workflow
from conformance.site import registry
from tests.vendor import harness
from tests.workflows.conftest import ROOT, copy_checkout

SUITE = "conformance/pytest_modules"
VENDOR = ROOT / "tests" / "vendor"


@pytest.fixture(scope="module")
def vendor_python(tmp_path_factory) -> Iterator[Path]:
    """Return the Python interpreter of an environment that contains this torch and the vendor's package."""
    folder = tmp_path_factory.mktemp("machine")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    (site_packages,) = folder.glob("lib/python*/site-packages")
    shutil.copytree(VENDOR / "tinyaccel", site_packages / "tinyaccel")
    shutil.copy(VENDOR / "tinyaccel_build.py", site_packages)
    (site_packages / "torch.pth").write_text("\n".join(site.getsitepackages()) + "\n")
    python, build = folder / "bin" / "python", str(site_packages / "tinyaccel" / "build")
    with pytest.MonkeyPatch.context() as variables:
        variables.setenv("TINYACCEL_BUILD", build)
        # The folder of this torch may contain an entry point of the reference device. Torch must not load it,
        # because the code of the device cannot be imported in this environment.
        variables.setenv("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
        subprocess.run([str(python), "-m", "tinyaccel_build"], check=True, cwd=folder)
        yield python


@pytest.fixture
def run_vendor_workflow(runner, vendor_python, tmp_path):
    """Return a function that runs the template's workflow in the vendor's repository and returns the jobs.
    The device is the tiny device, and the variable TINY_STAGE selects its stage of development.
    """
    suite = tmp_path / "suite"
    copy_checkout(suite)
    suite_folder = (
        runner.root / "conformance"
    )  # named like the suite's package: Python must import the installed package instead of this folder
    suite_folder.mkdir(parents=True)
    harness.write_target(suite_folder)
    text = render_workflow(
        suite=f"{SUITE}@{'a' * 40}",
        target="conformance/tiny.toml",
        runner=["self-hosted", "tiny"],
        python=str(vendor_python),
        modes="eager",
        level="bringup",
        package="tinyaccel",
    )
    runner.write_workflow("conformance.yml", text)
    runner.publish_repository(runner.root)
    return lambda: runner("conformance.yml", repositories={SUITE: suite})["jobs"]


def results_artifact(runner) -> Path:
    return runner.state / "artifacts" / vendor_results.ARTIFACT


def results_are_signed(runner) -> bool:
    digest = hashlib.sha256((results_artifact(runner) / "results.json").read_bytes()).hexdigest()
    return (runner.state / "attestations" / digest).exists()


REGISTERED = f"""
name = "Tiny"
link = "https://example.org/tiny"
device = "tiny"
repository = "owner/name"
workflow = ".github/workflows/conformance.yml"
expires = {datetime.date.today() + datetime.timedelta(90)}
"""


def assert_site_shows_results(runner, tmp_path, monkeypatch):
    """Assert that the suite fetches the results of the run, verifies their signature, and shows them on the
    site. The registry identifies the vendor.
    """
    (tmp_path / "registry").mkdir()
    (tmp_path / "registry" / "tiny.toml").write_text(REGISTERED)
    backends = registry.load(tmp_path / "registry")
    vendor, commit, gh = backends["tiny"], "c" * 40, tmp_path / "gh"
    shutil.copytree(
        results_artifact(runner), gh / vendor.repository / "artifacts" / "7" / vendor_results.ARTIFACT
    )
    run = {
        "id": 7,
        "path": vendor.workflow,
        "head_sha": commit,
        "event": "schedule",
        "head_branch": "main",
    }
    run |= {"head_repository": {"full_name": vendor.repository}, "listed": "main"}
    (gh / vendor.repository / "runs.json").write_text(json.dumps([run]))
    (gh / "attestations").mkdir()
    for attestation in (runner.state / "attestations").iterdir():
        provenance = f"{vendor.repository}/{vendor.workflow} refs/heads/main {commit}"
        (gh / "attestations" / attestation.name).write_text(provenance)
    monkeypatch.setenv("FAKE_GH", str(gh))
    monkeypatch.setenv("GH_TOKEN", "x")
    monkeypatch.setenv("PATH", str(runner.programs), prepend=os.pathsep)
    monkeypatch.setattr(registry, "load", lambda folder=None: backends)
    (line,) = vendor_results.pull_new_runs(
        vendor, tmp_path / "new", tmp_path / "present", datetime.date.today()
    )
    assert "fetched and verified" in line
    assert cli.main(["site", str(tmp_path / "new"), "-o", str(tmp_path / "site")]) == 0
    (backend_entry,) = json.loads((tmp_path / "site" / "data.json").read_text())["backends"]
    (cell,) = backend_entry["cells"]
    assert (cell["state"], cell["runs"][0]["provenance"]) == ("pass", "vendor-workflow")


def test_results_of_a_passing_device(run_vendor_workflow, runner, tmp_path, monkeypatch):
    jobs = run_vendor_workflow()
    assert {name: job["result"] for name, job in jobs.items()} == {"measure": "success", "attest": "success"}
    written = {path.name for path in results_artifact(runner).iterdir()}
    assert {"results.json", "report.html", "junit.xml"} <= written
    # In these tests a file: URL replaces GitHub's address, and the relay accepts only https addresses.
    assert "the relay would reject workflow.url: 'file:" in (runner.state / "log.txt").read_text()
    (leg,) = json.loads((results_artifact(runner) / "results.json").read_text())["legs"]
    assert leg["target"]["name"] == "tiny" and leg["totals"]["pass"] > 50
    assert results_are_signed(runner)
    log = (runner.state / "log.txt").read_text()
    assert "tiny" in (runner.state / "summary.md").read_text()
    assert "torch 2." in log and "tinyaccel" in log
    assert_site_shows_results(runner, tmp_path, monkeypatch)


def test_results_of_a_failing_device(run_vendor_workflow, runner, monkeypatch):
    """If the device fails, the job fails, and the results are still uploaded and signed."""
    monkeypatch.setenv("TINY_STAGE", "3")
    jobs = run_vendor_workflow()
    assert jobs["measure"]["result"] == "failure" and jobs["attest"]["result"] == "success"
    assert jobs["measure"]["why"].startswith("Run: Run: exit 1")
    (leg,) = json.loads((results_artifact(runner) / "results.json").read_text())["legs"]
    assert leg["totals"]["fail"] > 10 and results_are_signed(runner)
