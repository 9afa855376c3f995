"""Training in fp8 against float32: values, gradients, scales and their states."""

from __future__ import annotations

import copy
import io
from typing import Any

import habana_frameworks.torch  # noqa: F401
import habana_frameworks.torch.hpex.experimental.transformer_engine as te
import pytest
import torch
from habana_frameworks.torch.hpex.experimental.transformer_engine.recipe import DelayedScaling, Format
from torch.nn import functional

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
Manager = te.fp8.FP8GlobalStateManager


def draw(*size: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(seed)).to("hpu")


def error(actual: torch.Tensor, expected: torch.Tensor) -> float:
    """Error in the norm, as a part of the value."""
    a, e = actual.detach().cpu().double(), expected.detach().cpu().double()
    return float((a - e).norm() / e.norm())


def layer(**more: Any) -> te.Linear:
    torch.manual_seed(1)
    return te.Linear(32, 16, **more)


def steps(module: torch.nn.Module) -> dict[str, int]:
    """Steps that counted, of each pass."""
    return {name: int(meta.step) for name, meta in module.fp8_meta.items()}


@pytest.mark.parametrize(
    "recipe", [None, DelayedScaling(fp8_format=Format.E5M2, amax_history_len=3, amax_compute_algo="max")]
)
def test_a_linear_layer_is_as_exact_as_fp8(recipe: Any) -> None:
    module = layer()
    x = draw(2, 7, 32).requires_grad_()
    grad = draw(2, 7, 16, seed=2)
    due = functional.linear(x, module.weight, module.bias)
    wanted = torch.autograd.grad(due, (x, module.weight, module.bias), grad)
    assert error(module(x), due) < 1e-6  # outside of fp8_autocast
    for _ in range(3):  # the first step has scales of 1
        with te.fp8_autocast(enabled=True, fp8_recipe=recipe):
            found = module(x)
        got = torch.autograd.grad(found, (x, module.weight, module.bias), grad)
    low = recipe is not None
    assert error(found, due) < (0.12 if low else 0.06) and error(found, due) > 1e-3
    for one, want in zip(got, wanted, strict=True):
        assert one.dtype == want.dtype and error(one, want) < 0.15


def test_scales_follow_the_magnitudes_of_the_step_before() -> None:
    module = layer()
    recipe = DelayedScaling(margin=1, amax_history_len=2, amax_compute_algo="max", interval=1)
    for factor in (3.0, 100.0, 0.5, 0.5):
        with te.fp8_autocast(enabled=True, fp8_recipe=recipe):
            module(factor * draw(4, 32)).sum().backward()
    meta = module.fp8_meta["scaling_fwd"]
    top = float(draw(4, 32).abs().max())
    # Before the last step the history held 0.5 and 100 times the input.
    assert meta.scale[0].item() == pytest.approx(448 / (100 * top) / 2, rel=1e-5)
    assert (meta.scale * meta.scale_inv).tolist() == pytest.approx([1, 1])
    assert meta.amax_history[0, 0].item() == pytest.approx(0.5 * top, rel=1e-5)
    assert module.fp8_meta["scaling_bwd"].scale[0].item() == pytest.approx(57344 / 2)


def test_scales_change_each_interval() -> None:
    module, seen = layer(), []
    for step in range(5):
        with te.fp8_autocast(enabled=True, fp8_recipe=DelayedScaling(interval=2)):
            module((step + 1.0) * draw(4, 32))
        seen.append(module.fp8_meta["scaling_fwd"].scale[0].item())
    assert seen[0] == seen[1] == 1.0 and seen[2] == seen[3] != 1.0 and seen[4] != seen[3]


def test_the_usual_scale() -> None:
    amax = torch.tensor([2.0, 0.0, float("inf"), float("nan")])
    found = te.fp8._default_sf_compute(amax, torch.full((4,), 7.0), 448.0, 2)
    assert found.tolist() == [448 / 2 / 4, 7.0, 7.0, 7.0]
    assert not te.fp8.get_fp8_te_sr(DelayedScaling()) and te.fp8.get_fp8_te_sr(
        DelayedScaling(stochastic_rounding=True), fprop_tensor=False
    )
    assert te.fp8.get_fp8_te_dtype(DelayedScaling(), True) == E4M3
    assert te.fp8.get_fp8_te_dtype(DelayedScaling(), False) == E5M2


