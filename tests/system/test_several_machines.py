"""The scheduler files of ``docs/several-machines`` work. The tests run the commands of each file as Slurm or
Kubernetes would run them.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT
from tests.support.cli_process import Run, conformance, environment_with_subjects, write_bare_target

EXAMPLES = ROOT / "docs" / "several-machines"
#: Artificial subjects of the run. Shard 1 of 4 has one subject, shard 2 has two, and shards 3 and 4 have
#: none. The subject ``kills`` kills the runner once.
SUBJECTS = "good,fail,kills"
#: The number of shards in the Kubernetes Job of the documentation.
SHARDS = 4


@dataclasses.dataclass(frozen=True)
class MachinesAndSharedFolder:
    """A folder that simulates several machines and their shared file system. Its program ``conformance``
    is on PATH.
    """

    folder: Path
    results: Path

    @staticmethod
    def create_in(folder: Path) -> MachinesAndSharedFolder:
        (folder / "bin").mkdir()
        program = folder / "bin" / "conformance"
        program.write_text(
            f'#!/bin/sh\nexport ARTIFICIAL_RUNNER=$$\nexec {sys.executable} -m conformance "$@"\n'
        )
        program.chmod(0o755)
        write_bare_target(folder)
        return MachinesAndSharedFolder(folder, folder / "results")

    @property
    def options(self) -> list[str]:
        target_options = [
            "--target",
            str(self.folder / "bare.toml"),
            "--extra",
            "tests.support.misbehaving_subjects",
        ]
        return [*target_options, "--level", "core"]

    def call(self, command: Sequence[str], **variables: str) -> Run:
        path = f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
        variables_of_call = environment_with_subjects(self.folder, SUBJECTS, PATH=path, **variables)
        done = subprocess.run(
            command, cwd=self.folder, env=variables_of_call, capture_output=True, text=True, timeout=300
        )
        return Run(done, self.results / "merged")

    def run_slurm_task(self, number: int) -> Run:
        """Run the Slurm script of the documentation as the array task with this number."""
        command = ["bash", str(EXAMPLES / "slurm-array.sh"), str(SHARDS), str(self.results), *self.options]
        return self.call(command, SLURM_ARRAY_TASK_ID=str(number), SLURM_CPUS_PER_TASK="1")

    def run_slurm_merge(self) -> Run:
        return self.call(["bash", str(EXAMPLES / "slurm-merge.sh"), str(self.results)])

    def run_pod(self, job: dict[str, Any], *arguments: str, **variables: str) -> Run:
        """Run the container of a Kubernetes Job with the Job's environment variables, except FOLDER, which
        names the test's results folder.
        """
        container = containers_of_job(job)[0]
        limits = container["resources"]["limits"]
        of_job = {
            variable["name"]: variable["value"]
            if "value" in variable
            else limits[variable["valueFrom"]["resourceFieldRef"]["resource"].removeprefix("limits.")]
            for variable in container["env"]
        }
        return self.call(
            [*container["command"], *arguments], **{**of_job, "FOLDER": str(self.results), **variables}
        )


def scheduler_file(name: str) -> dict[str, Any]:
    """Return the parsed YAML file of that name in ``docs/several-machines``."""
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed.")
    document: dict[str, Any] = yaml.safe_load((EXAMPLES / name).read_text())
    return document


def containers_of_job(job: dict[str, Any]) -> list[dict[str, Any]]:
    specs: list[dict[str, Any]] = job["spec"]["template"]["spec"]["containers"]
    return specs


def verdicts_by_result_id(folder: Path) -> dict[str, str]:
    (leg,) = json.loads((folder / "results.json").read_text())["legs"]
    return {row["id"]: row["verdict"] for row in leg["results"]}


@pytest.fixture(scope="module")
def verdicts_of_single_run(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the verdict of each result id in a run of the same subjects without shards."""
    folder = tmp_path_factory.mktemp("whole")
    environment_with_subjects(folder, SUBJECTS)
    (folder / "state" / "kill").touch()
    run = conformance(folder, "run", "-n", "1", "--level", "core", subjects=SUBJECTS)
    verdicts_of_run = verdicts_by_result_id(run.folder)
    assert (run.code, set(verdicts_of_run.values()), len(verdicts_of_run)) == (1, {"pass", "fail"}, 6)
    return verdicts_of_run


