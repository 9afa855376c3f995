"""``tools.mutation.coverage_run`` resumes after a stop, omits results that terminate a worker, and rejects
coverage data of a different device.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.errors import UsageError
from tests.unit.tools.mutation.test_campaign import supervisor_of
from tools.mutation.coverage_run import CoverageData, _priority, run_coverage
from tools.mutation.mutant import Mutant

WORKER = """
import os
from conformance.process_control.parent_link import ParentLink
link = ParentLink.connect()
results = ["value/one@int8", "value/two@int8", "value/bad@int8"]
for job in link.requests():
    if job["do"] == "describe":
        cases = [["operator", "value", name, ["int8"]] for name in ("one", "bad", "two")]
        levels = {level: results for level in ("bringup", "core", "training", "full")}
        link.reply(dict(digest="DIGEST", faults=["aten::a leak 0 0 @any"], cases=cases, levels=levels))
        continue
    subject = job["cases"][0][2]
    with open("LOG", "a") as log:
        log.write(subject + " ")
    link.announce_step(f"value/{subject}@int8")
    if subject == "bad":
        os._exit(3)
    link.reply({"learned": [[f"value/{subject}@int8", "pass", 0.1, [0, 1], [0, 0, 1]]]})
"""


def record_coverage(folder: Path, digest: str = "device", expression: str = "") -> CoverageData:
    text = WORKER.replace("DIGEST", digest).replace("LOG", str(folder / "log"))
    with supervisor_of(folder, 2, text) as workers:
        return run_coverage(workers, folder / "learned.jsonl", lambda name: expression in name, expression)


def subjects_in_log(folder: Path) -> list[str]:
    return sorted((folder / "log").read_text().split())


def test_a_result_that_terminates_its_worker_is_omitted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    learned = record_coverage(tmp_path)
    assert [lesson.result for lesson in learned.coverages] == ["value/one@int8", "value/two@int8"]
    assert "value/bad@int8 terminated a worker without a mutant (crash); omitted" in capsys.readouterr().out


def test_recorded_coverage_is_reused(tmp_path: Path) -> None:
    first = record_coverage(tmp_path)
    assert record_coverage(tmp_path) == first
    assert subjects_in_log(tmp_path) == ["bad", "one", "two"]


def test_a_stopped_coverage_run_is_resumed(tmp_path: Path) -> None:
    whole = record_coverage(tmp_path)
    path = tmp_path / "learned.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.unlink()
    path.with_suffix(".part").write_text("".join(lines[:2]) + lines[2][:20])
    (tmp_path / "log").unlink()
    assert record_coverage(tmp_path) == whole
    assert subjects_in_log(tmp_path) == ["bad", "two"]


def test_only_selected_results_are_recorded(tmp_path: Path) -> None:
    assert [lesson.result for lesson in record_coverage(tmp_path, expression="one").coverages] == [
        "value/one@int8"
    ]


def test_coverage_of_another_device_is_rejected(tmp_path: Path) -> None:
    record_coverage(tmp_path)
    with pytest.raises(UsageError, match="another suite, torch, device or selection"):
        record_coverage(tmp_path, digest="other")


def test_designated_properties_come_first() -> None:
    leak = Mutant("aten::mul.Tensor", "leak")
    designated_results = ["overload-repeats/mul.Tensor@int8", "factories-many-times/creation@any"]
    assert [_priority(leak, result) for result in designated_results] == [0, 0]
    assert _priority(leak, "overload-forms/mul.Tensor@int8") == 1
    assert _priority(leak, "overload-repeats/add.Tensor@int8") == 2
    number = Mutant("module::memory_allocated", "value-off-by-one")
    assert _priority(number, "memory-by-the-module/accelerator@any") == 0
    assert _priority(number, "overload-repeats/mul.Tensor@int8") == 2