def test_own_functions_of_a_recipe() -> None:
    recipe = DelayedScaling(
        amax_compute_algo=lambda history: history[0] * 2,
        scaling_factor_compute_algo=lambda amax, scale, largest, recipe: largest / (4 * amax),
    )
    module = layer()
    for _ in range(2):
        with te.fp8_autocast(enabled=True, fp8_recipe=recipe):
            module(draw(4, 32))
    top = float(draw(4, 32).abs().max())
    assert module.fp8_meta["scaling_fwd"].scale[0].item() == pytest.approx(448 / (8 * top), rel=1e-5)
    with pytest.raises(ValueError, match="amax_compute_algo must be 'max', 'most_recent' or a function"):
        DelayedScaling(amax_compute_algo="least")
    with pytest.raises(ValueError, match="interval of DelayedScaling must be"):
        DelayedScaling(interval=0)


def test_the_context_nests_and_ends() -> None:
    assert not Manager.is_fp8_enabled()
    with te.fp8_autocast(enabled=True, fp8_recipe={"margin": 3}):
        assert Manager.is_fp8_enabled() and Manager.get_fp8_recipe().margin == 3
        with te.fp8_autocast(enabled=False):
            assert not Manager.is_fp8_enabled()
        assert Manager.FP8_AUTOCAST_DEPTH == 1
    with pytest.raises(ZeroDivisionError), te.fp8_autocast(enabled=True):
        _ = 1 / 0
    assert not Manager.is_fp8_enabled() and Manager.FP8_AUTOCAST_DEPTH == 0


@pytest.mark.parametrize("causal", [True, False])
def test_attention_is_as_exact_as_fp8(causal: bool) -> None:
    module = te.FusedAttention()
    q, k, v = (draw(2, heads, 6, 16, seed=heads).requires_grad_() for heads in (4, 4, 4))
    grad = draw(2, 4, 6, 16, seed=9)
    due = functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
    wanted = torch.autograd.grad(due, (q, k, v), grad)
    assert error(module(q, k, v, None, causal), due) < 1e-5
    for _ in range(2):
        with te.fp8_autocast(enabled=True):
            found = module(q, k, v, None, causal)
        got = torch.autograd.grad(found, (q, k, v), grad)
    assert 1e-3 < error(found, due) < 0.08
    for one, want in zip(got, wanted, strict=True):
        assert error(one, want) < 0.2
    shared = [draw(2, 2, 6, 16, seed=place) for place in (5, 6)]
    with te.fp8_autocast(enabled=True):
        assert module(q, *shared, None, causal).shape == q.shape


def test_a_model_learns() -> None:
    torch.manual_seed(2)
    model = torch.nn.Sequential(te.Linear(8, 32), torch.nn.ReLU(), te.Linear(32, 1))
    x = draw(64, 8)
    y = x.sum(1, keepdim=True).sin()
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    losses = []
    for _ in range(60):
        with te.fp8_autocast(enabled=True):
            loss = functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.35 * losses[0]


def test_a_checkpoint_computes_the_same_and_counts_once() -> None:
    plain, saved = layer(), layer()
    x = draw(4, 32).requires_grad_()
    results = []
    for module, call in ((plain, lambda m, x: m(x)), (saved, te.distributed.checkpoint)):
        for _ in range(3):
            module.zero_grad()
            x.grad = None
            with te.fp8_autocast(enabled=True):
                found = call(module, x)
            found.square().sum().backward()
        results.append([found.detach().cpu(), x.grad.cpu(), module.weight.grad.cpu()])
    for a, b in zip(*results, strict=True):
        assert torch.equal(a, b)
    assert torch.equal(plain.fp8_meta["scaling_fwd"].scale.cpu(), saved.fp8_meta["scaling_fwd"].scale.cpu())
    assert steps(saved) == {"scaling_fwd": 3, "scaling_bwd": 3}


@pytest.mark.parametrize("reentrant", [False, True])
def test_torchs_checkpoint_of_a_decorated_function_counts_once(reentrant: bool) -> None:
    module, x = layer(), draw(4, 32).requires_grad_()
    for _ in range(3):
        with te.fp8_autocast(enabled=True):
            function = te.distributed.activation_checkpointing()(module)
            found = torch.utils.checkpoint.checkpoint(function, x, use_reentrant=reentrant)
        found.sum().backward()
    assert steps(module) == {"scaling_fwd": 3, "scaling_bwd": 3}


