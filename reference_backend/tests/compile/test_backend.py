"""Test how `hpu_backend` works with torch and tools: registration, fallbacks, passes, logs, summaries."""

from __future__ import annotations

import pytest
import torch
from habana_frameworks.torch.dynamo.compile_backend import passes, recipe_support
from habana_frameworks.torch.dynamo.debug_utils.logger import Logger, get_compile_backend_logger
from habana_frameworks.torch.utils.debug.dynamo_utils import FxGraphAnalyzer


def test_one_backend_is_registered() -> None:
    names = [name for name in torch._dynamo.list_backends() if "hpu" in name]
    assert names == ["hpu_backend"]


def test_importing_the_device_does_not_import_dynamo(python) -> None:
    script = """
import sys
print([name for name in sys.modules if name.startswith(("torch._dynamo", "torch._inductor"))])
import habana_frameworks.torch as ht
print(ht.dynamo.compile_backend.config.use_boxed_input)
"""
    assert python(script).stdout.splitlines() == ["[]", "True"]


NO_BACKEND = """
import warnings
warnings.simplefilter("always")
with warnings.catch_warnings(record=True) as seen:
    compiled = torch.compile(lambda x: (x + 1).relu(), **OPTIONS)
    print(compiled(torch.ones(2, device="hpu")).tolist())
    created = torch.compile(lambda n: torch.ones(n, device="hpu") * 2, **OPTIONS)
    print(created(3).tolist(), torch.compile(lambda x: x + 1)(torch.ones(2)).tolist())
    print(torch.compile(lambda x: x.to("hpu") * 2, **OPTIONS)(torch.ones(2)).tolist())
    module = torch.nn.Linear(2, 2).to("hpu")
    module.compile()
    module(torch.ones(2, device="hpu")).sum().backward()
    print(module.weight.grad.tolist())
print(len([one for one in seen if "uses the backend 'hpu_backend'" in str(one.message)]))
print(dict(habana_frameworks.torch.hpu.metrics.metric_global("graph_compilation").stats())["TotalNumber"] > 0)
"""


@pytest.mark.parametrize("options", [{}, {"mode": "max-autotune"}, {"options": {"max_autotune": True}}])
def test_compile_without_a_backend_uses_hpu_backend(python, options) -> None:
    done = python(f"OPTIONS = {options!r}\n{NO_BACKEND}")
    assert done.stdout.splitlines() == [
        "[2.0, 2.0]", "[2.0, 2.0, 2.0] [2.0, 2.0]", "[2.0, 2.0]", "[[1.0, 1.0], [1.0, 1.0]]", "1", "True",
    ], done.stderr  # fmt: skip


@pytest.mark.parametrize("backend", ["hpu_backend", "inductor", "eager"])
def test_module_wrapped_in_a_graph_is_not_compiled(backend) -> None:
    layer = torch.nn.Linear(2, 2).to("hpu")
    model = torch.nn.Sequential(layer, torch.nn.ReLU())
    torch.hpu.wrap_in_hpu_graph(layer)
    with pytest.raises(
        RuntimeError, match=r"^torch\.compile of Linear is not supported, because wrap_in_hpu_graph"
    ):
        torch.compile(layer, backend=backend)
    for compile_model in (
        lambda: torch.compile(model, backend=backend),
        lambda: model.compile(backend=backend),
    ):
        with pytest.raises(RuntimeError, match=r"^torch\.compile of the submodule 0 is not supported"):
            compile_model()


@torch.no_grad()
def test_compiled_function_calls_a_graph_as_it_is(recwarn) -> None:
    layer = torch.hpu.wrap_in_hpu_graph(torch.nn.Linear(2, 2).to("hpu").eval())
    compiled_function = torch.compile(lambda x: layer(x * 2) + 1, backend="hpu_backend")
    for _ in range(2):
        x = torch.randn(3, 2, device="hpu")
        torch.testing.assert_close(
            compiled_function(x), torch.nn.functional.linear(x * 2, layer.weight, layer.bias) + 1
        )
    assert [str(one.message) for one in recwarn if "Dynamo" in str(one.message)] == []


