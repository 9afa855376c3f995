"""Injected faults that the property ``overload-random`` must detect."""

from __future__ import annotations

from typing import Any

import torch

from conformance.model.verdicts import Kind
from conformance.subjects.overloads import Overload
from tests.injected_faults.overloads.faults.fault_registry import register_fault


@register_fault("overload-random", "uniform", "float32", Kind.STATE)
def in_place_draw_writes_outside_view(overload: Overload) -> dict[str, Any]:
    def faulty_in_place(x: Any, *args: Any, **kwargs: Any) -> Any:
        overload.in_place(x, *args, **kwargs)
        if x.storage_offset():
            x.as_strided((1,), (1,), 0).fill_(9)
        return x

    return {"in_place": faulty_in_place}


@register_fault("overload-random", "bernoulli", "float32", Kind.STATE)
def out_form_does_not_advance_generator(overload: Overload) -> dict[str, Any]:
    def faulty_out(*args: Any, out: Any, **kwargs: Any) -> Any:
        state = torch.get_rng_state()
        overload.out(*args, out=out, **kwargs)
        torch.set_rng_state(state)
        return out

    return {"out": faulty_out}


@register_fault("overload-random", "uniform", "float32", Kind.STATE)
def op_does_not_advance_generator(overload: Overload) -> dict[str, Any]:
    def faulty_op(*args: Any, **kwargs: Any) -> Any:
        state = torch.get_rng_state()
        result = overload.op(*args, **kwargs)
        torch.set_rng_state(state)
        return result

    return {"op": faulty_op}


@register_fault("overload-random", "uniform", "float32", Kind.STATE)
def generator_advances_one_too_few(overload: Overload) -> dict[str, Any]:
    def faulty_op(x: Any, *args: Any, **kwargs: Any) -> Any:
        state = torch.get_rng_state()
        result = overload.op(x, *args, **kwargs)
        torch.set_rng_state(state)
        overload.op(x.reshape(-1)[:-1], *args, **kwargs)
        return result

    return {"op": faulty_op}


@register_fault("overload-random", "uniform", "float32", Kind.STATE)
def seed_ignored(overload: Overload) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(5)
    return {"op": lambda x, *args, **kwargs: torch.rand(x.shape, dtype=x.dtype, generator=generator)}


@register_fault("overload-random", "bernoulli", "float32", Kind.STATE)
def every_draw_uses_seed_0(overload: Overload) -> dict[str, Any]:
    def faulty_op(x: Any, *args: Any, **kwargs: Any) -> Any:
        generator = torch.Generator().manual_seed(0)
        return overload.op(x, *args, generator=generator)

    return {"op": faulty_op}


@register_fault("overload-random", "uniform", "float32", Kind.STATE)
def half_of_previous_draw_repeated(overload: Overload) -> dict[str, Any]:
    before: list[torch.Tensor] = []
    state: list[torch.Tensor] = []

    def faulty_op(x: Any, *args: Any, **kwargs: Any) -> Any:
        # The first draws after a seed stay correct, because the same seed must give the same numbers. Only
        # the repetition of numbers within a sequence of draws then reveals the fault.
        follows = bool(state) and not torch.equal(torch.get_rng_state(), state[0])
        if not follows:
            state[:] = [torch.get_rng_state()]
        drawn = overload.op(x, *args, **kwargs)
        if follows and before[0].shape == drawn.shape:
            drawn.view(-1)[::2] = before[0].view(-1)[::2]
        before[:] = [drawn.clone()]
        return drawn

    return {"op": faulty_op}


@register_fault("overload-random", "random.to", "int32", Kind.ALIASING)
def in_place_draw_returns_copy(overload: Overload) -> dict[str, Any]:
    return {"in_place": lambda x, *args, **kwargs: overload.in_place(x, *args, **kwargs).clone()}


@register_fault("overload-random", "bernoulli.p", "float32", Kind.VALUE)
def random_result_all_zeros(overload: Overload) -> dict[str, Any]:
    return {"op": lambda x, p, **kwargs: overload.op(x, p, **kwargs).mul_(0)}


@register_fault("overload-random", "gru.data", "float32", Kind.STATE)
def layer_dropout_does_not_advance_generator(overload: Overload) -> dict[str, Any]:
    def faulty_op(*args: Any) -> Any:
        state = torch.get_rng_state()
        results = overload.op(*args)
        torch.set_rng_state(state)
        return results

    return {"op": faulty_op}


@register_fault("overload-random", "uniform", "float32", Kind.VALUE)
def in_place_draw_reuses_first_range(overload: Overload) -> dict[str, Any]:
    first: list[Any] = []

    def faulty_in_place(x: Any, *args: Any, **kwargs: Any) -> Any:
        first[:] = first or [args]
        return overload.in_place(x, *first[0], **kwargs)

    return {"in_place": faulty_in_place}