@pytest.mark.nightly("files that rarely change; shards, resume and merge are tested in each run")
def test_a_slurm_array_gives_the_results_of_a_run_without_shards(
    tmp_path: Path, verdicts_of_single_run: dict[str, str]
) -> None:
    lab = MachinesAndSharedFolder.create_in(tmp_path)
    tasks = [lab.run_slurm_task(number) for number in range(1, SHARDS + 1)]
    assert [task.code for task in tasks] == [0, -signal.SIGKILL, 0, 0], [task.err for task in tasks]
    assert "shard 3/4: no results" in tasks[2].out, "shard 3 of 4 must have no case"

    lost = lab.run_slurm_merge()
    assert (lost.code, lost.results["complete"]) == (3, False)
    assert "shard 2/4 is incomplete" in lost.out

    resumed = lab.run_slurm_task(2)
    journal = (lab.results / "shard-2" / "journal.jsonl").read_text()
    begun = [journal.count(f'{{"event":"{event_name}"') for event_name in ("run", "resume")]
    assert (resumed.code, begun) == (1, [1, 1]), "the task started a new run instead of resuming"
    assert "nothing to do: the run in" in lab.run_slurm_task(2).out

    merged = lab.run_slurm_merge()
    assert (merged.code, merged.results["complete"]) == (1, True), merged.err
    assert verdicts_by_result_id(merged.folder) == verdicts_of_single_run

    shutil.rmtree(lab.results / "shard-4")
    lost = lab.run_slurm_merge()
    assert (lost.code, "shard 4/4 is missing" in lost.out) == (3, True)

    refused = lab.call(["bash", str(EXAMPLES / "slurm-array.sh"), "8", str(lab.results), *lab.options],
                       SLURM_ARRAY_TASK_ID="1")  # fmt: skip
    assert (refused.code, "--shard is 1/8, but the run in" in refused.err) == (2, True)


@pytest.mark.nightly("files that rarely change; shards, resume and merge are tested in each run")
def test_an_indexed_job_gives_the_results_of_a_run_without_shards(
    tmp_path: Path, verdicts_of_single_run: dict[str, str]
) -> None:
    job = scheduler_file("kubernetes-job.yaml")
    lab = MachinesAndSharedFolder.create_in(tmp_path)
    environment_with_subjects(tmp_path, SUBJECTS)
    (tmp_path / "state" / "kill").touch()
    pods = [lab.run_pod(job, *lab.options, JOB_COMPLETION_INDEX=str(index)) for index in range(SHARDS)]
    assert [pod.code for pod in pods] == [0] * SHARDS, "a failed result must not start another pod"
    assert "shard 2/4: 2 pass, 2 fail in 2 cases" in pods[1].out
    merged = lab.run_pod(scheduler_file("kubernetes-merge.yaml"))
    assert (merged.code, merged.results["complete"]) == (1, True), merged.err
    assert verdicts_by_result_id(merged.folder) == verdicts_of_single_run
    refused = lab.run_pod(job, "--target", "nowhere.toml", JOB_COMPLETION_INDEX="0")
    assert refused.code == 2, "the pod must fail, so that Kubernetes retries it"


def test_the_job_has_an_index_for_each_shard() -> None:
    spec = scheduler_file("kubernetes-job.yaml")["spec"]
    assert spec["completionMode"] == "Indexed"
    assert spec["completions"] == spec["parallelism"] == SHARDS
    (container,) = containers_of_job({"spec": spec})
    variables_of_job = {variable["name"]: variable.get("value") for variable in container["env"]}
    assert variables_of_job["SHARDS"] == str(spec["completions"])
    (merge,) = containers_of_job(scheduler_file("kubernetes-merge.yaml"))
    assert merge["image"] == container["image"]
    assert merge["volumeMounts"] == container["volumeMounts"]
    assert {variable["name"]: variable["value"] for variable in merge["env"]} == {
        "FOLDER": variables_of_job["FOLDER"]
    }


@pytest.mark.parametrize("name", ["kubernetes-job.yaml", "kubernetes-merge.yaml"])
@pytest.mark.parametrize("version", ["1.29.0", "1.37.0"])
def test_the_jobs_follow_the_schema_of_kubernetes(name: str, version: str) -> None:
    validator = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed.")
    job = scheduler_file(name)
    assert validator.validate(job, version, strict=True)
    job["spec"]["completionmode"] = "Indexed"
    with pytest.raises(validator.ValidationError, match="completionmode"):
        validator.validate(job, version, strict=True)