def test_device_interfaces() -> None:
    from torch._dynamo.device_interface import get_interface_for_device

    for name in ("hpu", "hpu:0"):
        assert get_interface_for_device(name).is_available()


@pytest.fixture
def sine_falls_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipe_support, "hpu_fallback_op_list", ["aten::sin"])


def test_fallbacks_run_between_recipes(compiled, sine_falls_back) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return (x * 2).sin() * 3 + x

    x = torch.randn(5, device="hpu")
    with FxGraphAnalyzer(reset_dynamo=True) as analyzer:
        torch.testing.assert_close(compiled(function)(x), function(x))
    (ops,) = analyzer.get_ops_summary()
    assert ops["torch.ops.aten.sin.default"].eager_count == 1
    assert ops["torch.ops.aten.sin.default"].graph_count == 0
    assert ops["torch.ops.aten.mul.Tensor"].graph_count == 2
    assert ops["torch.ops.aten.mul.Tensor"].eager_count == 0


def test_fallback_raises_if_the_option_is_off(compiled, sine_falls_back) -> None:
    program = compiled(lambda x: x.sin(), use_eager_fallback=0)
    with pytest.raises(
        Exception, match=r"Eager fallback in nodes sin \(aten.sin.default\).*requires fallback"
    ):
        program(torch.ones(2, device="hpu"))
    compiled(lambda x: x.cos(), use_eager_fallback=0)(torch.ones(2, device="hpu"))


STATIC_CALLS = {
    "integer index": (lambda x, i: (x * 2)[i] + 1, [3, 0]),
    "index_select": (lambda x, i: x.index_select(0, i) + 1, [3, 0]),
    "repeat_interleave": (lambda x, i: torch.repeat_interleave(x * 2, i, output_size=6) + 1, [0, 1, 2, 3]),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", STATIC_CALLS)
def test_call_whose_result_shape_needs_no_data_does_not_fall_back(name: str, dynamic: bool, compiled) -> None:
    """An operator of ``STATIC_CALLS`` falls back to eager mode only if its result shape depends on data."""
    function, indices = STATIC_CALLS[name]
    program = compiled(function, dynamic=dynamic, use_eager_fallback=0)
    x, i = torch.randn(4, device="hpu"), torch.tensor(indices, device="hpu")
    for _ in range(2):
        torch.testing.assert_close(program(x, i), function(x, i))


def test_integer_indices_are_part_of_recipes_that_are_captured(interpreted) -> None:
    x, i = torch.randn(4, device="hpu"), torch.tensor([3, 0], device="hpu")
    with FxGraphAnalyzer(reset_dynamo=True) as analyzer:
        interpreted(lambda x, i: (x * 2)[i] + 1)(x, i)
    (ops,) = analyzer.get_ops_summary()
    assert ops["torch.ops.aten.index.Tensor"].graph_count == 1


def test_a_wrong_index_is_an_error_that_a_program_can_catch(compiled) -> None:
    program = compiled(lambda x, i: (x * 2)[i] + 1)
    x, i = torch.randn(100000, device="hpu"), torch.arange(100000, device="hpu")
    program(x, i)
    with pytest.raises(IndexError, match="index 100000 is out of bounds"):
        program(x, i + 1).cpu()


def test_a_mask_is_a_fallback(compiled) -> None:
    program = compiled(lambda x, mask: x[mask] + 1, use_eager_fallback=0)
    x, mask = torch.randn(4, device="hpu"), torch.tensor([True, False, False, True], device="hpu")
    with (
        torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True),
        pytest.raises(Exception, match=r"Eager fallback in nodes .*requires fallback"),
    ):
        program(x, mask)


