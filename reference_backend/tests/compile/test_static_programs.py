"""Test that fused recipes have the same effects when they run as static programs, without Python."""

from __future__ import annotations

import contextlib
import copy
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from habana_frameworks.torch import _C
from habana_frameworks.torch.dynamo.compile_backend import static_program_builder
from torch import hpu, nn
from torch.utils.flop_counter import FlopCounterMode


class StaticPrograms(list[Any]):
    """List of static programs, one for each fused function; None for a function without a static program."""

    def run_counts(self) -> list[int]:
        """Return the number of runs of each static program."""
        return [program.runs for program in self if program is not None]


@pytest.fixture(autouse=True)
def _first_runs_without_aot_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable AOTAutograd's check of the first run, because that check runs the graph in Python."""
    import torch._functorch._aot_autograd.runtime_wrappers as wrappers

    if hasattr(wrappers, "_AnalyzeCustomOpInputOutputMode"):
        monkeypatch.setattr(wrappers, "_AnalyzeCustomOpInputOutputMode", contextlib.nullcontext)


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> Iterator[StaticPrograms]:
    """Return a list that collects the static programs of all later compilations."""
    created = StaticPrograms()
    make = static_program_builder.build_static_program

    def collect(*arguments: Any) -> Any:
        created.append(make(*arguments))
        return created[-1]

    monkeypatch.setattr(static_program_builder, "build_static_program", collect)
    yield created


def gradients_of_step(model: nn.Module, function: Callable[..., Any], x: torch.Tensor) -> list[torch.Tensor]:
    """Run the forward and backward pass of `function`. Return the gradients of the model's parameters."""
    for parameter in model.parameters():
        parameter.grad = None
    function(x).square().mean().backward()
    return [parameter.grad for parameter in model.parameters()]


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "linear": (lambda: nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3)), (4, 8)),
    "convolution": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2)
        ),
        (2, 3, 6, 6),
    ),
    "transformer": (lambda: nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True), (2, 5, 16)),
}


@pytest.mark.nightly("each case compiles a training step", every=3)
@pytest.mark.parametrize("name", MODELS)
def test_training_steps_run_as_static_programs(name: str, fused, programs: StaticPrograms) -> None:
    make, sizes = MODELS[name]
    model = make().to("hpu")
    expected_model = copy.deepcopy(model)
    function = fused(model)
    for _ in range(3):
        x = torch.randn(sizes, device="hpu")
        for a, b in zip(
            gradients_of_step(model, function, x),
            gradients_of_step(expected_model, expected_model, x),
            strict=True,
        ):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    assert programs.run_counts() == [3, 3]
    for a, b in zip(model.buffers(), expected_model.buffers(), strict=True):
        torch.testing.assert_close(a, b)


def test_results_that_are_inputs_or_share_memory(fused, programs: StaticPrograms) -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        z = x @ y
        return x, x.t(), z, z.view(-1), z, x[1:]

    x, y = torch.randn(4, 4, device="hpu"), torch.randn(4, 4, device="hpu")
    expected = function(x, y)
    for _ in range(2):
        a, b, c, d, e, f = fused(function)(x, y)
        assert a is x
        assert b.data_ptr() == x.data_ptr()
        assert f.data_ptr() == x[1:].data_ptr()
        assert c.data_ptr() == d.data_ptr() == e.data_ptr()
        for actual, expected_output in zip((a, b, c, d, e, f), expected, strict=True):
            torch.testing.assert_close(actual, expected_output)
    assert sum(programs.run_counts()) == 2


def test_inputs_are_written_and_may_share_memory(fused, programs: StaticPrograms) -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x @ y

    program = fused(function)
    memory = torch.arange(32.0, device="hpu")
    x, y = memory[:16].view(4, 4), memory[16:].view(4, 4)
    expected = (x + 1) @ y
    with torch.no_grad():
        torch.testing.assert_close(program(x, y), expected)
    assert x.flatten().tolist() == [i + 1.0 for i in range(16)]
    assert set(programs.run_counts()) == {1}


def test_inputs_with_other_layouts(fused, programs: StaticPrograms) -> None:
    """Later calls pass gradients with different strides, and inputs with different storage offsets."""
    layer = nn.Linear(4, 4).to("hpu")
    function = fused(layer)
    memory = torch.randn(40, device="hpu")
    for begin in (0, 3, 8):
        x = memory[begin : begin + 16].view(4, 4)
        for gradient in (torch.randn(4, 4, device="hpu"), torch.randn(4, 4, device="hpu").t()):
            layer.weight.grad = None
            function(x).backward(gradient)
            torch.testing.assert_close(layer.weight.grad, gradient.t() @ x)
    assert all(programs)


