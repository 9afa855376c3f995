"""Test that compiled programs which exchange the values of their inputs store the values of eager mode."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

Program = Callable[[torch.Tensor, torch.Tensor], "torch.Tensor | None"]


def exchange(x: torch.Tensor, y: torch.Tensor) -> None:
    before = x.clone()
    x.copy_(y)
    y.copy_(before)


def exchange_through_new_memory(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    before = torch.empty_like(x).copy_(x)
    x.copy_(y)
    y.copy_(before)
    return before


def copy_of_input_that_changes_later(x: torch.Tensor, y: torch.Tensor) -> None:
    y[0:, :] = x[0:, :]
    x.add_(1)


def exchange_of_rows(x: torch.Tensor, y: torch.Tensor) -> None:
    before = x[0].clone()
    x[0] = y[1]
    y[1] = before


def sum_with_zero(x: torch.Tensor, y: torch.Tensor) -> None:
    before = x + 0
    x.mul_(2)
    y.copy_(before)


def own_transpose(x: torch.Tensor, y: torch.Tensor) -> None:
    x.copy_(x.t().clone())
    y.copy_(y.flip(0))


def rotation(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    first, second = x.clone(), y[:1].clone()
    x.copy_(y.t())
    y.copy_(first * 1)
    return second


PROGRAMS: list[Program] = [
    exchange,
    exchange_through_new_memory,
    copy_of_input_that_changes_later,
    exchange_of_rows,
    sum_with_zero,
    own_transpose,
    rotation,
]


@pytest.mark.parametrize("executable", ["fused", "interpreted"])
@pytest.mark.parametrize(
    ("program", "dtype"),
    [(program, dtype) for program in PROGRAMS for dtype in (torch.float32, torch.int64)]
    + [(exchange, torch.bool)],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_stored_values_are_those_of_eager_mode(program: Program, executable: str, dtype: torch.dtype) -> None:
    x, y = torch.arange(9).view(3, 3).to(dtype), torch.arange(9).view(3, 3).to(dtype).logical_not().to(dtype)
    compiled = torch.compile(program, backend="hpu_backend", options={"executable": executable})
    on_device = x.to("hpu"), y.to("hpu")
    for _ in range(2):
        expected, result = program(x, y), compiled(*on_device)
        assert torch.equal(on_device[0].cpu(), x)
        assert torch.equal(on_device[1].cpu(), y)
        assert expected is None or torch.equal(result.cpu(), expected)


def test_exchanged_state_of_a_training_step() -> None:
    def step(weight: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            exchange(x, y)
        return (weight * x).sum()

    records = {}
    for device in ("cpu", "hpu"):
        weight = torch.ones(3, device=device, requires_grad=True)
        x, y = torch.arange(3.0, device=device), torch.full((3,), 7.0, device=device)
        call = torch.compile(step, backend="hpu_backend") if device == "hpu" else step
        gradients = [torch.autograd.grad(call(weight, x, y), weight)[0].cpu() for _ in range(3)]
        records[device] = [*gradients, x.cpu(), y.cpu()]
    assert all(map(torch.equal, records["cpu"], records["hpu"]))


def test_exchanged_inputs_whose_dtype_cannot_be_negated_are_refused() -> None:
    x, y = (torch.zeros(2, dtype=torch.float8_e4m3fn, device="hpu") for _ in range(2))
    with pytest.raises(Exception, match="float8_e4m3fn is copied and then overwritten"):
        torch.compile(exchange, backend="hpu_backend")(x, y)
