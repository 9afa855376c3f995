"""Test compiled programs that write to their inputs: written and returned values match eager mode."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

Program = Callable[[torch.Tensor, torch.Tensor], "torch.Tensor | None"]


def swap_inputs(x: torch.Tensor, y: torch.Tensor) -> None:
    before = x.clone()
    x.copy_(y)
    y.copy_(before)


def swap_through_new_tensor(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    before = torch.empty_like(x).copy_(x)
    x.copy_(y)
    y.copy_(before)
    return before


def copy_input_then_change_it(x: torch.Tensor, y: torch.Tensor) -> None:
    y[0:, :] = x[0:, :]
    x.add_(1)


def swap_rows_of_inputs(x: torch.Tensor, y: torch.Tensor) -> None:
    before = x[0].clone()
    x[0] = y[1]
    y[1] = before


def copy_middle_rows(x: torch.Tensor, y: torch.Tensor) -> None:
    before = x[1 : x.shape[0] - 1].clone()
    x.add_(1)
    y[1 : y.shape[0] - 1].copy_(before)


def copy_flat_view(x: torch.Tensor, y: torch.Tensor) -> None:
    before = x.view(x.shape[0] * x.shape[1]).clone()
    x.add_(1)
    y.view(-1).copy_(before)


def copy_squeezed(x: torch.Tensor, y: torch.Tensor) -> None:
    before = x.unsqueeze(0).squeeze().clone()
    x.add_(1)
    y.copy_(before)


def copy_first_unbound_row(x: torch.Tensor, y: torch.Tensor) -> None:
    first, *_ = x.unbind(0)
    y[0].copy_(first)
    x.zero_()


def copy_part_of_split(x: torch.Tensor, y: torch.Tensor) -> None:
    before = x.split([3, 0])[0].clone()
    x.add_(1)
    y.copy_(before)


def copy_rot90_by_zero(x: torch.Tensor, y: torch.Tensor) -> None:
    before = torch.rot90(x, 0)
    x.add_(1)
    y.copy_(before)


def return_row_of_copy(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    before = x.clone()
    row = before[0].clone()
    x.add_(1)
    y.add_(row)
    return row


def return_transpose_of_copy(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    before = x.clone().t().clone()
    x.add_(1)
    return before


def return_view_of_input(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    rows = x[1:]
    x.add_(1)
    y.copy_(x)
    return rows


def copy_sum_with_zero(x: torch.Tensor, y: torch.Tensor) -> None:
    before = x + 0
    x.mul_(2)
    y.copy_(before)


def write_transpose_into_itself(x: torch.Tensor, y: torch.Tensor) -> None:
    x.copy_(x.t().clone())
    y.copy_(y.flip(0))


def rotate_three_tensors(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    first, second = x.clone(), y[:1].clone()
    x.copy_(y.t())
    y.copy_(first * 1)
    return second


PROGRAMS: list[Program] = [
    swap_inputs,
    swap_through_new_tensor,
    copy_input_then_change_it,
    swap_rows_of_inputs,
    copy_middle_rows,
    copy_flat_view,
    copy_squeezed,
    copy_first_unbound_row,
    copy_part_of_split,
    copy_rot90_by_zero,
    return_row_of_copy,
    return_transpose_of_copy,
    return_view_of_input,
    copy_sum_with_zero,
    write_transpose_into_itself,
    rotate_three_tensors,
]


@pytest.mark.parametrize("executable", ["fused", "interpreted"])
@pytest.mark.parametrize(
    ("program", "dtype"),
    [(program, torch.float32) for program in PROGRAMS]
    + [(swap_inputs, dtype) for dtype in (torch.int64, torch.bool, torch.bfloat16, torch.complex64)]
    + [(write_transpose_into_itself, torch.int64)],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_values_are_those_of_eager_mode(program: Program, executable: str, dtype: torch.dtype) -> None:
    compare_with_eager(program, dtype, {"executable": executable})


@pytest.mark.parametrize("program", [copy_middle_rows, copy_flat_view, copy_squeezed, return_row_of_copy])
def test_values_with_dynamic_sizes_are_those_of_eager_mode(program: Program) -> None:
    compare_with_eager(program, torch.float32, {"executable": "fused"}, dynamic=True)


def compare_with_eager(
    program: Program, dtype: torch.dtype, options: dict[str, str], **settings: bool
) -> None:
    x, y = torch.arange(9).view(3, 3).to(dtype), torch.arange(9).view(3, 3).ne(4).to(dtype)
    compiled = torch.compile(program, backend="hpu_backend", options=options, **settings)
    on_device = x.to("hpu"), y.to("hpu")
    for _ in range(2):
        expected, result = program(x, y), compiled(*on_device)
        assert torch.equal(on_device[0].cpu(), x)
        assert torch.equal(on_device[1].cpu(), y)
        assert expected is None or torch.equal(result.cpu(), expected)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.uint16, torch.uint64], ids=str)
def test_dtypes_without_a_negation_are_exchanged(dtype: torch.dtype) -> None:
    bits = {1: torch.uint8, 2: torch.int16, 8: torch.int64}[dtype.itemsize]
    x, y = torch.tensor([0, 1, 127, -1], dtype=torch.int64).to(bits), torch.tensor([3, 5, 7, 11]).to(bits)
    on_device = x.view(dtype).to("hpu"), y.view(dtype).to("hpu")
    torch.compile(swap_inputs, backend="hpu_backend")(*on_device)
    assert torch.equal(on_device[0].cpu().view(bits), y)
    assert torch.equal(on_device[1].cpu().view(bits), x)


def test_exchanged_state_of_a_training_step() -> None:
    def step(weight: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        with torch.no_grad():
            before = x.squeeze().clone().t().clone()
            swap_inputs(x, y)
        return (weight * x).sum(), before

    records = {}
    for device in ("cpu", "hpu"):
        weight = torch.ones(3, 3, device=device, requires_grad=True)
        x, y = torch.arange(9.0, device=device).view(3, 3), torch.full((3, 3), 7.0, device=device)
        call = torch.compile(step, backend="hpu_backend") if device == "hpu" else step
        records[device] = []
        for _ in range(3):
            loss, before = call(weight, x, y)
            records[device] += [torch.autograd.grad(loss, weight)[0].cpu(), before.cpu()]
        records[device] += [x.cpu(), y.cpu()]
    assert all(map(torch.equal, records["cpu"], records["hpu"]))
