"""Test that a function built from a recorded graph, and its compiled code, agree with the recorded calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from helpers.record_and_run_fused import (
    Program,
    assert_same_buffers,
    build_and_run,
    load_fusion_module,
    record,
    run_artifact,
)

from tests.support.nightly import every_nth

NotFusable = load_fusion_module("description").NotFusable


def random_whole_floats(*sizes: int) -> torch.Tensor:
    return torch.randint(-4, 5, sizes, generator=torch.Generator().manual_seed(sum(sizes))).float()


def tensor_ref(
    buffer: int, sizes: Any, strides: Any, offset: int = 0, dtype: Any = torch.float32
) -> tuple[Any, ...]:
    return ("tensor", buffer, dtype, tuple(sizes), tuple(strides), offset, False, False)


def pointwise(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.where(x > 0, (x + y) * 2.0 - 1, y.neg()).relu()


def linear(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.relu(torch.addmm(b, x, w.t()))


def update_parameter_with_momentum(p: torch.Tensor, g: torch.Tensor, m: torch.Tensor) -> None:
    m.mul_(2).add_(g)
    p.add_(m, alpha=-1)


def step_by_sgd(w: torch.Tensor, x: torch.Tensor, g: torch.Tensor) -> None:
    w.add_(g.t() @ x, alpha=-2)
    w.sub_((x.t() @ g).t(), alpha=3)


def swap_rows(x: torch.Tensor, y: torch.Tensor) -> None:
    first = torch.zeros_like(x[0])
    first.copy_(x[0])
    x[0].copy_(x[1])
    x[1].copy_(first)
    y.copy_(y.t().clone())


def swap_inputs(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    before = torch.empty_like(x)
    before.copy_(x)
    x.copy_(y.t())
    y.copy_(before.t())
    return before[:, 1:]


def update_by_foreach(p: torch.Tensor, q: torch.Tensor, g: torch.Tensor) -> None:
    torch._foreach_mul_([p, q], 3.0)
    torch._foreach_add_([p, q], [g, g], alpha=2)


def return_slice_and_transpose(x: torch.Tensor) -> Any:
    y = x + 1
    return y[1:, ::2], y.t()


def return_transposed_product(x: torch.Tensor) -> torch.Tensor:
    return x.t() * 2


def combine_two_views(x: torch.Tensor) -> Any:
    y = x * 2
    return y.t() + y[:, :1] + y.flatten()[3], y.view(2, -1).sum(0)


def reductions(x: torch.Tensor) -> Any:
    return x.sum(0), x.amax(1, keepdim=True), x.mean(), x.argmax(1), x.max(0)


def write_twice(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    torch.add(x, 1, out=y)
    z = y * 3
    torch.mul(y, z, out=y)
    return y


def write_in_parts(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty(x.shape[0] * 2, *x.shape[1:])
    y[: x.shape[0]] = x
    torch.neg(x, out=y[x.shape[0] :])
    return y + y.sum()


def write_temporary_in_place(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    y.mul_(2)
    y[1].fill_(7)
    y[:, 2:4].add_(x[:, :2])
    y.t()[0].zero_()
    return y.relu()


def write_part_of_input(x: torch.Tensor) -> torch.Tensor:
    y = x.sum(0)
    x[1, :2].add_(1)
    x[:, 3].copy_(x[:, 0] * 2)
    return y * x


def softmax_and_norm(x: torch.Tensor, w: torch.Tensor) -> Any:
    width = [x.shape[-1]]
    return F.log_softmax(x, 1), F.softmax(x, 0), F.layer_norm(x, width, w, w)


def call_eigh_by_name(x: torch.Tensor) -> torch.Tensor:
    """Call an operator that Inductor cannot generate code for. Compiled code calls this operator by name."""
    values, vectors = torch.linalg.eigh(x @ x.t())
    return vectors @ torch.diag(values) + x


def embedding(x: torch.Tensor, index: torch.Tensor) -> Any:
    return (
        F.embedding(index, x) + 1,
        x[index],
        x.index_select(1, index),
        x.gather(0, index.expand(6, 3).t() % 4),
    )


def convolution(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> Any:
    x = x.contiguous(memory_format=torch.channels_last)
    return F.max_pool2d(F.conv2d(x, w, b, padding=1).relu(), 2)


def batch_norm(x: torch.Tensor, w: torch.Tensor, mean: torch.Tensor, var: torch.Tensor) -> Any:
    return torch._native_batch_norm_legit(x, w, w, mean, var, True, 0.5, 1e-5)


def casts(x: torch.Tensor, i: torch.Tensor) -> Any:
    i.add_(x.long())
    return x.bfloat16() * 3.0 + 0.1, i * 2.5, i / 2, i == 3, (x > 0).float(), x.double() + i


def windows(x: torch.Tensor) -> Any:
    y = x.flatten() * 2
    return y.unfold(0, 3, 2).sum(1), y.as_strided((3, 4), (7, 1)) + 0


def read_input_in_two_dtypes(x: torch.Tensor) -> torch.Tensor:
    return x[0] + x[1] + x.view(torch.int32)[2]


def use_scalar_and_empty_tensors(x: torch.Tensor) -> Any:
    total = x.sum()
    total.add_(total)
    return total * x, x[:0] + 1, total.expand(3, 2) - 1


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], bool]] = {
    # name: (program, inputs, whether the built function gives exact results)
    "pointwise": (pointwise, (random_whole_floats(5, 6), random_whole_floats(6)), True),
    "linear": (linear, (random_whole_floats(5, 6), random_whole_floats(7, 6), random_whole_floats(7)), True),
    "update_parameter_with_momentum": (
        update_parameter_with_momentum,
        (random_whole_floats(4, 3), random_whole_floats(4, 3), random_whole_floats(4, 3)),
        True,
    ),
    "step_by_sgd": (
        step_by_sgd,
        (random_whole_floats(7, 6), random_whole_floats(5, 6), random_whole_floats(5, 7)),
        True,
    ),
    "half_alpha": (
        lambda x, y: x.add(y, alpha=0.3),
        (random_whole_floats(9).bfloat16() / 3, random_whole_floats(9).bfloat16() / 3),
        True,
    ),
    "update_by_foreach": (
        update_by_foreach,
        (random_whole_floats(4, 3), random_whole_floats(3, 4).t(), random_whole_floats(4, 3)),
        True,
    ),
    "return_slice_and_transpose": (return_slice_and_transpose, (random_whole_floats(5, 6),), True),
    "return_transposed_product": (return_transposed_product, (random_whole_floats(5, 6),), True),
    "combine_two_views": (combine_two_views, (random_whole_floats(4, 4),), True),
    "reductions": (reductions, (random_whole_floats(5, 6),), True),
    "write_twice": (write_twice, (random_whole_floats(5, 6),), True),
    "write_in_parts": (write_in_parts, (random_whole_floats(5, 6),), True),
    "write_temporary_in_place": (write_temporary_in_place, (random_whole_floats(5, 6),), True),
    "write_part_of_input": (write_part_of_input, (random_whole_floats(5, 6),), True),
    "softmax_and_norm": (softmax_and_norm, (random_whole_floats(5, 6), random_whole_floats(6)), False),
    "call_eigh_by_name": (call_eigh_by_name, (random_whole_floats(4, 4),), False),
    "embedding": (embedding, (random_whole_floats(4, 6), torch.tensor([3, 0, 3])), True),
    "convolution": (
        convolution,
        (random_whole_floats(2, 3, 8, 8), random_whole_floats(4, 3, 3, 3), random_whole_floats(4)),
        False,
    ),
    "batch_norm": (
        batch_norm,
        (
            random_whole_floats(8, 6),
            random_whole_floats(6),
            random_whole_floats(6),
            random_whole_floats(6).abs(),
        ),
        False,
    ),
    "swap_rows": (swap_rows, (random_whole_floats(3, 5), random_whole_floats(4, 4)), True),
    "swap_inputs": (swap_inputs, (random_whole_floats(3, 4), random_whole_floats(4, 3)), True),
    "casts": (casts, (random_whole_floats(5, 6), torch.arange(30).view(5, 6)), True),
    "windows": (windows, (random_whole_floats(5, 4),), True),
    "read_input_in_two_dtypes": (read_input_in_two_dtypes, (random_whole_floats(5, 6),), True),
    "use_scalar_and_empty_tensors": (use_scalar_and_empty_tensors, (random_whole_floats(2, 2),), True),
}


def record_program(name: str) -> Program:
    program, inputs, _ = PROGRAMS[name]
    return record(program, *inputs)


@pytest.mark.parametrize("name", PROGRAMS)
def test_built_function_gives_the_results_of_the_calls(name: str) -> None:
    program = record_program(name)
    _, memory = build_and_run(program)
    assert_same_buffers(program, memory, exact=PROGRAMS[name][2])


@pytest.mark.parametrize(
    "name",
    every_nth(
        4,  # a program takes ten seconds to compile; test_fusion_fuzz.py compiles random programs
        [
            "write_temporary_in_place",
            "linear",
            "step_by_sgd",
            "update_by_foreach",
            "write_part_of_input",
            "softmax_and_norm",
            "embedding",
            "call_eigh_by_name",
            "swap_rows",
        ],
    ),
)
def test_compiled_code_gives_the_results_of_the_calls(name: str, tmp_path: Any) -> None:
    program = record_program(name)
    artifact = load_fusion_module("compile").compile_description(program.description, tmp_path, check=True)
    assert_same_buffers(program, run_artifact(program, artifact), exact=False)
