"""The tiny device has memory of its own, and its operators are correct."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.vendor import harness


def run_on_device(code: str, stage: int | None = None) -> subprocess.CompletedProcess[str]:
    environment = dict(harness.environment_with_device())
    if stage is not None:
        environment["TINY_STAGE"] = str(stage)
    code = f"import torch, tinyaccel\nx = torch.arange(6.0).view(2, 3).to('tiny')\n{code}"
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)


def test_the_host_cannot_read_device_memory() -> None:
    done = run_on_device("import ctypes; ctypes.c_float.from_address(x.data_ptr()).value")
    assert done.returncode < 0, done


def test_training_gives_the_gradients_of_the_cpu() -> None:
    done = run_on_device(
        "torch.manual_seed(1)\n"
        "host = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))\n"
        "import copy; device = copy.deepcopy(host).to('tiny')\n"
        "for model, data in ((host, x.cpu()), (device, x)):\n"
        "    wanted = torch.eye(2).to(data.device)\n"
        "    loss = torch.nn.functional.cross_entropy(model(data).softmax(1).log(), wanted)\n"
        "    loss.backward()\n"
        "for one, two in zip(host.parameters(), device.parameters()):\n"
        "    torch.testing.assert_close(one.grad, two.grad.cpu())\n"
        "print('alike')"
    )
    assert done.stdout.strip() == "alike", done.stderr


@pytest.mark.parametrize(("stage", "line"), [(1, "x + x"), (2, "x + x"), (3, "x.softmax(1)")])
def test_a_stage_refuses_operators_of_later_stages(stage: int, line: str) -> None:
    assert "NotImplementedError: Could not run 'aten::" in run_on_device(line, stage).stderr
    assert run_on_device(line).returncode == 0


def test_expect_imports_the_module_that_registers_the_device_name(tmp_path: Path) -> None:
    """``torch.device("tiny")`` raises an error until the backend is imported. ``conformance expect``
    therefore imports the backend.
    """
    file = harness.write_target(tmp_path, 'expectations = "known.toml"')
    (tmp_path / "known.toml").write_text("schema = 1\n")
    chosen = ("--level", "bringup", "-k", "value and softmax and float32", "-n", "1", "-o", "out")
    ran = harness.run_conformance(tmp_path, "run", "--target", file, *chosen, stage=3)
    assert ran.returncode == 1, ran.stderr
    arguments = ("expect", "update", "out", "--target", file)
    proposed = harness.run_conformance(tmp_path, *arguments, stage=3)
    assert (proposed.returncode, '+id = "value/softmax@float32"' in proposed.stdout) == (1, True), (
        proposed.stderr
    )
    assert harness.run_conformance(tmp_path, *arguments, "--write", stage=3).returncode == 0
    written = (tmp_path / "known.toml").read_text().replace('"unread"', '"feature"')
    (tmp_path / "known.toml").write_text(written.replace('link = ""', 'link = "docs/x.md"'))
    checked = harness.run_conformance(tmp_path, "expect", "check", "out", "--target", file)
    assert (checked.returncode, checked.stdout) == (
        0,
        "1 entries: names, modes and expiry are valid; they are not yet verified: run level full, without -k "
        "and with all shards\n",
    ), checked.stderr


def test_expect_reports_a_missing_backend_module(tmp_path: Path) -> None:
    (tmp_path / "gone.toml").write_text(
        'schema = 1\nname = "gone"\nmodule = "not_installed"\ndevice = "gone"\n'
    )
    done = harness.run_conformance(tmp_path, "expect", "check", "--target", "gone.toml")
    assert done.returncode == 2
    assert done.stderr.startswith(
        "conformance expect: module 'not_installed' of target 'gone' cannot be imported (ModuleNotFoundError"
    )