def test_work_waits_for_its_inputs(fused, programs: StaticPrograms) -> None:
    program = fused(lambda x, y: x @ y)
    x, y = torch.eye(64, device="hpu"), torch.randn(64, 64, device="hpu")
    program(x, y)
    stream = hpu.Stream()
    for _ in range(5):
        with hpu.stream(stream):
            _C.enqueue_delay(0.02)
            for _ in range(10):
                x = x * 2
        # Both streams access `x`, so this call runs after the multiplications and before the next `fill_`.
        z = program(x, y)
        with hpu.stream(stream):
            x.fill_(0)
            x.fill_diagonal_(1)
        torch.testing.assert_close(z, y * 1024)
        x = torch.eye(64, device="hpu")
        hpu.synchronize()
    assert programs.run_counts() == [6]


def test_capture_of_a_static_program_raises(fused, programs: StaticPrograms) -> None:
    program = fused(lambda x: x * 2)
    x = torch.ones(3, device="hpu")
    program(x)
    graph = hpu.HPUGraph()
    with pytest.raises(RuntimeError, match="cannot be part of an HPU Graph"), hpu.graph(graph):
        program(x)
    assert program(x).tolist() == [2, 2, 2]
    assert programs.run_counts() == [2]


def test_profiler_and_dispatch_modes_observe_the_operators(fused, programs: StaticPrograms) -> None:
    program = fused(lambda x, y: x @ y)
    x, y = torch.randn(4, 4, device="hpu"), torch.randn(4, 4, device="hpu")
    program(x, y)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        program(x, y)
    assert "aten::mm" in {event.key for event in profile.key_averages()}
    assert programs.run_counts() == [1]
    program(x, y)
    assert programs.run_counts() == [2]
    (static_program,) = programs
    with FlopCounterMode(display=False):
        assert static_program([x, y]) is None
    assert static_program([x, y]) is not None