def test_call_whose_checked_result_size_depends_on_data_falls_back(interpreted) -> None:
    """``torch._check`` makes the size a constant of the graph. Even so, ``nonzero`` runs as a fallback."""

    def function(x: torch.Tensor) -> torch.Tensor:
        positions = x.nonzero()
        torch._check(positions.shape[0] == 2)
        return positions + 1

    x = torch.tensor([0.0, 1.0, 2.0], device="hpu")
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        assert interpreted(function)(x).tolist() == [[2], [3]]
        with pytest.raises(Exception, match=r"Eager fallback in nodes nonzero"):
            interpreted(function, use_eager_fallback=0)(x)


def test_analyzer_counts_each_graph_and_other_devices(interpreted) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        torch._dynamo.graph_break()
        return y * torch.ones((), device="cpu").add(1)

    with FxGraphAnalyzer(reset_dynamo=True, capture_non_hpu_output=True) as analyzer:
        interpreted(function)(torch.ones(2, device="hpu"))
    first, second = analyzer.get_ops_summary()
    assert first["torch.ops.aten.add.Tensor"].graph_count == 1
    assert second["torch.ops.aten.add.Tensor"].eager_count == 1


def test_passes_and_fallbacks_are_logged(interpreted, sine_falls_back) -> None:
    for logger in (passes.logger, recipe_support.logger):
        logger.set_store_data(True)
    try:
        interpreted(lambda x: (x * 2).sin() + 1)(torch.ones(2, device="hpu"))
        fallbacks = recipe_support.logger.data
        graphs = [line for line in passes.logger.data if "####PyTorch-generated JIT IR" in line]
        assert all(line.startswith("[PT_COMPILE] ") for line in [*fallbacks, *passes.logger.data])
        assert any(line.startswith("[PT_COMPILE] Node: sin requires fallback: True") for line in fallbacks)
        assert "[PT_COMPILE] Node: mul requires fallback: False" in fallbacks
        assert "aten::mul(" in graphs[0] and "aten::add" in graphs[1]
    finally:
        for logger in (passes.logger, recipe_support.logger):
            logger.set_store_data(False)
    assert passes.logger.data == []


def test_logger() -> None:
    logger = Logger("NAME")
    logger.set_store_data(True)
    for level in ("trace", "debug", "info", "warn", "warning", "error", "critical"):
        getattr(logger, level)("%s is logged", level)
    assert logger.data[0] == "[NAME] trace is logged" and len(logger.data) == 7
    logger.set_store_data(True)
    assert logger.data == []
    assert isinstance(get_compile_backend_logger(), Logger)


ALL_PASSES = [member.__name__ for members in passes.passes_by_stage().values() for member in members]


@pytest.mark.parametrize("name", ALL_PASSES)
def test_any_pass_can_be_disabled(name: str, interpreted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"PT_HPU_DISABLE_{name}", "Y")

    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return torch.matmul(x.expand(2, 3, 3), y.clone()).sum(0) + torch.rand_like(y) * 0

    x, y = torch.ones(3, 3, device="hpu"), torch.ones(3, 3, device="hpu")
    assert interpreted(function)(x, y).tolist() == [[12.0] * 3] * 3
    assert x.sum().item() == 18


def test_passes_have_their_prefix() -> None:
    assert all(name.startswith("pass_") for name in ALL_PASSES)


