"""Compare gradient accumulation, gradient clipping and optimizer steps with float64 formulas.

AdamW is called by both of its names, ``habanaOptimizerAdamW`` and ``optimizer_adamw``.
"""

from __future__ import annotations

import math

import habana_frameworks.torch  # noqa: F401
import pytest
import torch
from habana_frameworks.torch.internal.settings import mode

from .reference import assert_close_to_reference
from .samples import normal, number

hpu = torch.ops.hpu

Tensors = list[torch.Tensor]
SHAPES = ((3, 4), (5,), (1, 2, 2), ())


def tensors_of_all_shapes(seed: int, dtype: torch.dtype = torch.float32) -> Tensors:
    return [normal(*size, seed=seed + index, dtype=dtype) for index, size in enumerate(SHAPES)]


def float64_copies(tensors: Tensors) -> Tensors:
    """Return copies on the CPU in float64."""
    return [t.detach().cpu().double().clone() for t in tensors]


def assert_lists_close(actual: Tensors, expected: Tensors, rtol: float = 1e-5, atol: float = 1e-6) -> None:
    for actual_tensor, expected_tensor in zip(actual, expected, strict=True):
        assert_close_to_reference(actual_tensor, expected_tensor, rtol, atol)


@pytest.mark.parametrize("had", ["all", "none", "some"])
def test_gradients_are_added_to_variables(had: str) -> None:
    variables = [t.requires_grad_() for t in tensors_of_all_shapes(1)]
    before = tensors_of_all_shapes(10)
    for index, variable in enumerate(variables):
        if had == "all" or (had == "some" and index % 2):
            variable.grad = before[index].clone()
    new = tensors_of_all_shapes(20)
    values = float64_copies(variables)
    expected = [
        g if variable.grad is None else b + g
        for variable, b, g in zip(variables, float64_copies(before), float64_copies(new), strict=True)
    ]
    hpu.accumulate_grads_(variables, new)
    assert_lists_close([variable.grad for variable in variables], expected)
    assert_lists_close(variables, values, 0, 0)
    for gradient in new:
        gradient.zero_()
    assert_lists_close(
        [variable.grad for variable in variables], expected
    )  # `.grad` does not share memory with the argument


def test_accumulate_grads_in_a_compiled_function_raises() -> None:
    def program(variables: Tensors, new: Tensors) -> None:
        hpu.accumulate_grads_(variables, new)

    variable = normal(3).requires_grad_()
    torch._dynamo.reset()
    with pytest.raises(Exception, match="Call it outside of the compiled function"):
        torch.compile(program, backend="hpu_backend", fullgraph=True)([variable], [normal(3, seed=2)])
    assert variable.grad is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64], ids=str)
def test_lists_are_added_in_place(dtype: torch.dtype) -> None:
    first_list, two = ([(t * 9).to(dtype) for t in tensors_of_all_shapes(seed)] for seed in (1, 10))
    original_tensors = list(first_list)
    expected, unchanged = (
        [a + b for a, b in zip(float64_copies(first_list), float64_copies(two), strict=True)],
        float64_copies(two),
    )
    assert hpu.custom_foreach_add_(first_list, two) is None
    assert all(a is b for a, b in zip(first_list, original_tensors, strict=True)) and all(
        t.dtype == dtype for t in first_list
    )
    assert_lists_close(first_list, expected, 2**-8 if dtype == torch.bfloat16 else 1e-6)
    assert_lists_close(two, unchanged, 0, 0)