def test_evaluation_changes_no_scale() -> None:
    module = layer()
    with torch.inference_mode(), te.fp8_autocast(enabled=True):
        module.eval()(draw(4, 32))
    module.train()
    for _ in range(2):
        with te.fp8_autocast(enabled=True):
            module(draw(4, 32)).sum().backward()
    before = copy.deepcopy(module.fp8_meta)
    with torch.no_grad(), te.fp8_autocast(enabled=True):
        module.eval()(1000 * draw(4, 32))
    for name, meta in before.items():
        assert torch.equal(meta.scale.cpu(), module.fp8_meta[name].scale.cpu())
        assert torch.equal(meta.amax_history.cpu(), module.fp8_meta[name].amax_history.cpu())
    assert steps(module)["scaling_fwd"] == 2


def test_scales_are_part_of_the_state() -> None:
    module = layer(bias=False)
    for _ in range(3):
        with te.fp8_autocast(enabled=True):
            module(5 * draw(4, 32)).sum().backward()
    other = te.Linear(32, 16, bias=False)
    other.load_state_dict(copy.deepcopy(module.state_dict()))
    with te.fp8_autocast(enabled=True):
        assert torch.equal(module(draw(4, 32)).cpu(), other(draw(4, 32)).cpu())
    assert steps(copy.deepcopy(module)) == steps(module)


def test_casts_of_a_place() -> None:
    meta = te.utils.FP8TensorMeta.make(2, 1, torch.device("hpu"))
    meta.scale[1], meta.scale_inv[1] = 4.0, 0.25
    x = draw(50)
    low = te.cpp_extensions.cast_to_fp8(x, meta, te.utils.FP8FwdTensors.GEMM1_WEIGHT, E4M3)
    assert low.dtype == E4M3 and error(te.cpp_extensions.cast_from_fp8(low, meta, 1, torch.float32), x) < 0.04
    assert meta.amax_history.tolist() == [[0.0, pytest.approx(float(x.abs().max()))]]


def test_what_is_not_there_says_so() -> None:
    with pytest.raises(NotImplementedError, match="its own weights"):
        te.Linear(2, 2, skip_weight_param_allocation=True)
    assert repr(te.Linear(2, 3)) == "Linear(in_features=2, out_features=3, bias=True)"