def test_index_copy_writes_a_cache_in_place(interpreted) -> None:
    def update(cache: torch.Tensor, position: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        cache.index_copy_(0, position, value)
        return cache.sum()

    passes.logger.set_store_data(True)
    try:
        program = interpreted(update)
        cache, position = torch.zeros(4, 2, device="hpu"), torch.tensor([1], device="hpu")
        assert program(cache, position, torch.ones(1, 2, device="hpu")).item() == 2
        assert cache.tolist() == [[0, 0], [1, 1], [0, 0], [0, 0]]
        assert any("aten::index_copy_(" in line for line in passes.logger.data)
    finally:
        passes.logger.set_store_data(False)


def test_error_in_a_program_reaches_the_caller(interpreted) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.shape[0] > 1 else x.view(7)

    with pytest.raises(RuntimeError, match=r"view|shape"):
        interpreted(function)(torch.ones(1, device="hpu"))


def test_a_mix_of_devices_is_an_error(interpreted) -> None:
    with pytest.raises(RuntimeError, match="device"):
        interpreted(lambda x, y: x + y)(torch.ones(2, device="hpu"), torch.ones(2))


def test_user_operators_run_between_recipes(compiled) -> None:
    from torch.library import custom_op

    @custom_op("compile_test::double", mutates_args=())
    def double(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @double.register_fake
    def _(x: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(x)

    program = compiled(lambda x: double(x + 1) + 1)
    assert program(torch.ones(2, device="hpu")).tolist() == [5, 5]


def test_attention_without_dropout_is_in_a_recipe(fused) -> None:
    attend = torch.nn.functional.scaled_dot_product_attention
    x = torch.randn(2, 4, 8, 16, device="hpu")
    name = "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default"
    with FxGraphAnalyzer(reset_dynamo=True) as analyzer:
        torch.testing.assert_close(fused(lambda x: attend(x, x, x))(x), attend(x, x, x))
    assert analyzer.get_ops_summary()[0][name].graph_count == 1


def test_interpreted_recipes_are_replayed(interpreted, monkeypatch: pytest.MonkeyPatch) -> None:
    from habana_frameworks.torch.dynamo.compile_backend import interpreted as module

    runs = []

    def run_and_count(cluster: torch.fx.GraphModule):
        run = by_calls(cluster)
        return lambda inputs: runs.append(1) or run(inputs)

    by_calls = module.make_operator_by_operator_recipe
    monkeypatch.setattr(module, "make_operator_by_operator_recipe", run_and_count)
    program = interpreted(lambda x, y: (x * y).sum())
    for i in range(4):
        assert program(torch.full((3,), float(i), device="hpu"), torch.ones(3, device="hpu")).item() == 3 * i
    assert len(runs) == 1
    same = torch.full((3,), 2.0, device="hpu")
    for _ in range(2):
        assert program(same, same).item() == 12


def test_recipe_that_cannot_be_captured_runs_call_by_call(
    interpreted, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Refusing:
        def begin(self, dry_run: bool, this_thread: bool) -> None:
            pass

        def end(self) -> None:
            raise RuntimeError("refused")

        def reset(self) -> None:
            pass

    monkeypatch.setattr("habana_frameworks.torch._C.Graph", Refusing)
    program = interpreted(lambda x: x + 1)
    assert [program(torch.full((1,), float(i), device="hpu")).item() for i in range(3)] == [1, 2, 3]


def test_recipes_and_hpu_graphs(compiled) -> None:
    from habana_frameworks.torch import _C

    program = compiled(lambda x: x * 2)
    x = torch.ones(2, device="hpu")
    program(x)
    graph = _C.Graph()
    graph.begin()
    try:
        result = program(x)
    except RuntimeError as error:
        assert "cannot be part of an HPU Graph" in str(error)
        result = None
    graph.end()
    if result is not None:
        x.fill_(3)
        graph.replay()
        assert result.tolist() == [6, 6]
    assert program(x).tolist() == (x * 2).tolist()


def test_dynamo_may_be_imported_before_the_device(python) -> None:
    script = (
        "print(torch.compile(lambda x: x + 1, backend='hpu_backend')(torch.ones(1, device='hpu')).item())"
    )
    options = {"HPU_REFERENCE_COMPILE": "interpreted", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    done = python(script, before="import torch._dynamo", **options)
    assert done.stdout.strip() == "2.0", done.stderr


def test_compilations_are_recorded(compiled, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = []
    monkeypatch.setattr(
        "habana_frameworks.torch._C.record_compilation", lambda name, us: recorded.append((name, us))
    )
    compiled(lambda x: (x * 2).sum())(torch.ones(2, device="hpu"))
    assert len(recorded) == 1 and recorded[0][0].endswith("inference_0") and recorded[0][1] >= 0
