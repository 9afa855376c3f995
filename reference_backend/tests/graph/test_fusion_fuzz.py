"""Build functions from recorded random programs. Compare all bytes with the programs' separate calls."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from helpers.record_and_run_fused import (
    assert_same_buffers,
    build_and_run,
    load_fusion_module,
    record,
    run_artifact,
)

from tests.support.nightly import every_nth

# Results are clamped to this magnitude. With small whole numbers, results do not depend on the order of
# additions.
LIMIT = 8


class RandomProgram:
    """A random program. ``run_program`` makes its calls. Equal seeds give equal calls."""

    def __init__(self, seed: int, length: int) -> None:
        self.seed, self.length = seed, length

    def run_program(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        self.random = random.Random(self.seed)
        *self.tensors, self.ends = inputs
        for _ in range(self.length):
            step = self.random.choice(
                (
                    self.append_view,
                    self.append_view,
                    self.append_unary_result,
                    self.append_binary_result,
                    self.append_reduction,
                    self.write_in_place,
                )
            )
            step = self.random.choice(
                (step, step, self.write_to_part, self.call_with_out, self.append_product_or_index)
            )
            step()
        intermediates = [
            candidate
            for candidate in self.tensors
            if all(candidate is not graph_input for graph_input in inputs)
        ]
        return [candidate for candidate in intermediates if self.random.random() < 0.4]

    def pick_tensor(self) -> torch.Tensor:
        return self.random.choice(self.tensors)

    def append_small_tensors(self, *tensors: torch.Tensor) -> None:
        small = [tensor for tensor in tensors if tensor.numel() <= 400 and tensor.dim() <= 4]
        self.tensors += small

    def append_view(self) -> None:
        x = self.pick_tensor()
        dims = x.dim()
        kind = self.random.randrange(8)
        if dims == 0:
            return self.append_small_tensors(x.expand(self.random.randint(1, 3), 2))
        dim = self.random.randrange(dims)
        size = x.shape[dim]
        if kind == 0:
            order = list(range(dims))
            self.random.shuffle(order)
            self.append_small_tensors(x.permute(order))
        elif kind == 1 and size > 0:
            start = self.random.randrange(size)
            step = self.random.randint(1, 2)
            self.append_small_tensors(x[(slice(None),) * dim + (slice(start, None, step),)])
        elif kind == 2 and size > 0:
            self.append_small_tensors(x.select(dim, self.random.randrange(size)))
        elif kind == 3:
            self.append_small_tensors(x.unsqueeze(dim))
        elif kind == 4 and x.is_contiguous() and size % 2 == 0 and size > 0:
            self.append_small_tensors(x.unflatten(dim, (2, size // 2)))
        elif kind == 5 and x.is_contiguous():
            self.append_small_tensors(x.view(-1))
        elif kind == 6:
            self.append_small_tensors(x.unsqueeze(0).expand(2, *x.shape))
        elif kind == 7 and size >= 3:
            self.append_small_tensors(x.unfold(dim, 2, 1), x.diagonal() if dims == 2 else x)

    def append_unary_result(self) -> None:
        x = self.pick_tensor()
        number = self.random.randint(-3, 3)
        choices = (
            lambda: torch.relu(x),
            lambda: x.neg(),
            lambda: (x + number).clamp(-LIMIT, LIMIT),
            lambda: (x * 2.0).clamp(-LIMIT, LIMIT).to(x.dtype),
            lambda: x.clone(),
            lambda: x.to(self.random.choice((torch.int64, torch.float32, torch.float64, torch.int32))),
            lambda: torch.where(x > number, x, 0),
            lambda: torch.zeros_like(x).add_(number),
        )
        self.append_small_tensors(self.random.choice(choices)())

    def append_binary_result(self) -> None:
        x = self.pick_tensor()
        operands = [tensor for tensor in self.tensors if tensor.shape == x.shape]
        operands.append(x[:1] if x.dim() else x)
        y = self.random.choice(operands)
        op = self.random.choice((torch.add, torch.sub, torch.mul, torch.maximum))
        self.append_small_tensors(op(x, y).clamp(-LIMIT, LIMIT))

    def append_reduction(self) -> None:
        x = self.pick_tensor()
        if x.dim() == 0 or x.numel() == 0:
            return
        dim = self.random.randrange(x.dim())
        result = self.random.choice(
            (
                lambda: x.sum(dim).clamp(-LIMIT, LIMIT),
                lambda: x.amax(dim, keepdim=True),
                lambda: x.cumsum(dim).clamp(-LIMIT, LIMIT),
                lambda: torch.sort(x, dim=dim, stable=True),
            )
        )()
        self.append_small_tensors(*(result if isinstance(result, tuple) else (result,)))

    def append_product_or_index(self) -> None:
        x = self.pick_tensor()
        if x.dim() == 2 and x.dtype.is_floating_point:
            self.append_small_tensors((x @ x.t()).clamp(-LIMIT, LIMIT), torch.cat([x, x * 1]))
        elif x.dim() and x.shape[0]:
            self.append_small_tensors(x[self.ends % x.shape[0]], torch.stack([x, x]))

    def pick_writable_tensor(self) -> torch.Tensor | None:
        """Pick a random tensor. Return the tensor, or None if some of its elements share memory."""
        layout = load_fusion_module("description").Layout
        regular = load_fusion_module("view_recovery").is_regular
        x = self.pick_tensor()
        return x if regular(layout(x.dtype, tuple(x.shape), tuple(x.stride()), 0)) else None

    def write_in_place(self) -> None:
        x = self.pick_writable_tensor()
        if x is None:
            return
        number = self.random.randint(-2, 2)
        choices = (
            lambda: x.add_(number).clamp_(-LIMIT, LIMIT),
            lambda: x.fill_(number),
            lambda: x.zero_(),
            lambda: x.copy_(x.clone().neg()),
            lambda: x.masked_fill_(x > 1, number),
        )
        self.random.choice(choices)()

    def write_to_part(self) -> None:
        x, y = self.pick_writable_tensor(), self.pick_tensor()
        if x is not None and x.dim() and y.shape == x.shape[1:]:
            x[self.random.randrange(x.shape[0]) if x.shape[0] else slice(None)] = y.clone()
        elif x is not None and x.dim() and x.shape[0] > 1 and self.random.random() < 0.5:
            first = torch.empty_like(x[0]).copy_(x[0])
            x[0].copy_(x[1])
            x[1].copy_(first)
        elif x is not None and x.dim() and x.shape[-1] > 1:
            x[..., 1:].copy_(x[..., :-1] * 1)
            torch._foreach_neg_([x[..., 0], x[..., 1]])

    def call_with_out(self) -> None:
        x = self.pick_tensor()
        if x.dim() == 0:
            return
        y = torch.empty(2, *x.shape, dtype=x.dtype)
        torch.neg(x, out=y[0])
        torch.maximum(x, y[0], out=y[1])
        self.append_small_tensors(y, y[1])


def make_inputs() -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    base = torch.randint(-4, 5, (6, 8), generator=generator).float()
    return [
        base,
        torch.randint(-4, 5, (4, 3), generator=generator).float().t(),
        torch.randint(-4, 5, (3, 4), generator=generator),
        base[1:5, 2:8:2],
        torch.randint(-4, 5, (2, 3, 4), generator=generator).double(),
        torch.tensor([0, 5, 3]),
    ]


#: The nightly run builds all 160 programs; other runs build 60. `test_compiled_code_of_random_programs`
#: compiles two programs in the nightly run, otherwise one. A compilation takes ten seconds.
@pytest.mark.parametrize("first", every_nth(3, range(0, 160, 20)))
def test_built_functions_of_random_programs(first: int) -> None:
    built = 0
    for seed in range(first, first + 20):
        program = record(RandomProgram(seed, 3 + seed % 12).run_program, *make_inputs())
        try:
            _, memory = build_and_run(program)
        except load_fusion_module("description").NotFusable as error:
            assert "dtype" in str(error) or "share memory" in str(error), f"seed {seed}: {error}"
            continue
        built += 1
        try:
            assert_same_buffers(program, memory)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from None
    assert built >= 16


@pytest.mark.parametrize("seed", every_nth(2, [11, 23]))
def test_compiled_code_of_random_programs(seed: int, tmp_path: Any) -> None:
    program = record(RandomProgram(seed, 12).run_program, *make_inputs())
    artifact = load_fusion_module("compile").compile_description(program.description, tmp_path, check=True)
    assert_same_buffers(program, run_artifact(program, artifact))
