"""Wrong kernels, planted on purpose: faults for every property of overloads.

A fault replaces some forms of an overload by Python functions that are wrong in one way; the CPU's answers
come from torch's own overload.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable
from typing import Any

import torch

from conformance.model.verdicts import Kind
from conformance.subjects.databases import Subject, find
from conformance.subjects.overloads import Overload

aten = torch.ops.aten
Break = Callable[[Overload], dict[str, Any]]


@dataclasses.dataclass(frozen=True)
class Fault:
    """``breaks`` returns the forms that are wrong; the check must then fail with ``kind``."""

    property: str
    overload: str
    dtype: str
    kind: Kind
    breaks: Break

    @property
    def name(self) -> str:
        return f"{self.property}-{self.overload}-{self.breaks.__name__}"


FAULTS: list[Fault] = []


def plant(property: str, overload: str, dtype: str, kind: Kind) -> Callable[[Break], Break]:
    def wrap(breaks: Break) -> Break:
        FAULTS.append(Fault(property, overload, dtype, kind, breaks))
        return breaks

    return wrap


def broken(fault: Fault) -> Subject:
    """The overload's subject with the fault in it."""
    overload: Overload = find("overload", fault.overload).info
    return Subject("overload", fault.overload, dataclasses.replace(overload, **fault.breaks(overload)))