class Attends(torch.nn.Module):
    """Attention of heads with themselves."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = te.FusedAttention()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.attention(x, x, x)


@pytest.mark.parametrize("length", [1, 4])
@pytest.mark.parametrize("checkpointed", [False, True])
@pytest.mark.parametrize("kind", ["linear", "attention"])
def test_training_in_fp8_is_one_graph(kind: str, checkpointed: bool, length: int) -> None:
    recipe = DelayedScaling(interval=2, amax_history_len=length, amax_compute_algo="max")
    linear = torch.nn.Sequential(te.Linear(8, 16), torch.nn.ReLU(), te.Linear(16, 16))
    eager: torch.nn.Module = linear if kind == "linear" else Attends()
    traced, graphs = copy.deepcopy(eager), []

    def train(model: torch.nn.Module, compiled: bool) -> list[torch.Tensor]:
        def program(x: torch.Tensor) -> torch.Tensor:
            with te.fp8_autocast(enabled=True, fp8_recipe=recipe):
                return te.distributed.checkpoint(model, x) if checkpointed else model(x)

        run = torch.compile(program, backend=counted, fullgraph=True) if compiled else program
        seen = []
        for step in range(5):
            x = (step + 1) * draw(2, 2, 6, 8, seed=step).requires_grad_()
            found = run(x)
            grad = (5 - step) * draw(*found.shape, seed=9)
            seen += [found, *torch.autograd.grad(found, [x, *model.parameters()], grad)]
        metas = [meta for part in model.modules() for meta in getattr(part, "fp8_meta", {}).values()]
        return [*seen, *(part for meta in metas for part in (meta.scale, meta.scale_inv, meta.amax_history))]

    def counted(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        graphs.append(graph)
        return torch._dynamo.lookup_backend("hpu_backend")(graph, inputs)

    torch._dynamo.reset()
    expected, found = train(eager, False), train(traced, True)
    assert len(graphs) == 1
    # As below: attention of fp8 is bfloat16 in between, and three gradients add up.
    rounding = 1e-6 if kind == "linear" else 2.0**-6
    for one, due in zip(found, expected, strict=True):
        assert error(one, due) <= rounding
    last = list(traced.modules())[-1]
    assert steps(last) == {"scaling_fwd": 5, "scaling_bwd": 5}


def test_room_for_a_longer_history() -> None:
    module, recipe = layer(), DelayedScaling(amax_history_len=te.utils.ROOM + 1)

    def program(x: torch.Tensor) -> torch.Tensor:
        with te.fp8_autocast(enabled=True, fp8_recipe=recipe):
            return module(x)

    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported, match="Run one step without torch"):
        torch.compile(program, backend="eager", fullgraph=True)(draw(4, 32))
    program(draw(4, 32)).sum().backward()
    assert module.fp8_meta["scaling_bwd"].amax_history.shape == (te.utils.ROOM + 1, 1)
    torch.compile(program, backend="eager", fullgraph=True)(draw(4, 32)).sum().backward()
    assert steps(module) == {"scaling_fwd": 2, "scaling_bwd": 2}


def test_evaluation_needs_no_room() -> None:
    module, recipe = layer().eval(), DelayedScaling(amax_history_len=te.utils.ROOM + 1)

    def program(x: torch.Tensor) -> torch.Tensor:
        with te.fp8_autocast(enabled=True, fp8_recipe=recipe):
            return module(x)

    torch._dynamo.reset()
    compiled = torch.compile(program, backend="hpu_backend", fullgraph=True)
    assert error(compiled(draw(4, 32)), program(draw(4, 32))) < 1e-6


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_scales_are_float32_whatever_the_default_dtype(dtype: torch.dtype) -> None:
    torch.set_default_dtype(dtype)
    try:
        module = te.Linear(32, 16)
    finally:
        torch.set_default_dtype(torch.float32)
    assert module.weight.dtype == dtype
    for meta in module.fp8_meta.values():
        assert meta.scale.dtype == meta.scale_inv.dtype == meta.amax_history.dtype == torch.float32


def test_a_state_of_something_else_says_so() -> None:
    buffer = io.BytesIO()
    torch.save({"tensors": {}}, buffer)
    with pytest.raises(ValueError, match="omit its _extra_state"):
        layer().set_extra_state(torch.frombuffer(bytearray(buffer.getvalue()), dtype=torch.uint8))


def test_scales_go_where_the_parameters_go() -> None:
    module = te.Linear(32, 16, device="cpu")
    assert module.fp8_meta["scaling_fwd"].scale.device.type == "cpu"
    module.to("hpu", torch.bfloat16)
    assert module.fp8_meta["scaling_bwd"].amax_history.device.type == "hpu"
    assert module.fp8_meta["scaling_fwd"].scale.dtype == torch.float32
    empty = te.Linear(32, 16, device="meta").to_empty(device="hpu")
    assert empty.fp8_meta["scaling_fwd"].scale.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("module", [te.Linear(16, 16), te.FusedAttention()])
def test_a_compiled_module_computes_the_same(module: torch.nn.Module) -> None:
    arguments = [draw(2, 2, 6, 16, seed=place).requires_grad_() for place in range(3)]
    arguments = arguments[:1] if isinstance(module, te.Linear) else arguments
    twin = copy.deepcopy(module)
    # Attention of fp8 is bfloat16 in between, which a graph may leave in float32.
    rounding = 1e-6 if isinstance(module, te.Linear) else 2.0**-8

    def program(model: torch.nn.Module, *given: torch.Tensor) -> torch.Tensor:
        with te.fp8_autocast(enabled=True):
            return model(*given)

    torch._dynamo.reset()
    compiled = torch.compile(program, backend="hpu_backend")
    for _ in range(3):
        results = []
        for call, model in ((program, module), (compiled, twin)):
            found = call(model, *arguments)
            results.append([found, *torch.autograd.grad(found, arguments, draw(*found.shape, seed=9))])
        for eager, graph in zip(*results, strict=True):
            assert error(graph, eager) <= rounding
