"""Injected faults that the property ``overload-repeats`` must detect."""

from __future__ import annotations

import threading
import time
from typing import Any

import torch

from conformance.model.verdicts import Kind
from conformance.subjects.overloads import Overload
from tests.injected_faults.overloads.faults.fault_registry import register_fault


@register_fault("overload-repeats", "relu", "float32", Kind.VALUE)
def one_call_in_97_is_wrong(overload: Overload) -> dict[str, Any]:
    calls = 0

    def faulty_op(x: Any) -> Any:
        nonlocal calls
        calls += 1
        return overload.op(x) + (calls % 97 == 0)

    return {"op": faulty_op}


@register_fault("overload-repeats", "relu", "float32", Kind.VALUE)
def one_call_in_97_is_wrong_in_place(overload: Overload) -> dict[str, Any]:
    calls = 0

    def faulty_in_place(x: Any) -> Any:
        nonlocal calls
        calls += 1
        return overload.in_place(x).add_(int(calls % 97 == 0))

    return {"in_place": faulty_in_place}


@register_fault("overload-repeats", "mul.Tensor", "float32", Kind.VALUE)
def result_of_earlier_call_returned(overload: Overload) -> dict[str, Any]:
    results_by_form: dict[Any, Any] = {}

    def faulty_op(x: Any, y: Any) -> Any:
        result = overload.op(x, y)
        return results_by_form.setdefault((result.shape, result.dtype), result).clone()

    return {"op": faulty_op}


@register_fault("overload-repeats", "relu", "float32", Kind.VALUE)
def threads_share_intermediate_memory(overload: Overload) -> dict[str, Any]:
    inside: set[int] = set()

    def faulty_op(x: Any) -> Any:
        me = threading.get_ident()
        inside.add(me)
        if threading.current_thread() is not threading.main_thread():
            time.sleep(0.001)
        result = overload.op(x) + (inside != {me})
        inside.discard(me)
        return result

    return {"op": faulty_op}


@register_fault("overload-repeats", "relu", "float32", Kind.VALUE)
def threads_share_result_memory(overload: Overload) -> dict[str, Any]:
    shared: dict[str, torch.Tensor] = {}

    def faulty_op(x: Any) -> Any:
        if threading.current_thread() is threading.main_thread():
            return overload.op(x)
        shared["result"] = overload.op(x)
        time.sleep(0.001)
        return shared["result"].clone()

    return {"op": faulty_op}


@register_fault("overload-repeats", "relu", "float32", Kind.EXCEPTION)
def raises_outside_main_thread(overload: Overload) -> dict[str, Any]:
    def faulty_op(x: Any) -> Any:
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("the kernel belongs to another thread")
        return overload.op(x)

    return {"op": faulty_op}


@register_fault("overload-repeats", "mish", "float32", Kind.VALUE)
def one_mish_call_in_97_is_wrong(overload: Overload) -> dict[str, Any]:
    count = 0

    def faulty_op(x: Any) -> Any:
        nonlocal count
        count += 1
        return overload.op(x) + (count % 97 == 0)

    return {"op": faulty_op}


@register_fault("overload-repeats", "relu", "float32", Kind.VALUE)
def result_depends_on_uninitialised_memory(overload: Overload) -> dict[str, Any]:
    def faulty_op(x: Any) -> Any:
        new_tensor = torch.empty_like(x)
        return overload.op(x) + new_tensor.isnan()

    return {"op": faulty_op}


@register_fault("overload-repeats", "_fused_sgd_", "float32", Kind.VALUE)
def one_call_in_97_writes_nothing(overload: Overload) -> dict[str, Any]:
    calls = 0

    def faulty_op(params: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        written = [tensor.clone() for tensor in params] if calls % 97 == 0 else params
        return overload.op(written, *args, **kwargs)

    return {"op": faulty_op}


@register_fault("overload-repeats", "_batch_norm_with_update", "float32", Kind.VALUE)
def one_out_call_in_97_skips_statistics(overload: Overload) -> dict[str, Any]:
    calls = 0

    def faulty_out(x: Any, weight: Any, bias: Any, mean: Any, *args: Any, **outs: Any) -> Any:
        nonlocal calls
        calls += 1
        written = mean.clone() if calls % 97 == 0 else mean
        return overload.out(x, weight, bias, written, *args, **outs)

    return {"out": faulty_out}


@register_fault("overload-repeats", "_batch_norm_with_update", "float32", Kind.EXCEPTION)
def one_out_call_in_97_raises(overload: Overload) -> dict[str, Any]:
    calls = 0

    def faulty_out(*args: Any, **outs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls % 97 == 0:
            raise RuntimeError("the table is full")
        return overload.out(*args, **outs)

    return {"out": faulty_out}
