"""Test that compiled programs have the values, gradients, strides and side effects of eager programs."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import nn


def make_mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


def make_convolution_network() -> nn.Module:
    layers = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()
    return nn.Sequential(*layers, nn.Linear(8 * 7 * 7, 5))


def make_transformer_layer() -> nn.Module:
    return nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True)


MODELS = {make_mlp: (5, 8), make_convolution_network: (2, 3, 16, 16), make_transformer_layer: (2, 6, 16)}


@pytest.mark.nightly("each case compiles a training step", every=2)
@pytest.mark.parametrize("make", MODELS, ids=lambda make: make.__name__)
def test_training_agrees_with_eager(make: Callable[[], nn.Module], compiled) -> None:
    eager = make().to("hpu")
    model = copy.deepcopy(eager)
    function = compiled(model)
    x = torch.randn(MODELS[make], device="hpu", requires_grad=True)
    y = x.detach().clone().requires_grad_()
    for _ in range(3):
        expected, result = eager(x), function(y)
        torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5)
        assert result.stride() == expected.stride()
        expected.square().sum().backward()
        result.square().sum().backward()
    torch.testing.assert_close(y.grad, x.grad, rtol=1e-3, atol=1e-4)
    for ours, theirs in zip(model.parameters(), eager.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-3, atol=1e-3)
    for ours, theirs in zip(model.buffers(), eager.buffers(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("make", MODELS, ids=lambda make: make.__name__)
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode], ids=lambda mode: mode.__name__)
def test_inference_agrees_with_eager(make: Callable[[], nn.Module], mode, compiled) -> None:
    model = make().to("hpu").eval()
    x = torch.randn(MODELS[make], device="hpu")
    with mode():
        expected = model(x)
        function = compiled(model)
        for _ in range(3):
            result = function(x)
            torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5)
            assert result.stride() == expected.stride()


def test_channels_last_is_kept(compiled) -> None:
    convolution = nn.Conv2d(3, 4, 3).to("hpu", memory_format=torch.channels_last)
    x = torch.randn(2, 3, 8, 8, device="hpu").to(memory_format=torch.channels_last)
    result = compiled(convolution)(x)
    assert result.is_contiguous(memory_format=torch.channels_last)
    assert result.stride() == convolution(x).stride()


def test_inputs_are_changed_in_place(compiled) -> None:
    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(y)
        y[1:].mul_(2)
        return x * y

    tensors = [torch.arange(4.0, device="hpu"), torch.ones(4, device="hpu")]
    copies = [tensor.clone() for tensor in tensors]
    function = compiled(step)
    for _ in range(3):
        assert torch.equal(function(*tensors), step(*copies))
        assert torch.equal(tensors[0], copies[0])
        assert torch.equal(tensors[1], copies[1])


def test_views_of_inputs_share_memory(compiled) -> None:
    function = compiled(lambda x: (x[1:], x.t(), x, x + 1))
    for _ in range(3):
        x = torch.zeros(3, 3, device="hpu")
        rows, transposed, same, new_tensor = function(x)
        x.add_(1)
        assert rows.sum().item() == 6
        assert transposed.sum().item() == 9
        assert same.sum().item() == 9
        assert new_tensor.sum().item() == 9
        rows.zero_()
        assert x.sum().item() == 3


def test_results_that_are_views_of_each_other_share_memory(compiled) -> None:
    def split(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x * 2
        return y, y[1:], y.view(2, 2)

    function = compiled(split)
    for _ in range(3):
        y, tail, square = function(torch.ones(4, device="hpu"))
        y.zero_()
        assert tail.tolist() == [0, 0, 0]
        assert square.tolist() == [[0, 0], [0, 0]]


def add_one_to_first_input(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    return x + y


def test_same_tensor_as_both_arguments(compiled) -> None:
    function = compiled(add_one_to_first_input)
    x = torch.zeros(3, device="hpu")
    assert function(x, torch.ones(3, device="hpu")).tolist() == [2, 2, 2]
    x.zero_()
    assert function(x, x).tolist() == [2, 2, 2]
    assert function(x, x).tolist() == [4, 4, 4]


def test_inputs_may_overlap(compiled) -> None:
    # This test compiles new functions: Dynamo does not recompile if inputs begin or cease to overlap.
    base = torch.zeros(4, device="hpu")
    assert compiled(add_one_to_first_input)(base[:3], base[1:]).tolist() == [2, 2, 1]
    assert base.tolist() == [1, 1, 1, 0]
    total = compiled(lambda x, y: x + y * 2)
    for _ in range(3):
        assert total(base[:3], base[1:]).tolist() == [3, 3, 1]


def test_a_result_may_be_returned_twice(compiled) -> None:
    def twice(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x + 1
        return y, y, x

    x = torch.zeros(2, device="hpu")
    first, second, same = compiled(twice)(x)
    assert first.tolist() == second.tolist() == [1, 1]
    assert same.data_ptr() == x.data_ptr()


def test_results_outlive_inputs_and_later_calls(compiled) -> None:
    function = compiled(lambda x: x * 2)
    results = [function(torch.full((1000,), float(i), device="hpu")) for i in range(8)]
    assert [int(result[0].item()) for result in results] == [0, 2, 4, 6, 8, 10, 12, 14]


def test_constants(compiled) -> None:
    def shift(x: torch.Tensor) -> torch.Tensor:
        table = torch.tensor([1.0, 2.0, 3.0], device="hpu")
        return x + table + torch.arange(3, device=x.device)

    function = compiled(shift)
    for _ in range(2):
        assert function(torch.zeros(3, device="hpu")).tolist() == [1, 3, 5]


def test_a_tensor_on_the_cpu_without_dimensions_is_a_number(compiled) -> None:
    def step(x: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
        count += 1
        return x * count

    function = compiled(step)
    x, count = torch.ones(3, device="hpu"), torch.tensor(1.0)
    assert function(x, count).tolist() == [2, 2, 2]
    assert function(x, count).tolist() == [3, 3, 3]
    assert count.item() == 3 and count.device.type == "cpu"


def test_tensors_move_between_devices_in_a_graph(compiled) -> None:
    def move_to_cpu_and_back(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        host = (x + 1).cpu() * 2
        return host, host.to("hpu") + x

    function = compiled(move_to_cpu_and_back)
    for _ in range(2):
        host, device = function(torch.ones(3, device="hpu"))
        assert host.device.type == "cpu" and host.tolist() == [4, 4, 4]
        assert device.device.type == "hpu" and device.tolist() == [5, 5, 5]


def test_a_graph_break_in_the_middle(interpreted) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        torch._dynamo.graph_break()
        return y + 1

    assert interpreted(function)(torch.ones(2, device="hpu")).tolist() == [3, 3]


def test_a_shape_that_depends_on_data(interpreted) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x[x > 0] + 1

    assert interpreted(function)(torch.tensor([-1.0, 1.0, 2.0], device="hpu")).tolist() == [2, 3]
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        torch._dynamo.reset()
        assert interpreted(function)(torch.tensor([-1.0, 3.0], device="hpu")).tolist() == [4]


def test_autocast(compiled) -> None:
    layer = nn.Linear(8, 4).to("hpu")

    def forward(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("hpu", dtype=torch.bfloat16):
            return layer(x)

    x = torch.randn(3, 8, device="hpu")
    result = compiled(forward)(x)
    assert result.dtype == torch.bfloat16
    torch.testing.assert_close(result, forward(x), rtol=2e-2, atol=2e-2)


def test_complex_numbers(interpreted) -> None:
    function = interpreted(lambda x: (x.conj() * x).real.sum())
    x = torch.tensor([3 + 4j, 1j], device="hpu")
    assert function(x).item() == 26


def test_second_program_with_other_dtype(fused) -> None:
    function = fused(lambda x: (x + 1).sum())
    assert function(torch.ones(4, device="hpu")).item() == 8
    result = function(torch.ones(4, dtype=torch.int32, device="hpu"))
    assert result.item() == 8 and result.dtype == torch.int64
