"""The output marks a target file as untested if the suite has never run on its device."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from conformance.errors import UsageError
from conformance.report import summary
from conformance.target import file as target_file
from tests.vendor import harness

UNTESTED = ("cuda", "mps", "torch_npu", "xpu")


def test_untested_target_files_are_marked() -> None:
    files = {name: target_file.load(name) for name in target_file.known_targets()}
    assert [name for name, file in files.items() if file.untested] == list(UNTESTED)
    assert files["torch_openreg"].simulated
    assert files["torch_openreg"].capabilities["cpu_fallback"]
    assert "float64" not in files["mps"].dtypes


def test_lists_and_summaries_show_the_mark(tmp_path: Path) -> None:
    listed = harness.run_conformance(tmp_path, "targets").stdout
    assert re.search(r"^cuda: .*, untested$", listed, re.M)
    assert re.search(r"^torch_openreg: .*, simulated$", listed, re.M)
    assert "untested" not in next(line for line in listed.splitlines() if line.startswith("cpu:"))
    leg = {"target": {"name": "xpu", "untested": True}, "mode": "eager", "torch": "2.13.0"}
    assert summary.leg_title(leg) == "xpu (untested target file), eager, torch 2.13.0"


def test_doctor_and_results_show_the_mark(tmp_path: Path) -> None:
    text = 'schema = 1\nname = "fresh"\ndevice = "cpu"\nuntested = true\n'
    (tmp_path / "fresh.toml").write_text(text)
    options = ("--target", "fresh.toml")
    doctor_output = harness.run_conformance(tmp_path, "doctor", *options).stdout
    assert "fresh is untested: this target file was written from public documents" in doctor_output
    run = harness.run_conformance(
        tmp_path, "run", *options, "--level", "bringup", "-k", "/add@", "-n", "1", "-o", "out"
    )
    assert run.stdout.startswith("fresh (untested target file), eager"), run.stdout + run.stderr


def test_the_mark_is_true_or_false(tmp_path: Path) -> None:
    file = tmp_path / "odd.toml"
    file.write_text('schema = 1\nname = "odd"\ndevice = "cpu"\nuntested = "no"\n')
    with pytest.raises(UsageError, match="untested is 'no'; it must be true or false"):
        target_file.load(str(file))
