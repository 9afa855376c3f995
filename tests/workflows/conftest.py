"""Fixtures that execute GitHub workflows on this machine, with sessions/workflows/tools/run_workflow.mjs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT, fake_gh

TOOLS = os.environ.get("CONFORMANCE_WORKFLOW_TOOLS")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests of this folder if CONFORMANCE_WORKFLOW_TOOLS is not set. ``nox -s workflows`` installs
    the tools and sets the variable.
    """
    mark = pytest.mark.skipif(TOOLS is None, reason="run 'nox -s workflows', which installs the tools")
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(mark)


def copy_checkout(folder: Path) -> None:
    """Copy the files of the checkout into the folder: files that git tracks, and new files that git does not
    ignore.
    """
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in listed.stdout.decode().split("\0"):
        source = ROOT / name
        if name and source.is_file() and not source.is_symlink():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)


#: A workflow that calls the action ``reference-wheel``, which builds the reference device.
BUILD = """
on: workflow_dispatch
permissions: {}
jobs:
  build:
    runs-on: ubuntu-24.04
    timeout-minutes: 60
    outputs: {artifact: "${{ steps.wheel.outputs.artifact }}"}
    steps:
      - {id: wheel, uses: $/.github/actions/reference-wheel, with: {torches: '["2.13.0"]', artifact: wheels}}
"""


class WorkflowRunner:
    """A runner that executes the workflows of an artificial repository. ``state`` is a folder for the
    products of the runs: artifacts, pages, issues and branches.
    """

    def __init__(self, folder: Path) -> None:
        self.root = folder / "repository"
        self.state = folder / "state"
        self.programs = fake_gh.install_fake_gh(folder / "programs")
        self.remote = self.state / "remote" / "owner" / "name"
        self.runs = 0

    def copy_checkout(self) -> None:
        """Copy the files of this checkout into the repository."""
        copy_checkout(self.root)
        self.publish_repository(self.root)

    def publish_repository(self, folder: Path) -> None:
        """Commit the files of a folder, so that workflows check them out."""
        self.remote.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(self.remote, ignore_errors=True)
        shutil.copytree(folder, self.remote)
        who = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
        for command in (["init", "-q", "-b", "main"], ["add", "-A"], [*who, "commit", "-qm", "all"]):
            subprocess.run(["git", *command], cwd=self.remote, check=True, capture_output=True)

    def write_workflow(self, name: str, text: str) -> None:
        """Add a workflow to the repository."""
        file = self.root / ".github" / "workflows" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def __call__(
        self,
        name: str,
        event: Mapping[str, Any] | None = None,
        overrides: Mapping[str, Path] | None = None,
        repositories: Mapping[str, Path] | None = None,
    ) -> dict[str, Any]:
        """Execute a workflow, and return the report of its jobs. Assert that the exit code is 1 if a job
        failed, and otherwise 0.

        ``overrides``: action -> program that replaces the action. ``repositories``: repository -> folder with
        the actions of this repository.
        """
        self.runs += 1
        file = self.state / "event.json"
        self.state.mkdir(exist_ok=True)
        file.write_text(json.dumps({"run_id": self.runs, **(event or {})}))
        shutil.rmtree(self.state / "artifacts", ignore_errors=True)  # a run starts without artifacts
        options = [f"--override={uses}={program}" for uses, program in (overrides or {}).items()]
        options += [
            f"--repository={repository}={folder}" for repository, folder in (repositories or {}).items()
        ]
        done = subprocess.run(
            [
                *("node", f"{TOOLS}/run_workflow.mjs", "--root", str(self.root), "--state", str(self.state)),
                *("--workflow", f".github/workflows/{name}", "--event", str(file), *options),
            ],
            capture_output=True,
            text=True,
            env={
                **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
                "PATH": f"{self.programs}{os.pathsep}{os.environ['PATH']}",
                "FAKE_GH": str(self.state),
            },
        )
        assert done.stdout, done.stderr
        report: dict[str, Any] = json.loads(done.stdout)
        failed = any(job["result"] == "failure" for job in report["jobs"].values())
        assert done.returncode == int(failed), done.stderr
        return report


@pytest.fixture
def runner(tmp_path: Path) -> WorkflowRunner:
    return WorkflowRunner(tmp_path)


@pytest.fixture(scope="session")
def device_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel of the reference device. The action ``reference-wheel`` builds it from sources without
    a ``.git`` folder, as on GitHub.
    """
    runner = WorkflowRunner(tmp_path_factory.mktemp("wheel"))
    runner.copy_checkout()
    runner.write_workflow("build.yml", BUILD)
    build_job = runner("build.yml")["jobs"]["build"]
    shutil.rmtree(runner.root / ".nox", ignore_errors=True)  # the environments in .nox need several GB
    assert (build_job["result"], build_job["outputs"]) == ("success", {"artifact": "wheels"}), build_job
    (wheel,) = (runner.state / "artifacts" / "wheels").iterdir()
    return wheel
