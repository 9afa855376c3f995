"""Test that Habana Mixed Precision (hmp) follows the rules of its guide.

Each program runs in its own process, because a process cannot disable hmp again.
"""

from __future__ import annotations

import pathlib
import subprocess
import sys
import textwrap

import pytest

START = """
import torch, habana_frameworks.torch
from torch.nn import functional as F
from habana_frameworks.torch.hpex import hmp
x, w = torch.randn(3, 4, device="hpu"), torch.randn(5, 4, device="hpu")
low = x.bfloat16()
def kinds(*tensors):
    print(*(str(t.dtype).removeprefix("torch.") for t in tensors))
"""


def printed_lines(program: str) -> list[str]:
    code = START + textwrap.dedent(program)
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_level_o1_casts_by_its_lists() -> None:
    lines = printed_lines(
        """
        hmp.convert()
        filters = torch.ones(2, 3, 1, device="hpu")
        kinds(x @ w.t(), F.linear(x, w), torch.mm(x, w.t()), F.conv1d(x[None], filters))
        kinds(F.softmax(low, -1), torch.topk(low, 2).values, low.log_softmax(-1))
        kinds(low + x, torch.cat([low, x]), x.relu(), low.relu(), torch.stack([low, low]))
        y = low.clone(); y += x; z = x.clone(); z.add_(low)
        kinds(y, z)
        with hmp.disable_casts():
            kinds(x @ w.t(), F.softmax(low, -1))
        kinds(x @ w.t())
        """
    )
    assert lines == [
        "bfloat16 bfloat16 bfloat16 bfloat16", "float32 float32 float32",
        "float32 float32 float32 bfloat16 bfloat16", "bfloat16 float32", "float32 bfloat16", "bfloat16",
    ]  # fmt: skip


def test_names_that_are_no_function_are_listed(tmp_path: pathlib.Path) -> None:
    (tmp_path / "bf16.txt").write_text("addmm\nadmm\nsoftmx\n")
    lines = printed_lines(
        f"""
        import warnings
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            hmp.convert(bf16_file_path={str(tmp_path / "bf16.txt")!r})
        print(caught[0].message)
        """
    )
    assert "lists admm, softmx, but torch has no functions of this name" in lines[0]


def test_level_o2_runs_only_products_in_bfloat16() -> None:
    lines = printed_lines(
        """
        hmp.convert(opt_level="O2")
        kinds(x @ w.t(), low.relu(), low + low, F.softmax(low, -1))
        hmp.convert(opt_level="O1")
        kinds(low.relu())
        """
    )
    assert lines == ["bfloat16 float32 float32 float32", "bfloat16"]


def test_user_lists_and_the_verbose_log(tmp_path: pathlib.Path) -> None:
    (tmp_path / "bf16.txt").write_text("relu\nlinear\n")
    (tmp_path / "fp32.txt").write_text("softmax\n")
    lines = printed_lines(
        f"""
        hmp.convert("O1", {str(tmp_path / "bf16.txt")!r}, {str(tmp_path / "fp32.txt")!r}, True)
        out = F.relu(x), F.linear(x, w), torch.mm(x, w.t())
        with hmp.disable_casts():
            kinds(*out)
        """
    )
    assert lines[-1] == "bfloat16 bfloat16 float32"
    assert lines[0].startswith("casting  ") and "relu" in lines[0] and lines[0].endswith("to_bf16")


def test_training_loop_of_the_guide_learns() -> None:
    lines = printed_lines(
        """
        torch.manual_seed(1)
        x, y = torch.randn(64, 32, device="hpu"), torch.randn(64, 16, device="hpu")
        hmp.convert(opt_level="O1", bf16_file_path="", fp32_file_path="", isVerbose=False)
        model = torch.nn.Linear(32, 16).to("hpu")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        losses = []
        for t in range(50):
            loss = F.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            with hmp.disable_casts():
                optimizer.step()
            losses.append(loss.item())
        print(losses[-1] < 0.7 * losses[0], model.weight.dtype, model.weight.grad.dtype)
        """
    )
    assert lines == ["True torch.float32 torch.float32"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("hmp.convert('O3')", "levels O1 and O2"),
        ("hmp.convert('O1', '/no/such/file')", "/no/such/file could not be read"),
    ],
)
def test_invalid_arguments_raise(call: str, message: str) -> None:
    lines = printed_lines(
        f"try:\n    {call}\nexcept (ValueError, FileNotFoundError) as error:\n    print(error)"
    )
    assert message in lines[0]
