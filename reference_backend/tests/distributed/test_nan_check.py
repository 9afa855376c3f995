"""Test ``c10d::check_for_nan``, and that ``conformance doctor`` passes on the reference device."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
import torch.distributed

NAN = float("nan")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float8_e5m2])
@pytest.mark.parametrize("values", [[1.0, NAN], [NAN]])
def test_nan_raises(dtype, values):
    tensor = torch.tensor(values, dtype=dtype).to("hpu")
    with pytest.raises(RuntimeError, match="NaN found in input tensor"):
        torch.ops.c10d.check_for_nan(tensor)


@pytest.mark.parametrize(
    "tensor", [torch.ones(3), torch.tensor([torch.inf]), torch.empty(0), torch.arange(3)]
)
def test_tensor_without_nan_passes(tensor):
    assert torch.ops.c10d.check_for_nan(tensor.to("hpu")) is None


@pytest.mark.nightly("runs the whole doctor; tests/system/test_doctor.py does so every day")
def test_doctor_passes_on_the_reference_device():
    command = [sys.executable, "-m", "conformance", "doctor", "--target", "hpu-reference"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert "nothing is missing" in done.stdout
