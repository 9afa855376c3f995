"""Each mutation operator has its documented effect when its trigger condition is met, and no effect
otherwise. The tests run on the CPU.

Building the interposer takes a minute or two, so the tests belong to ``nox -s mutation``.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from tools.mutation import interposer, operators
from tools.mutation.mutant import Mutant, interposer_description, scalar_types

pytestmark = pytest.mark.skipif(
    "CONFORMANCE_POWER_BUILD" not in os.environ,
    reason="needs CONFORMANCE_POWER_BUILD, a folder for the interposer",
)

aten = torch.ops.aten
POINTS = [
    *(
        "aten::add.Tensor",
        "aten::add_.Tensor",
        "aten::add.out",
        "aten::sub.Tensor",
        "aten::mm",
        "aten::gt.Tensor",
    ),
    *(
        "aten::sum.dim_IntList",
        "aten::cumsum",
        "aten::uniform_",
        "aten::as_strided",
        "aten::abs",
        "aten::neg",
    ),
    *("aten::native_layer_norm_backward", "aten::threshold_backward", "aten::index_select", "aten::cat"),
]
F32 = torch.float32


def ramp(*sizes: int, dtype: torch.dtype = F32) -> torch.Tensor:
    """Return a tensor of the given sizes with the values 1, 2, 3, …."""
    return torch.arange(1, torch.Size(sizes).numel() + 1, dtype=dtype).reshape(sizes)


def three_numbers_starting_with(value: float) -> torch.Tensor:
    return torch.tensor([value, 2.0, 3.0])


def ramp_with_gaps(*sizes: int) -> torch.Tensor:
    return ramp(*sizes, 2)[..., 0]


class MutantWithCalls(NamedTuple):
    """A mutant with two calls. Only the first call triggers the mutant. ``wrong`` is true for the result of
    this call if the mutant changed it.
    """

    mutant: Mutant
    triggering_call: Callable[[], Any]
    other_call: Callable[[], Any]
    wrong: Callable[[Any], bool]


def add(self: Any, other: Any = 0.0) -> Any:
    other = other if isinstance(other, torch.Tensor) else torch.tensor(other, dtype=self.dtype)
    return aten.add.Tensor(self, other)


def mutant_of(overload: str, mutation_operator: str, position: int = 0, value: int = 0) -> Mutant:
    return Mutant(f"aten::{overload}", mutation_operator, position, value)


def differs_from_ramp_after(index: int, size: int) -> Callable[[torch.Tensor], bool]:
    """Return a predicate that compares a result with ``ramp(size)``. It is true if exactly the elements from
    ``index`` on differ.
    """
    return lambda result: (
        (result.flatten() != ramp(size)).nonzero().flatten().tolist() == list(range(index, size))
    )


def one_added_in_place(self: torch.Tensor) -> torch.Tensor:
    aten.add_.Tensor(self, torch.ones(()))
    return self


def base_after_in_place_add(base: torch.Tensor) -> torch.Tensor:
    one_added_in_place(base[..., 0])
    return base


def sum_into(out: torch.Tensor) -> torch.Tensor:
    return aten.add.out(ramp(3), ramp(3), out=out)


def layer_norm_input_gradient(mask: list[bool]) -> torch.Tensor:
    x, ones = ramp(2, 3), torch.ones(2, 1)
    weight = torch.ones(3)
    return aten.native_layer_norm_backward(ramp(2, 3), x, [3], ones, ones, weight, weight, mask)[0]


def argument_after_abs(argument: torch.Tensor) -> torch.Tensor:
    aten.abs(argument)
    return argument


def share_memory(left: torch.Tensor, right: torch.Tensor) -> bool:
    return left.untyped_storage().data_ptr() == right.untyped_storage().data_ptr()


def base_and_view(base: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return base, aten.as_strided(base, [2], [1])


def value_and_abs(value: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return value, aten.abs(value)


def is_not_equal_to(right: torch.Tensor) -> Callable[[torch.Tensor], bool]:
    return lambda result: not torch.equal(result, right)


FIVE_3 = 2**53 + 1

MUTANTS_WITH_CALLS = [
    MutantWithCalls(
        mutant_of("add.Tensor", "last-element"),
        lambda: add(ramp(5)),
        lambda: add(ramp(1)),
        differs_from_ramp_after(4, 5),
    ),
    MutantWithCalls(
        mutant_of("add.Tensor", "tail-of-block", 0, 16),
        lambda: add(ramp(37)),
        lambda: add(ramp(32)),
        differs_from_ramp_after(32, 37),
    ),
    MutantWithCalls(
        mutant_of("add.Tensor", "above-size", 0, 256),
        lambda: add(ramp(300)),
        lambda: add(ramp(256)),
        differs_from_ramp_after(256, 300),
    ),
    MutantWithCalls(
        mutant_of("add.Tensor", "scalar-only"),
        lambda: add(torch.ones(())),
        lambda: add(ramp(1)),
        is_not_equal_to(torch.ones(())),
    ),
    MutantWithCalls(
        mutant_of("add.Tensor", "rank", 0, 4),
        lambda: add(ramp(1, 2, 1, 2)),
        lambda: add(ramp(1, 2, 2)),
        differs_from_ramp_after(0, 4),
    ),
    MutantWithCalls(
        mutant_of("add.Tensor", "nan-lost"),
        lambda: add(three_numbers_starting_with(float("nan"))),
        lambda: add(ramp(3)),
        lambda result: result[0] == 0,
    ),
    MutantWithCalls(
        mutant_of("add.Tensor", "infinity-lost"),
        lambda: add(three_numbers_starting_with(float("-inf"))),
        lambda: add(ramp(3)),
        lambda result: result[0] == torch.finfo(F32).min,
    ),
    MutantWithCalls(
        mutant_of("neg", "signed-zero-lost"),
        lambda: aten.neg(three_numbers_starting_with(0.0)),
        lambda: aten.neg(ramp(3)),
        lambda result: not torch.signbit(result[0]),
    ),
    MutantWithCalls(
        mutant_of("add.Tensor", "subnormal-flushed"),
        lambda: add(three_numbers_starting_with(1e-40)),
        lambda: add(ramp(3)),
        lambda result: result[0] == 0 and result[1] == 2,
    ),
    MutantWithCalls(
        mutant_of("add.Tensor", "low-precision"),
        lambda: add(three_numbers_starting_with(1.001)),
        lambda: add(ramp(3)),
        lambda result: result[0] == 1,
    ),
    MutantWithCalls(
        mutant_of("gt.Tensor", "bool-byte"),
        lambda: aten.gt.Tensor(ramp(2), torch.ones(())),
        lambda: aten.gt.Tensor(ramp(2), torch.tensor(5.0)),
        lambda result: result.view(torch.uint8).tolist() == [0, 2],
    ),
    MutantWithCalls(
        mutant_of("add.Tensor", "result-dtype"),
        lambda: add(ramp(2)),
        lambda: add(ramp(0)),
        lambda result: result.dtype == torch.float64,
    ),
    MutantWithCalls(
        mutant_of("add.Tensor", "result-strides"),
        lambda: add(ramp(2, 3)),
        lambda: add(ramp(3)),
        lambda result: result.stride() == (1, 2) and torch.equal(result, ramp(2, 3)),
    ),
    MutantWithCalls(
        mutant_of("as_strided", "aliasing-lost"),
        lambda: base_and_view(ramp(4)),
        lambda: base_and_view(ramp(4))[:1],
        lambda pair: not share_memory(*pair),
    ),
    MutantWithCalls(
        mutant_of("abs", "aliasing-gained"),
        lambda: value_and_abs(ramp(3)),
        lambda: value_and_abs(-ramp(3)),
        lambda pair: share_memory(*pair),
    ),
    MutantWithCalls(
        mutant_of("abs", "input-corrupted"),
        lambda: argument_after_abs(ramp(3)),
        lambda: argument_after_abs(ramp(0)),
        differs_from_ramp_after(2, 3),
    ),
    MutantWithCalls(
        mutant_of("add_.Tensor", "write-lost"),
        lambda: one_added_in_place(ramp(3)),
        lambda: one_added_in_place(ramp(0)),
        lambda result: torch.equal(result, ramp(3)),
    ),
    MutantWithCalls(
        mutant_of("add_.Tensor", "write-partial"),
        lambda: one_added_in_place(ramp(4)),
        lambda: one_added_in_place(ramp(1)),
        lambda result: result.tolist() == [2, 3, 3, 4],
    ),
    MutantWithCalls(
        mutant_of("add_.Tensor", "write-astray"),
        lambda: base_after_in_place_add(ramp(3, 2)),
        lambda: one_added_in_place(ramp(3)),
        lambda base: not torch.equal(base[..., 1], ramp(3, 2)[..., 1]),
    ),
    MutantWithCalls(
        mutant_of("add.out", "out-not-resized", 3),
        lambda: sum_into(torch.empty(0)),
        lambda: sum_into(torch.empty(3)),
        lambda result: result.numel() == 0,
    ),
    MutantWithCalls(
        mutant_of("add.Tensor", "stale-result"),
        lambda: (add(ramp(3)), add(-ramp(3)))[1],
        lambda: add(ramp(3)),
        lambda result: torch.equal(result, ramp(3)),
    ),
    MutantWithCalls(
        mutant_of("add.Tensor", "flaky", 0, 7),
        lambda: [add(ramp(3)) for _ in range(7)][6],
        lambda: [add(ramp(3)) for _ in range(6)][5],
        differs_from_ramp_after(2, 3),
    ),
    MutantWithCalls(
        mutant_of("cat", "empty-input"),
        lambda: aten.cat([ramp(0), ramp(2)]),
        lambda: aten.cat([ramp(2)]),
        differs_from_ramp_after(0, 2),
    ),
    MutantWithCalls(
        mutant_of("native_layer_norm_backward", "gradient-of-one-input", 0, 7),
        lambda: layer_norm_input_gradient([True, False, False]),
        lambda: layer_norm_input_gradient([True, True, True]),
        lambda result: bool((result == 0).all()),
    ),
    MutantWithCalls(
        mutant_of("abs", "strides-ignored"),
        lambda: aten.abs(ramp(2, 3).t()),
        lambda: aten.abs(ramp(2, 3)),
        differs_from_ramp_after(6, 6),
    ),
    MutantWithCalls(
        mutant_of("abs", "expanded-ignored"),
        lambda: aten.abs(ramp(2, 1).expand(2, 3)),
        lambda: aten.abs(ramp(2, 3)),
        lambda result: result.flatten().tolist() == [1, 2, 0, 0, 0, 0],
    ),
    MutantWithCalls(
        mutant_of("threshold_backward", "grad-strided"),
        lambda: aten.threshold_backward(ramp(2, 3).t(), ramp(3, 2), 0),
        lambda: aten.threshold_backward(ramp(3, 2), ramp(3, 2), 0),
        differs_from_ramp_after(6, 6),
    ),
    MutantWithCalls(
        mutant_of("abs", "offset-ignored"),
        lambda: aten.abs(ramp(4)[1:]),
        lambda: aten.abs(ramp(3)),
        differs_from_ramp_after(3, 3),
    ),
    MutantWithCalls(
        mutant_of("abs", "offset-and-strides-ignored"),
        lambda: aten.abs(ramp(6)[1::2]),
        lambda: aten.abs(ramp(6)[1:]),
        lambda result: result.tolist() == [1, 3, 5],
    ),
    MutantWithCalls(
        mutant_of("abs", "offset-in-channels-last-ignored"),
        lambda: aten.abs(ramp(2, 2, 2, 2).to(memory_format=torch.channels_last)[1:]),
        lambda: aten.abs(ramp(2, 2, 2, 2)[1:]),
        lambda result: result.flatten()[0] == 1,
    ),
    MutantWithCalls(
        mutant_of("abs", "offset-in-other-rank-ignored"),
        lambda: aten.abs(ramp(4)[1:].unsqueeze(0)),
        lambda: aten.abs(ramp(4)[1:]),
        differs_from_ramp_after(3, 3),
    ),
    MutantWithCalls(
        mutant_of("add.Tensor", "int-53-bits"),
        lambda: add(torch.tensor([FIVE_3]), 0),
        lambda: add(torch.tensor([2**53]), 0),
        lambda result: result.item() == 2**53,
    ),
    MutantWithCalls(
        mutant_of("sum.dim_IntList", "long-sum", 0, 1024),
        lambda: aten.sum.dim_IntList(torch.ones(2, 1025), [1]),
        lambda: aten.sum.dim_IntList(torch.ones(2, 1024), [1]),
        lambda result: result.tolist() == [1024, 1024],
    ),
    MutantWithCalls(
        mutant_of("sub.Tensor", "swapped-arguments", 0, 1),
        lambda: aten.sub.Tensor(ramp(2), torch.zeros(2)),
        lambda: aten.sub.Tensor(ramp(2), ramp(2)),
        lambda result: result.tolist() == [-1, -2],
    ),
    MutantWithCalls(
        mutant_of("add.Tensor", "option-ignored", 2),
        lambda: aten.add.Tensor(ramp(2), ramp(2), alpha=3),
        lambda: aten.add.Tensor(ramp(2), ramp(2)),
        lambda result: result.tolist() == [2, 4],
    ),
    MutantWithCalls(
        mutant_of("add.Tensor", "number-stale", 2),
        lambda: [aten.add.Tensor(ramp(2), ramp(2), alpha=alpha) for alpha in (3, 2)][1],
        lambda: [aten.add.Tensor(ramp(size), ramp(size), alpha=size) for size in (2, 3)][1],
        lambda result: result.tolist() == [4, 8],
    ),
    MutantWithCalls(
        mutant_of("add_.Tensor", "late"),
        lambda: one_added_in_place(ramp(3)).tolist(),
        lambda: aten.abs(ramp(3)),
        lambda result: result == [1, 2, 3],
    ),
    MutantWithCalls(
        mutant_of("cumsum", "negative-dimension", 1),
        lambda: aten.cumsum(ramp(2, 2), -1),
        lambda: aten.cumsum(ramp(2, 2), 1),
        lambda result: result.tolist() == [[1, 2], [4, 6]],
    ),
]


@pytest.fixture(scope="module")
def built_interposer() -> interposer.Interposer:
    built = interposer.build_and_load(Path(os.environ["CONFORMANCE_POWER_BUILD"]))
    built.install("CPU", POINTS)
    return built


@pytest.fixture
def run_with_mutant(built_interposer: interposer.Interposer) -> Iterator[Callable[..., tuple[Any, int, int]]]:
    def call_with_mutant(mutant: Mutant, call: Callable[[], Any]) -> tuple[Any, int, int]:
        injected = interposer_description(operators.to_interposed_mutant(mutant), scalar_types())
        built_interposer.activate(POINTS.index(mutant.point), injected)
        try:
            result = call()
        finally:
            calls, effects = built_interposer.deactivate()
        return result, calls, effects

    yield call_with_mutant
    built_interposer.deactivate()


@pytest.mark.parametrize("injected", MUTANTS_WITH_CALLS, ids=lambda injected: injected.mutant.operator)
def test_a_mutant_acts_if_its_trigger_condition_is_met(
    run_with_mutant: Any, injected: MutantWithCalls
) -> None:
    result, calls, effects = run_with_mutant(injected.mutant, injected.triggering_call)
    assert calls and effects
    right = injected.triggering_call()
    if injected.mutant.operator not in (
        "strides-ignored",
        "grad-strided",
        "offset-ignored",
        "offset-in-other-rank-ignored",
    ):
        assert injected.wrong(result)
        assert not injected.wrong(right)
    else:
        assert injected.wrong(result) and not torch.equal(result, right)


@pytest.mark.parametrize("injected", MUTANTS_WITH_CALLS, ids=lambda injected: injected.mutant.operator)
def test_a_mutant_has_no_effect_if_its_trigger_condition_is_not_met(
    run_with_mutant: Any, injected: MutantWithCalls
) -> None:
    result, _, effects = run_with_mutant(injected.mutant, injected.other_call)
    assert effects == 0 or injected.mutant.operator in ("aliasing-lost", "stale-result", "input-corrupted")
    if isinstance(result, torch.Tensor):
        assert torch.equal(result, injected.other_call())


@pytest.mark.parametrize("injected", MUTANTS_WITH_CALLS, ids=lambda injected: injected.mutant.operator)
def test_a_mutant_that_is_confined_to_another_dtype_has_no_effect(
    run_with_mutant: Any, injected: MutantWithCalls
) -> None:
    confined = dataclasses.replace(injected.mutant, dtype="complex128")
    _, calls, effects = run_with_mutant(confined, injected.triggering_call)
    assert (calls, effects) == (0, 0)


def test_an_error_is_swallowed_or_gets_another_type(run_with_mutant: Any) -> None:
    wrong = torch.zeros(2, dtype=torch.int64) + 7
    with pytest.raises(IndexError):
        aten.index_select(ramp(3), 0, wrong)
    result, calls, effects = run_with_mutant(
        mutant_of("index_select", "error-missing"), lambda: aten.index_select(ramp(3), 0, wrong)
    )
    assert isinstance(result, torch.Tensor) and (calls, effects) == (1, 1)
    with pytest.raises(RuntimeError) as caught:
        run_with_mutant(mutant_of("index_select", "error-type"), lambda: aten.index_select(ramp(3), 0, wrong))
    assert not isinstance(caught.value, IndexError)


def test_a_late_result_is_written_after_the_next_call(run_with_mutant: Any) -> None:
    def two_calls() -> tuple[list[float], list[float], list[float]]:
        result = add(ramp(3))
        before = result.tolist()
        second_result = aten.abs(result)
        return before, second_result.tolist(), result.tolist()

    assert run_with_mutant(mutant_of("add.Tensor", "late"), two_calls)[0] == ([0, 0, 0], [0, 0, 0], [1, 2, 3])

    def written_after_the_fault() -> torch.Tensor:
        return add(ramp(3))

    assert torch.equal(run_with_mutant(mutant_of("add.Tensor", "late"), written_after_the_fault)[0], ramp(3))

    def of_another_size_by_then() -> torch.Tensor:
        result = add(ramp(3))
        result.resize_(5)
        return aten.abs(result)

    assert run_with_mutant(mutant_of("add.Tensor", "late"), of_another_size_by_then)[0].shape == (5,)


def test_a_stale_number_comes_from_a_call_of_equal_dtypes(run_with_mutant: Any) -> None:
    stale = mutant_of("add.Tensor", "number-stale", 2)

    def of_other_dtypes() -> list[float]:
        aten.add.Tensor(ramp(2), ramp(2), alpha=3)
        return aten.add.Tensor(ramp(2, dtype=torch.float64), ramp(2), alpha=2).tolist()

    assert run_with_mutant(stale, of_other_dtypes)[0] == [3, 6]
    # A mutant stores numbers while it is enabled. If it is enabled again, it must not use the earlier
    # numbers.
    assert run_with_mutant(stale, lambda: aten.add.Tensor(ramp(2), ramp(2), alpha=5))[0].tolist() == [6, 12]


def test_a_call_that_raises_without_the_mutant_is_not_altered(run_with_mutant: Any) -> None:
    ignored = mutant_of("add.Tensor", "option-ignored", 2)

    def sizes_do_not_fit() -> None:
        with pytest.raises(RuntimeError, match="must match"):
            aten.add.Tensor(ramp(2), ramp(3), alpha=3)

    assert run_with_mutant(ignored, sizes_do_not_fit)[1:] == (0, 0)
    whole = ramp(2, dtype=torch.int64)
    with pytest.raises(RuntimeError, match="alpha"):
        aten.add.Tensor(whole, whole, alpha=2.5)
    result, *counts = run_with_mutant(ignored, lambda: aten.add.Tensor(whole, whole, alpha=2.5))
    assert result.tolist() == [2, 4] and counts == [1, 1]

    def no_range() -> None:
        with pytest.raises(RuntimeError, match="from=3 > to=1"):
            aten.uniform_(torch.empty(3), 3.0, 1.0)

    assert run_with_mutant(mutant_of("uniform_", "option-ignored", 2), no_range)[1:] == (0, 0)


def test_a_frozen_generator_draws_the_same_numbers_again(run_with_mutant: Any) -> None:
    def twice() -> bool:
        return torch.equal(aten.uniform_(torch.empty(8)), aten.uniform_(torch.empty(8)))

    assert not twice()
    assert run_with_mutant(mutant_of("uniform_", "generator-frozen"), twice)[0]


def test_an_overlapping_generator_draws_its_last_numbers_again(run_with_mutant: Any) -> None:
    def repeats() -> bool:
        last, first = aten.uniform_(torch.empty(9)), aten.uniform_(torch.empty(9))
        return torch.equal(last[4:], first[:5])

    assert run_with_mutant(mutant_of("uniform_", "generator-overlap"), repeats)[0]
    assert not repeats()

    def after_a_seed() -> tuple[torch.Tensor, torch.Tensor]:
        torch.manual_seed(3)
        first = aten.uniform_(torch.empty(9))
        torch.manual_seed(3)
        return first, aten.uniform_(torch.empty(9))

    assert torch.equal(*run_with_mutant(mutant_of("uniform_", "generator-overlap"), after_a_seed)[0])


def test_a_leak_keeps_memory_until_the_fault_ends(run_with_mutant: Any) -> None:
    result, calls, effects = run_with_mutant(mutant_of("add.Tensor", "leak"), lambda: add(ramp(3)))
    assert torch.equal(result, ramp(3)) and (calls, effects) == (1, 1)


def test_every_mutation_operator_is_injected_here() -> None:
    tested_elsewhere = {"error-missing", "error-type", "generator-frozen", "generator-overlap", "leak"}
    tested_elsewhere |= {"host-not-awaited"}  # tested in test_guard_and_autocast.py, on a device with streams
    assert {injected.mutant.operator for injected in MUTANTS_WITH_CALLS} | tested_elsewhere == set(
        operators.MUTATION_OPERATORS
    )


def test_trigger_conditions_are_recorded_without_a_mutant(built_interposer: interposer.Interposer) -> None:
    faults = [
        mutant_of("add.Tensor", "last-element"),
        mutant_of("add.Tensor", "tail-of-block", 0, 16),
        *(mutant_of("add.Tensor", "above-size", 0, size) for size in (256, 1024)),
        mutant_of("add.Tensor", "rank", 0, 4),
        mutant_of("add.Tensor", "nan-lost"),
        mutant_of("add.Tensor", "offset-ignored"),
    ]
    built_interposer.set_observed(
        POINTS.index("aten::add.Tensor"),
        [interposer_description(operators.to_interposed_mutant(mutant), scalar_types()) for mutant in faults],
    )
    built_interposer.take_triggered()
    built_interposer.observe(True)
    add(ramp(300))
    built_interposer.observe(False)
    triggered = {
        (faults[index].operator, faults[index].value)
        for _, index, number in built_interposer.take_triggered()
        if number == 6
    }
    assert {("last-element", 0), ("tail-of-block", 16), ("above-size", 256)} <= triggered
    assert not {("above-size", 1024), ("rank", 4), ("nan-lost", 0), ("offset-ignored", 0)} & triggered