@pytest.mark.parametrize("name", ["fused_norm_", "fused_norm_lazy", "fused_clip_norm"])
@pytest.mark.parametrize("kind", [2.0, 1.0, 3.0, math.inf])
@pytest.mark.parametrize("largest", [0.5, 500.0], ids=["clipped", "kept"])
@pytest.mark.parametrize(("dtype", "rtol"), [(torch.float32, 1e-5), (torch.bfloat16, 2**-7)], ids=str)
def test_norms_are_clipped_in_place(
    name: str, kind: float, largest: float, dtype: torch.dtype, rtol: float
) -> None:
    gradients = tensors_of_all_shapes(1, dtype)
    original = float64_copies(gradients)
    flat = torch.cat([g.reshape(-1) for g in original]).abs()
    total = float(flat.max()) if kind == math.inf else float((flat**kind).sum() ** (1 / kind))
    norm = getattr(hpu, name)(gradients, number(largest), kind)
    assert norm.shape == () and all(g.dtype == dtype for g in gradients)
    assert_close_to_reference(norm, total)
    factor = min(1.0, largest / (total + 1e-6))
    assert_lists_close(gradients, [g * factor for g in original], rtol if factor < 1 else 0, 0)


@pytest.mark.parametrize("name", ["habanaOptimizerAdamW", "optimizer_adamw"])
@pytest.mark.parametrize("decays", [True, False])
def test_adamw(decays: bool, name: str) -> None:
    gradients, weights, first, second = (
        tensors_of_all_shapes(1),
        tensors_of_all_shapes(10),
        tensors_of_all_shapes(20),
        [t.abs() for t in tensors_of_all_shapes(30)],
    )
    g, w, m, v = (float64_copies(tensor_list) for tensor_list in (gradients, weights, first, second))
    arguments = [gradients, weights, first, second, number(-0.1), 0.8, 0.95, 1e-3]
    if name == "optimizer_adamw" and mode.is_lazy():
        hpu.optimizer_adamw(
            *arguments, 0.9 if decays else 1.0
        )  # in lazy mode this operator has a different schema
    else:
        getattr(hpu, name)(*arguments, number(0.9), decays)
    m = [0.8 * a + 0.2 * b for a, b in zip(m, g, strict=True)]
    v = [0.95 * a + 0.05 * b * b for a, b in zip(v, g, strict=True)]
    shrunk = [a * 0.9 if decays else a for a in w]
    assert_lists_close(
        weights, [a - 0.1 * b / (c.sqrt() + 1e-3) for a, b, c in zip(shrunk, m, v, strict=True)]
    )
    assert_lists_close(first, m)
    assert_lists_close(second, v)
    assert_lists_close(gradients, g, 0, 0)


@pytest.mark.skipif(not mode.is_lazy(), reason="the tested schema exists only in lazy mode")
@pytest.mark.parametrize("check", ["test_schema", "test_faketensor", "test_aot_dispatch_dynamic"])
def test_torchs_checks_of_the_schema_of_lazy_mode(check: str) -> None:
    arguments = (
        *(tensors_of_all_shapes(seed) for seed in (1, 10, 20)),
        [t.abs() for t in tensors_of_all_shapes(30)],
        number(-0.1),
    )
    operator = hpu.optimizer_adamw.default
    check_results = torch.library.opcheck(operator, (*arguments, 0.8, 0.95, 1e-3, 0.9), test_utils=check)
    assert check_results == {check: "SUCCESS"}


@pytest.mark.parametrize(("momentum", "damp", "nesterov"), [(0, 0, False), (0.9, 0.1, False), (0.8, 0, True)])
def test_sgd(momentum: float, damp: float, nesterov: bool) -> None:
    weights = tensors_of_all_shapes(1)
    twins = [torch.nn.Parameter(w) for w in float64_copies(weights)]
    optimizer = torch.optim.SGD(twins, 0.1, momentum, damp, 0.01, nesterov)
    buffers = [torch.zeros_like(w) for w in weights]
    for step in range(3):
        gradients = tensors_of_all_shapes(10 * step + 10)
        for twin, gradient in zip(twins, float64_copies(gradients), strict=True):
            twin.grad = gradient
        optimizer.step()
        if momentum:
            numbers = [number(value) for value in (step, 0.1, momentum)]
            hpu.habanaOptimizerSgdMomentum(gradients, weights, buffers, *numbers, 0.01, damp, nesterov)
        else:
            hpu.habanaOptimizerSgd(gradients, weights, number(0.1), 0.01, momentum, damp, nesterov)
        assert_lists_close(weights, [t.detach() for t in twins])
    if momentum:
        assert_lists_close(buffers, [optimizer.state[t]["momentum_buffer"] for t in twins])