def dense(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor as a kernel sees it that takes it for dense."""
    if tensor.is_contiguous():
        return tensor
    strides = torch.empty(tensor.shape).stride()
    needed = tensor.storage_offset() + tensor.numel()
    if needed * tensor.itemsize > tensor.untyped_storage().nbytes():
        return torch.zeros_like(tensor, memory_format=torch.contiguous_format)
    return tensor.as_strided(tensor.shape, strides, tensor.storage_offset())


def without_offset(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.as_strided(tensor.shape, tensor.stride(), 0)


# forms


@plant("overload-forms", "_amp_update_scale_", "float32", Kind.ALIASING)
def what_was_written_is_returned_as_a_copy(overload: Overload) -> dict[str, Any]:
    return {"op": lambda *args, **kwargs: overload.op(*args, **kwargs).clone()}


@plant("overload-forms", "add.Tensor", "float32", Kind.ALIASING)
def in_place_returns_a_copy(overload: Overload) -> dict[str, Any]:
    return {"in_place": lambda x, *args, **kwargs: overload.in_place(x, *args, **kwargs).clone()}


@plant("overload-forms", "add.Tensor", "float32", Kind.VALUE)
def in_place_writes_nothing(overload: Overload) -> dict[str, Any]:
    def in_place(x: Any, *args: Any, **kwargs: Any) -> Any:
        old = x.clone()
        return overload.in_place(x, *args, **kwargs).copy_(old)

    return {"in_place": in_place}


@plant("overload-forms", "mul.Tensor", "int64", Kind.METADATA)
def an_empty_out_stays_empty(overload: Overload) -> dict[str, Any]:
    def out(*args: Any, out: Any, **kwargs: Any) -> Any:
        was_empty = out.numel() == 0
        overload.out(*args, out=out, **kwargs)
        return out.resize_(0) if was_empty else out

    return {"out": out}


@plant("overload-forms", "relu", "float32", Kind.ALIASING)
def a_new_result_is_an_argument(overload: Overload) -> dict[str, Any]:
    return {"op": lambda x: x.copy_(overload.op(x))}


@plant("overload-forms", "transpose.int", "float32", Kind.ALIASING)
def a_view_is_a_copy(overload: Overload) -> dict[str, Any]:
    return {"op": lambda *args: overload.op(*args).clone()}


@plant("overload-forms", "transpose.int", "float32", Kind.VALUE)
def a_negative_dimension_is_the_next_one(overload: Overload) -> dict[str, Any]:
    def op(x: Any, first: int, second: int) -> Any:
        result = overload.op(x, first, second)
        return result + 1 if first < 0 and x.numel() else result

    return {"op": op}


@plant("overload-forms", "ne.Tensor", "float32", Kind.VALUE)
def true_is_two(overload: Overload) -> dict[str, Any]:
    def op(*args: Any) -> Any:
        result = overload.op(*args)
        return (result.to(torch.uint8) * 2).view(torch.bool)

    return {"op": op}


@plant("overload-forms", "mul.Tensor", "float32", Kind.STATE)
def an_argument_is_overwritten(overload: Overload) -> dict[str, Any]:
    def op(x: Any, y: Any) -> Any:
        result = overload.op(x, y)
        if y.numel():
            y.view(-1)[-1] += 1
        return result

    return {"op": op}


# layouts


@plant("overload-layouts", "sub.Tensor", "float32", Kind.VALUE)
def strides_of_the_second_argument_are_ignored(overload: Overload) -> dict[str, Any]:
    return {"op": lambda x, y, **kwargs: overload.op(x, dense(y), **kwargs)}


@plant("overload-layouts", "mul.Tensor", "bool", Kind.VALUE)
def strides_are_ignored_in_place(overload: Overload) -> dict[str, Any]:
    return {"in_place": lambda x, y, **kwargs: overload.in_place(x, dense(y), **kwargs)}


@plant("overload-layouts", "bmm", "float32", Kind.VALUE)
def offsets_of_strided_arguments_are_ignored(overload: Overload) -> dict[str, Any]:
    return {"op": lambda x, y: overload.op(x if x.is_contiguous() else without_offset(x), y)}


@plant("overload-layouts", "relu", "float32", Kind.VALUE)
def expanded_arguments_are_read_as_dense(overload: Overload) -> dict[str, Any]:
    return {"op": lambda x: overload.op(dense(x) if 0 in x.stride() else x)}


@plant("overload-layouts", "mul.Tensor", "float32", Kind.STATE)
def out_is_written_beyond_its_end(overload: Overload) -> dict[str, Any]:
    def out(*args: Any, out: Any) -> Any:
        overload.out(*args, out=out)
        room = out.untyped_storage().nbytes() // out.itemsize
        after = out.storage_offset() + out.numel()
        if out.is_contiguous() and after < room:
            out.as_strided((1,), (1,), after).fill_(9)
        return out

    return {"out": out}


# values


@plant("overload-values", "add.Tensor", "float32", Kind.VALUE)
def nan_of_the_second_argument_is_lost(overload: Overload) -> dict[str, Any]:
    return {
        "op": lambda x, y, **kwargs: overload.op(x, torch.nan_to_num(y, posinf=None, neginf=None), **kwargs)
    }


@plant("overload-values", "add.Tensor", "float32", Kind.VALUE)
def infinity_becomes_the_largest_number(overload: Overload) -> dict[str, Any]:
    largest = torch.finfo(torch.float32).max

    def in_place(x: Any, y: Any, **kwargs: Any) -> Any:
        return x.copy_(overload.op(x, y, **kwargs).clamp(-largest, largest))

    return {"in_place": in_place}


@plant("overload-values", "add.Tensor", "int64", Kind.VALUE)
def integers_go_through_float64(overload: Overload) -> dict[str, Any]:
    return {"op": lambda x, y, **kwargs: overload.op(x.double().long(), y, **kwargs)}


@plant("overload-values", "clone", "float32", Kind.VALUE)
def the_sign_of_zero_is_lost(overload: Overload) -> dict[str, Any]:
    return {"op": lambda x, **kwargs: overload.op(x, **kwargs) + 0.0}


@plant("overload-values", "clone", "float32", Kind.VALUE)
def subnormal_numbers_become_zero(overload: Overload) -> dict[str, Any]:
    def op(x: Any, **kwargs: Any) -> Any:
        result = overload.op(x, **kwargs)
        return torch.where(result.abs() < torch.finfo(torch.float32).tiny, result * 0, result)

    return {"op": op}


@plant("overload-values", "sum.dim_IntList", "float32", Kind.VALUE)
def nan_is_left_out_of_sums(overload: Overload) -> dict[str, Any]:
    return {
        "op": lambda x, *args, **kwargs: overload.op(x.nan_to_num(posinf=None, neginf=None), *args, **kwargs)
    }


# shapes


def wrong_if(condition: Callable[[torch.Tensor], bool]) -> Break:
    def breaks(overload: Overload) -> dict[str, Any]:
        def op(x: Any, *args: Any, **kwargs: Any) -> Any:
            result = overload.op(x, *args, **kwargs)
            return result + 1 if condition(x) else result

        return {"op": op}

    return breaks


@plant("overload-shapes", "sqrt", "float16", Kind.VALUE)
def wrong_beyond_2_to_the_20(overload: Overload) -> dict[str, Any]:
    def op(x: Any) -> Any:
        result = overload.op(x)
        result.view(-1)[1 << 20 :] += 1
        return result

    return {"op": op}


@plant("overload-shapes", "add.Tensor", "float32", Kind.VALUE)
def wrong_above_65536_elements(overload: Overload) -> dict[str, Any]:
    return wrong_if(lambda x: x.numel() > 65_536)(overload)


@plant("overload-shapes", "sum.dim_IntList", "int64", Kind.VALUE)
def wrong_above_4096_elements(overload: Overload) -> dict[str, Any]:
    return wrong_if(lambda x: x.numel() > 4096)(overload)


@plant("overload-shapes", "relu", "float32", Kind.VALUE)
def wrong_for_six_dimensions(overload: Overload) -> dict[str, Any]:
    return wrong_if(lambda x: x.dim() == 6)(overload)


@plant("overload-shapes", "mul.Tensor", "float32", Kind.VALUE)
def wrong_for_scalars(overload: Overload) -> dict[str, Any]:
    return wrong_if(lambda x: x.dim() == 0)(overload)


@plant("overload-shapes", "cat", "float32", Kind.EXCEPTION)
def refuses_what_is_empty(overload: Overload) -> dict[str, Any]:
    def op(tensors: Any, *args: Any) -> Any:
        if any(tensor.numel() == 0 for tensor in tensors):
            raise RuntimeError("empty")
        return overload.op(tensors, *args)

    return {"op": op}


# options


@plant("overload-options", "add.Tensor", "float32", Kind.VALUE)
def alpha_is_ignored_in_place(overload: Overload) -> dict[str, Any]:
    return {"in_place": lambda x, y, **kwargs: overload.in_place(x, y)}


@plant("overload-options", "sub.Tensor", "float32", Kind.VALUE)
def arguments_change_places(overload: Overload) -> dict[str, Any]:
    def op(x: Any, y: Any, **kwargs: Any) -> Any:
        return overload.op(y, x, **kwargs) if x.shape == y.shape else overload.op(x, y, **kwargs)

    return {"op": op}


@plant("overload-options", "sum.dim_IntList", "float32", Kind.METADATA)
def dimensions_are_always_kept(overload: Overload) -> dict[str, Any]:
    return {"op": lambda x, dim, keepdim=False, **kwargs: overload.op(x, dim, True, **kwargs)}


@plant("overload-options", "convolution_backward", "float32", Kind.VALUE)
def a_gradient_alone_is_wrong(overload: Overload) -> dict[str, Any]:
    def op(*args: Any) -> Any:
        results = list(overload.op(*args))
        if sum(args[-1]) == 1 and results[1] is not None:
            results[1] = results[1] + 1
        return tuple(results)

    return {"op": op}


# repeats


@plant("overload-repeats", "relu", "float32", Kind.VALUE)
def one_call_in_97_is_wrong(overload: Overload) -> dict[str, Any]:
    calls = 0

    def op(x: Any) -> Any:
        nonlocal calls
        calls += 1
        return overload.op(x) + (calls % 97 == 0)

    return {"op": op}


@plant("overload-repeats", "relu", "float32", Kind.VALUE)
def one_call_in_97_is_wrong_in_place(overload: Overload) -> dict[str, Any]:
    calls = 0

    def in_place(x: Any) -> Any:
        nonlocal calls
        calls += 1
        return overload.in_place(x).add_(int(calls % 97 == 0))

    return {"in_place": in_place}


@plant("overload-repeats", "mul.Tensor", "float32", Kind.VALUE)
def the_result_of_the_call_before(overload: Overload) -> dict[str, Any]:
    kept: dict[Any, Any] = {}

    def op(x: Any, y: Any) -> Any:
        result = overload.op(x, y)
        return kept.setdefault((result.shape, result.dtype), result).clone()

    return {"op": op}


@plant("overload-repeats", "relu", "float32", Kind.VALUE)
def threads_share_the_memory_between_two_steps(overload: Overload) -> dict[str, Any]:
    inside: set[int] = set()

    def op(x: Any) -> Any:
        me = threading.get_ident()
        inside.add(me)
        if threading.current_thread() is not threading.main_thread():
            time.sleep(0.001)
        result = overload.op(x) + (inside != {me})
        inside.discard(me)
        return result

    return {"op": op}


@plant("overload-repeats", "relu", "float32", Kind.VALUE)
def threads_share_the_memory_of_the_result(overload: Overload) -> dict[str, Any]:
    shared: dict[str, torch.Tensor] = {}

    def op(x: Any) -> Any:
        if threading.current_thread() is threading.main_thread():
            return overload.op(x)
        shared["result"] = overload.op(x)
        time.sleep(0.001)
        return shared["result"].clone()

    return {"op": op}


@plant("overload-repeats", "relu", "float32", Kind.EXCEPTION)
def only_the_first_thread_may_call(overload: Overload) -> dict[str, Any]:
    def op(x: Any) -> Any:
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("the kernel belongs to another thread")
        return overload.op(x)

    return {"op": op}


# errors


@plant("overload-errors", "sum.dim_IntList", "float32", Kind.ERROR_TYPE)
def any_dimension_is_accepted(overload: Overload) -> dict[str, Any]:
    def op(x: Any, dim: Any, *args: Any, **kwargs: Any) -> Any:
        return overload.op(x, [one % max(x.dim(), 1) for one in dim], *args, **kwargs)

    return {"op": op}


@plant("overload-errors", "transpose.int", "float32", Kind.ERROR_TYPE)
def the_error_is_another(overload: Overload) -> dict[str, Any]:
    def op(*args: Any) -> Any:
        try:
            return overload.op(*args)
        except IndexError as error:
            raise RuntimeError(str(error)) from None

    return {"op": op}


@plant("overload-errors", "mul.Tensor", "float32", Kind.ERROR_TYPE)
def a_result_that_does_not_fit_is_dropped(overload: Overload) -> dict[str, Any]:
    def in_place(x: Any, y: Any) -> Any:
        try:
            return overload.in_place(x, y)
        except RuntimeError:
            return x

    return {"in_place": in_place}


# random


@plant("overload-random", "uniform", "float32", Kind.STATE)
def draws_beside_the_tensor(overload: Overload) -> dict[str, Any]:
    def in_place(x: Any, *args: Any, **kwargs: Any) -> Any:
        overload.in_place(x, *args, **kwargs)
        if x.storage_offset():
            x.as_strided((1,), (1,), 0).fill_(9)
        return x

    return {"in_place": in_place}


@plant("overload-random", "bernoulli", "float32", Kind.STATE)
def the_form_with_out_draws_the_same_again(overload: Overload) -> dict[str, Any]:
    def out(*args: Any, out: Any, **kwargs: Any) -> Any:
        state = torch.get_rng_state()
        overload.out(*args, out=out, **kwargs)
        torch.set_rng_state(state)
        return out

    return {"out": out}


@plant("overload-random", "uniform", "float32", Kind.STATE)
def the_generator_stands_still(overload: Overload) -> dict[str, Any]:
    def op(*args: Any, **kwargs: Any) -> Any:
        state = torch.get_rng_state()
        result = overload.op(*args, **kwargs)
        torch.set_rng_state(state)
        return result

    return {"op": op}


@plant("overload-random", "uniform", "float32", Kind.STATE)
def a_draw_begins_with_the_last_number(overload: Overload) -> dict[str, Any]:
    def op(x: Any, *args: Any, **kwargs: Any) -> Any:
        state = torch.get_rng_state()
        result = overload.op(x, *args, **kwargs)
        torch.set_rng_state(state)
        overload.op(x.reshape(-1)[:-1], *args, **kwargs)
        return result

    return {"op": op}


@plant("overload-random", "uniform", "float32", Kind.STATE)
def the_seed_does_not_count(overload: Overload) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(5)
    return {"op": lambda x, *args, **kwargs: torch.rand(x.shape, dtype=x.dtype, generator=generator)}


@plant("overload-forms", "_fused_sgd_", "float32", Kind.VALUE)
def momentum_not_written(overload: Overload) -> dict[str, Any]:
    def op(params: Any, grads: Any, momenta: Any, **options: Any) -> Any:
        return overload.op(params, grads, [one.clone() for one in momenta], **options)

    return {"op": op}


@plant("overload-forms", "equal", "int64", Kind.VALUE)
def always_equal(overload: Overload) -> dict[str, Any]:
    return {"op": lambda one, other: True}


@plant("overload-values", "sin", "float32", Kind.ALIASING)
def zeros_return_the_argument(overload: Overload) -> dict[str, Any]:
    return {"op": lambda x: x if not bool(x.any()) else overload.op(x)}


@plant("overload-shapes", "cat", "float32", Kind.VALUE)
def one_empty_tensor_ends_the_list(overload: Overload) -> dict[str, Any]:
    def op(tensors: Any, dim: int = 0) -> Any:
        result = overload.op(tensors, dim)
        return result * 0 if any(not t.numel() for t in tensors) else result

    return {"op": op}


@plant("overload-errors", "add.Tensor", "float32", Kind.ERROR_TYPE)
def sizes_that_do_not_fit_are_an_index_error(overload: Overload) -> dict[str, Any]:
    def op(*args: Any, **kwargs: Any) -> Any:
        try:
            return overload.op(*args, **kwargs)
        except RuntimeError as error:
            raise IndexError(str(error)) from None

    return {"op": op}


@plant("overload-indices", "index_select", "float32", Kind.ERROR_TYPE)
def indices_out_of_range_name_the_last_element(overload: Overload) -> dict[str, Any]:
    def op(x: Any, dim: int, index: Any) -> Any:
        return overload.op(x, dim, index.clamp(-x.shape[dim], x.shape[dim] - 1))

    return {"op": op}


@plant("overload-repeats", "mish", "float32", Kind.VALUE)
def one_call_in_ninety_seven_is_wrong(overload: Overload) -> dict[str, Any]:
    count = 0

    def op(x: Any) -> Any:
        nonlocal count
        count += 1
        return overload.op(x) + (count % 97 == 0)

    return {"op": op}


@plant("overload-repeats", "relu", "float32", Kind.VALUE)
def results_depend_on_what_memory_held(overload: Overload) -> dict[str, Any]:
    def op(x: Any) -> Any:
        fresh = torch.empty_like(x)
        return overload.op(x) + fresh.isnan()

    return {"op": op}


@plant("overload-options", "nan_to_num", "float32", Kind.VALUE)
def the_number_for_nan_is_ignored(overload: Overload) -> dict[str, Any]:
    return {"op": lambda x, nan=None, *args: overload.op(x, None, *args)}


@plant("overload-options", "avg_pool2d", "float32", Kind.VALUE)
def padding_always_counts(overload: Overload) -> dict[str, Any]:
    def op(*args: Any, count_include_pad: bool = True, **kwargs: Any) -> Any:
        return overload.op(*args[:5], count_include_pad=True, **kwargs)

    return {"op": op}


@plant("overload-values", "round", "float32", Kind.VALUE)
def a_half_is_rounded_up(overload: Overload) -> dict[str, Any]:
    return {"op": lambda x: torch.where(x.frac().abs() == 0.5, x.ceil(), overload.op(x))}


@plant("overload-values", "argmax", "int64", Kind.VALUE)
def integers_are_ordered_as_float64(overload: Overload) -> dict[str, Any]:
    return {"op": lambda x, *args, **kwargs: overload.op(x.double(), *args, **kwargs)}


@plant("overload-shapes", "mm", "float32", Kind.VALUE)
def a_sum_ends_after_4096_products(overload: Overload) -> dict[str, Any]:
    return {"op": lambda x, y: overload.op(x[:, :4096], y[:4096])}


@plant("overload-shapes", "bmm", "float32", Kind.VALUE)
def a_batch_ends_after_512_matrices(overload: Overload) -> dict[str, Any]:
    def op(x: Any, y: Any) -> Any:
        result = overload.op(x, y)
        result[512:] = 0
        return result

    return {"op": op}


@plant("overload-values", "add.Tensor", "float32", Kind.VALUE)
def a_zero_has_no_sign_beside_zeros(overload: Overload) -> dict[str, Any]:
    def op(*args: Any, **kwargs: Any) -> Any:
        result = overload.op(*args, **kwargs)
        return torch.where(result == 0, result.abs(), result)

    return {"op": op}


@plant("overload-values", "clone", "float32", Kind.VALUE)
def a_nan_at_the_end_is_lost(overload: Overload) -> dict[str, Any]:
    def op(x: Any, **kwargs: Any) -> Any:
        result = overload.op(x, **kwargs)
        if result.numel():
            result[(-1,) * result.dim()].nan_to_num_()
        return result

    return {"op": op}


@plant("overload-shapes", "nonzero", "float32", Kind.VALUE)
def wrong_for_65537_places(overload: Overload) -> dict[str, Any]:
    return wrong_if(lambda x: x.count_nonzero().item() > 65_536)(overload)


@plant("overload-random", "bernoulli", "float32", Kind.STATE)
def every_draw_is_the_first(overload: Overload) -> dict[str, Any]:
    def op(x: Any, *args: Any, **kwargs: Any) -> Any:
        generator = torch.Generator().manual_seed(0)
        return overload.op(x, *args, generator=generator)

    return {"op": op}


@plant("overload-random", "uniform", "float32", Kind.STATE)
def half_of_a_draw_is_of_the_one_before(overload: Overload) -> dict[str, Any]:
    before: list[torch.Tensor] = []
    state: list[torch.Tensor] = []

    def op(x: Any, *args: Any, **kwargs: Any) -> Any:
        # After the same seed it must draw the same again: only then does nothing but the repetition tell.
        follows = bool(state) and not torch.equal(torch.get_rng_state(), state[0])
        if not follows:
            state[:] = [torch.get_rng_state()]
        drawn = overload.op(x, *args, **kwargs)
        if follows and before[0].shape == drawn.shape:
            drawn.view(-1)[::2] = before[0].view(-1)[::2]
        before[:] = [drawn.clone()]
        return drawn

    return {"op": op}


@plant("overload-shapes", "glu_jvp", "float32", Kind.VALUE)
def wrong_in_many_rows(overload: Overload) -> dict[str, Any]:
    return wrong_if(lambda x: x.numel() > 4096)(overload)
