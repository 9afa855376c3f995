"""Test compiled functions with dynamic shapes."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._dynamo.testing import CompileCounterWithBackend


def test_sizes_change_without_a_new_compilation(compiled) -> None:
    calls = []

    def function(x: torch.Tensor) -> torch.Tensor:
        calls.append(x.shape)
        return (x * x.shape[0] + x.sum()).relu()

    program = compiled(lambda x: (x * x.shape[0] + x.sum()).relu(), dynamic=True)
    for size in (3, 5, 8):
        x = torch.randn(size, 4, device="hpu")
        torch.testing.assert_close(program(x), function(x))


def test_marked_dimension_compiles_once() -> None:
    counter = CompileCounterWithBackend("hpu_backend")
    program = torch.compile(lambda x: x.relu() + 1, backend=counter)
    for size in (4, 6, 9):
        x = torch.randn(size, 3, device="hpu")
        torch._dynamo.mark_dynamic(x, 0)
        torch.testing.assert_close(program(x), x.relu() + 1)
    assert counter.frame_count == 1


def test_training_with_changing_batches(compiled) -> None:
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2)).to("hpu")
    program = compiled(model, dynamic=True)
    for size in (2, 5, 7):
        x = torch.randn(size, 6, device="hpu", requires_grad=True)
        y = x.detach().clone().requires_grad_()
        program(x).square().sum().backward()
        model(y).square().sum().backward()
        torch.testing.assert_close(x.grad, y.grad, rtol=1e-4, atol=1e-5)


def test_dropout_with_changing_sizes(fused) -> None:
    program = fused(lambda x: F.dropout(x + 1, 0.5, training=True) * x.shape[0], dynamic=True)
    for size in (100, 200, 300):
        retained_count = (program(torch.zeros(size, device="hpu")) != 0).sum().item()
        assert 0.2 * size < retained_count < 0.8 * size


def test_calls_between_recipes_with_changing_sizes(compiled, monkeypatch: pytest.MonkeyPatch) -> None:
    from habana_frameworks.torch.dynamo.compile_backend import recipe_support

    monkeypatch.setattr(recipe_support, "hpu_fallback_op_list", ["aten::sin"])

    def function(x: torch.Tensor) -> torch.Tensor:
        y = (x * 2).view(-1)
        return y.sin().view(x.shape) + x.shape[0] * 2

    program = compiled(function, dynamic=True)
    for size in (3, 4, 5):
        x = torch.randn(size, 2, device="hpu")
        torch.testing.assert_close(program(x), function(x))


def test_force_static_compile_gives_static_recipes(compiled) -> None:
    def function(x: torch.Tensor, scale: int) -> torch.Tensor:
        return (x.view(-1, 2) * scale + x.shape[0]).sum(0)

    program = compiled(function, dynamic=True, force_static_compile=True)
    for size, scale in ((4, 2), (6, 3), (4, 3), (4, 2)):
        x = torch.randn(size, 2, device="hpu")
        torch.testing.assert_close(program(x, scale), function(x, scale))


def test_dynamic_graphs_can_run_without_recipes(compiled) -> None:
    program = compiled(lambda x: x * x.shape[0], dynamic=True, fallback_dynamic_to_eager=True)
    for size in (3, 4):
        assert program(torch.ones(size, device="hpu")).tolist() == [size] * size