def test_adagrad() -> None:
    weights = tensors_of_all_shapes(1)
    twins = [torch.nn.Parameter(w) for w in float64_copies(weights)]
    optimizer = torch.optim.Adagrad(twins, 0.1, 0.2, 0.01, 0.5, 1e-6)
    sums = [torch.full_like(w, 0.5) for w in weights]
    for step in range(3):
        gradients = tensors_of_all_shapes(10 * step + 10)
        for twin, gradient in zip(twins, float64_copies(gradients), strict=True):
            twin.grad = gradient
        optimizer.step()
        hpu.habanaOptimizerFusedAdagrad(gradients, weights, sums, number(step), number(0.1), 0.01, 0.2, 1e-6)
    assert_lists_close(weights, [t.detach() for t in twins])
    assert_lists_close(sums, [optimizer.state[t]["sum"] for t in twins])


@pytest.mark.parametrize("decay", [0.0, 0.9, 1.0])
def test_moving_average(decay: float) -> None:
    values, averages = tensors_of_all_shapes(1), tensors_of_all_shapes(10)
    expected = [
        decay * a + (1 - decay) * v
        for v, a in zip(float64_copies(values), float64_copies(averages), strict=True)
    ]
    hpu.habanaOptimizerFusedEMA(values, averages, number(decay))
    assert_lists_close(averages, expected)


def test_lars_scales_gradients_per_layer() -> None:
    weights, gradients = tensors_of_all_shapes(1), tensors_of_all_shapes(10)
    weights[1].zero_()
    masks = [1, 1, 0, 1]
    expected = []
    for w, g, mask in zip(float64_copies(weights), float64_copies(gradients), masks, strict=True):
        of_w, of_g = float(w.norm()), float(g.norm())
        trust = 0.02 * of_w / (of_g + 0.1 * of_w + 1e-3) if of_w > 0 and of_g > 0 else 1.0
        expected.append(0.3 * (trust * (g + 0.1 * w) if mask else g))
    original = float64_copies(weights)
    hpu.habanaOptimizerLars(weights, gradients, number(0.3), masks, 0.02, 0.1, 1e-3)
    assert_lists_close(gradients, expected)
    assert_lists_close(weights, original, 0, 0)


@pytest.mark.parametrize("count", [0, 3, 5])
@pytest.mark.parametrize("kind", ["adagrad", "sgd", "nesterov"])
def test_sparse_steps_update_some_rows(kind: str, count: int) -> None:
    rows, row_indices = normal(5, 3), [1, 4, 1, 0, 5]
    weights, moments = normal(6, 3, seed=2), normal(6, 3, seed=3).abs()
    w, m = float64_copies([weights, moments])
    sums = torch.zeros_like(w)
    for row_index, row in list(zip(row_indices, rows.cpu().double(), strict=True))[:count]:
        sums[row_index] += row
    for row_index in set(row_indices[:count]):
        d = sums[row_index]
        if kind == "adagrad":
            m[row_index] += d * d
            w[row_index] -= 0.1 * d / (m[row_index].sqrt() + 1e-10)
        else:
            m[row_index] = 0.9 * m[row_index] + d
            w[row_index] -= 0.1 * (d + 0.9 * m[row_index] if kind == "nesterov" else m[row_index])
    indices = torch.tensor(row_indices, device="hpu")
    arguments = [rows, weights, moments, indices, number(0.1), number(count, torch.int32)]
    if kind == "adagrad":
        updated = hpu.habanaOptimizerSparseAdagrad(*arguments)
    else:
        updated = hpu.habanaOptimizerSparseSgd(*arguments, 0.9, kind == "nesterov")
    assert updated[0] is weights and updated[1] is moments
    assert_lists_close([weights, moments], [w, m])
