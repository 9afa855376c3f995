"""Faults that ``overload-options`` sees."""

from __future__ import annotations

from typing import Any

from conformance.model.verdicts import Kind
from conformance.subjects.overloads import Overload
from tests.planted.overloads.faults.planting import plant


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


@plant("overload-options", "nan_to_num", "float32", Kind.VALUE)
def the_number_for_nan_is_ignored(overload: Overload) -> dict[str, Any]:
    return {"op": lambda x, nan=None, *args: overload.op(x, None, *args)}


@plant("overload-options", "avg_pool2d", "float32", Kind.VALUE)
def padding_always_counts(overload: Overload) -> dict[str, Any]:
    def op(*args: Any, count_include_pad: bool = True, **kwargs: Any) -> Any:
        return overload.op(*args[:5], count_include_pad=True, **kwargs)

    return {"op": op}


@plant("overload-options", "_scaled_mm", "float8_e4m3fn", Kind.VALUE)
def a_bias_is_ignored(overload: Overload) -> dict[str, Any]:
    return {"op": lambda x, y, one, other, bias=None, *rest: overload.op(x, y, one, other, None, *rest)}


@plant("overload-options", "_ctc_loss", "float32", Kind.VALUE)
def another_blank_is_ignored(overload: Overload) -> dict[str, Any]:
    return {"op": lambda *args: overload.op(*args[:4])}
