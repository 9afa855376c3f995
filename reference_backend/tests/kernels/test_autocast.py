"""Test ``torch.autocast("hpu")``: the documented operator lists, and files that replace the lists."""

import pytest
import torch
from habana_frameworks.torch import _C


@pytest.fixture
def tensors():
    a = torch.rand(4, 4, device="hpu")
    return a, a.bfloat16()


def test_operators_in_lower_precision(tensors):
    a, _ = tensors
    with torch.autocast("hpu"):
        for result in (
            a @ a,
            torch.mm(a, a),
            torch.softmax(a, 1),
            a.mean(),
            a * a,
            torch.nn.functional.linear(a, a),
        ):
            assert result.dtype == torch.bfloat16
        weight = torch.ones(4, device="hpu")
        assert torch.nn.functional.layer_norm(a, (4,)).dtype == torch.bfloat16
        assert weight.dtype == torch.float32
    with torch.autocast("hpu", dtype=torch.float16):
        assert (a @ a).dtype == torch.float16
    assert (a @ a).dtype == torch.float32


def test_operators_in_float32(tensors):
    _, b = tensors
    with torch.autocast("hpu"):
        for result in (
            torch.exp(b),
            torch.log(b),
            b / b,
            torch.pow(b, 2),
            torch.nn.functional.mse_loss(b, b),
        ):
            assert result.dtype == torch.float32


def test_promoting_and_unlisted_operators(tensors):
    a, b = tensors
    with torch.autocast("hpu"):
        assert (a + b).dtype == torch.float32 and (b + b).dtype == torch.bfloat16
        assert torch.cat([a, b]).dtype == torch.float32
        assert torch.relu(a).dtype == torch.float32 and torch.relu(b).dtype == torch.bfloat16
        assert a.double().exp().dtype == torch.float64  # float64 is never cast
        assert torch.arange(3, device="hpu").add(1).dtype == torch.int64


def test_gradients_have_the_dtype_of_their_tensors(tensors):
    a, _ = tensors
    weight = torch.rand(4, 4, device="hpu", requires_grad=True)
    with torch.autocast("hpu"):
        loss = (a @ weight).float().sum()
    loss.backward()
    assert weight.grad.dtype == torch.float32


def test_cpu_autocast_does_not_change_device_kernels(tensors):
    a, _ = tensors
    expected = torch.linalg.matrix_exp(a)
    with torch.autocast("cpu"):
        assert torch.linalg.matrix_exp(a).equal(expected) and (a @ a).dtype == torch.float32


def test_lists_match_the_contract(tensors):
    lists = _C.autocast_lists()
    assert len(lists["lower"]) == 27 and "matmul" in lists["lower"] and "topk" in lists["fp32"]
    assert lists["promote"] == [
        "add",
        "addcmul",
        "addcdiv",
        "cat",
        "div",
        "exp",
        "mul",
        "pow",
        "sub",
        "iadd",
        "truediv",
        "stack",
    ]


def test_override_files(python, tmp_path):
    (tmp_path / "lower").write_text("exp\n")
    (tmp_path / "fp32").write_text("mm\n\n")
    script = (
        "a = torch.rand(2, 2, device='hpu')\nwith torch.autocast('hpu'):\n"
        "    print(a.exp().dtype, torch.mm(a.bfloat16(), a.bfloat16()).dtype, torch.softmax(a, 1).dtype)"
    )
    done = python(
        script,
        PT_HPU_AUTOCAST_LOWER_PRECISION_OPS_LIST=str(tmp_path / "lower"),
        PT_HPU_AUTOCAST_FP32_OPS_LIST=str(tmp_path / "fp32"),
    )
    assert done.stdout.split() == ["torch.bfloat16", "torch.float32", "torch.float32"], done.stderr