def test_threads_share_a_program(fused, programs: StaticPrograms) -> None:
    program = fused(lambda x, y: (x @ y).relu() + x)
    y = torch.randn(32, 32, device="hpu")
    program(y, y)
    faults: list[str] = []

    def compare_with_eager(seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        for _ in range(50):
            x = torch.randn(32, 32, generator=generator).to("hpu")
            if not torch.allclose(program(x, y), (x @ y).relu() + x, atol=1e-4):
                faults.append(f"thread {seed}")

    threads = [threading.Thread(target=compare_with_eager, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults
    assert sum(programs.run_counts()) == 151


def test_errors_of_kernels(fused, programs: StaticPrograms) -> None:
    program = fused(lambda x, y: x // y + 1)
    x = torch.tensor([4, 6], device="hpu")
    assert program(x, torch.tensor([2, 3], device="hpu")).tolist() == [3, 3]
    before = hpu.memory_allocated()
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        program(x, torch.tensor([2, 0], device="hpu"))
    assert hpu.memory_allocated() == before
    assert program(x, torch.tensor([1, 1], device="hpu")).tolist() == [5, 7]


def test_input_without_memory_raises(fused, programs: StaticPrograms) -> None:
    program = fused(lambda x: x * 2)
    x = torch.ones(64, device="hpu")
    program(x)
    x.untyped_storage().resize_(0)
    with pytest.raises(RuntimeError, match="give its storage memory"):
        program(x)
    assert programs.run_counts() == [1]


def test_memory_is_freed(fused, programs: StaticPrograms) -> None:
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64)).to("hpu")
    function = fused(model)
    x = torch.randn(16, 64, device="hpu")
    gradients_of_step(model, function, x)
    before = hpu.memory_allocated()
    for _ in range(3):
        gradients_of_step(model, function, x)
    assert hpu.memory_allocated() == before


def test_each_shape_has_its_program(fused, programs: StaticPrograms) -> None:
    program = fused(lambda x: x * 2 + 1, dynamic=False)
    for size in (2, 3, 4, 3):
        assert program(torch.ones(size, device="hpu")).tolist() == [3] * size
    assert programs.run_counts() == [1, 2, 1]


def test_symbolic_shapes_create_no_static_program(fused, programs: StaticPrograms) -> None:
    program = fused(lambda x: x * 2 + 1, dynamic=True)
    for size in (2, 3):
        assert program(torch.ones(size, device="hpu")).tolist() == [3] * size
    assert not any(programs)


def test_constants_of_frozen_graphs(fused, programs: StaticPrograms) -> None:
    layer = nn.Linear(4, 4).to("hpu").eval()
    with torch.no_grad():
        program = fused(layer, use_graph_freezing=True)
        for _ in range(2):
            x = torch.randn(2, 4, device="hpu")
            torch.testing.assert_close(program(x), layer(x))
    assert programs.run_counts() == [2]


def test_code_from_the_disk_cache_becomes_a_static_program(fused, programs: StaticPrograms) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return (x @ x).sin() * 3

    x = torch.randn(4, 4, device="hpu")
    for _ in range(2):
        torch._dynamo.reset()
        torch.testing.assert_close(fused(function)(x), function(x))
    assert programs.run_counts() == [1, 1]


def _calls_torch_function(inputs: list[Any]) -> Any:
    return (torch.rand(2),)


def _branches(inputs: list[Any]) -> Any:
    (x,) = inputs
    return (x if x else None,)


def _calls_method(inputs: list[Any]) -> Any:
    return (inputs[0].sin(),)


def _calls_print(inputs: list[Any]) -> Any:
    print(inputs)
    return (inputs[0],)


def _returns_view(inputs: list[Any]) -> Any:
    (x,) = inputs
    return (torch.ops.aten.view.default(x, [2]),)


def _passes_number_for_tensor(inputs: list[Any]) -> Any:
    (x,) = inputs
    return (torch.ops.aten.mul.Tensor(x, 2),)


def _resizes_input(inputs: list[Any]) -> Any:
    (x,) = inputs
    torch.ops.aten.resize_.default(x, [4])
    return (x,)


def _returns_number(inputs: list[Any]) -> Any:
    return (3,)


@pytest.mark.parametrize(
    "function",
    [
        _calls_torch_function,
        _branches,
        _calls_method,
        _calls_print,
        _returns_view,
        _resizes_input,
        _returns_number,
        _passes_number_for_tensor,
    ],
)
def test_functions_that_cannot_be_static_programs(function: Callable[..., Any]) -> None:
    assert static_program_builder.build_static_program(function, [torch.ones(2, device="hpu")], False) is None


def test_functions_with_other_parameters_cannot_be_static_programs() -> None:
    x = torch.ones(2, device="hpu")
    for function in (lambda inputs: (x,), lambda *inputs: inputs, lambda first, second: None, len):
        assert static_program_builder.build_static_program(function, [x], False) is None


def test_result_of_wrong_size_raises() -> None:
    def function(inputs: list[Any]) -> Any:
        (x,) = inputs
        result = torch.ops.aten.cumsum.default(x, 0)
        assert_size_stride(result, (3,), (1,), "cumsum")  # noqa: F821
        return (result,)

    x = torch.ones(2, device="hpu")
    function.__globals__["assert_size_stride"] = None
    try:
        program = static_program_builder.build_static_program(function, [x], False)
    finally:
        del function.__globals__["assert_size_stride"]
    inputs = [x]
    with pytest.raises(AssertionError, match=r"cumsum has sizes \[2\]"):
        program(inputs)
    assert inputs == [x]


@pytest.mark.parametrize("other", ["cpu", "dtype", "sizes", "strides", "conj", "number"])
def test_static_program_leaves_unexpected_inputs_to_python(other: str) -> None:
    def function(inputs: list[Any]) -> Any:
        (x,) = inputs
        return (torch.ops.aten.cumsum.default(x, 0),)

    x = torch.ones(2, 3, device="hpu", dtype=torch.complex64)
    program = static_program_builder.build_static_program(function, [x], False)
    values: dict[str, Any] = {
        "cpu": x.cpu(),
        "dtype": x.to(torch.complex128),
        "sizes": x[:1],
        "strides": torch.ones(3, 2, device="hpu", dtype=torch.complex64).t(),
        "conj": x.conj(),
        "number": 3,
    }
    inputs = [values[other]]
    assert program(inputs) is None
    assert len(inputs) == 1
    inputs = [x]
    (result,) = program(inputs)
    assert inputs == []
    assert result.tolist() == [[1] * 3, [2] * 3]
