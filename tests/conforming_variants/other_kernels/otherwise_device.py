"""A conforming variant of the reference device: its kernels return different, correct results.

* Sums and matrix products add in the opposite order.

* In a conversion to an integer dtype, a value out of range saturates, and a NaN becomes the largest integer.
  The documentation of ``torch.Tensor.to`` leaves both results undefined.

* Normalisations of 16-bit inputs return statistics in float32, as on CUDA.

* NaNs have a sign bit and a payload.

* ``topk`` and sorting that is not stable put the last of equal keys first. If several values are most
  frequent, ``mode`` returns the largest.

* If OTHERWISE_FLUSHES is set, subnormal results of arithmetic become zeros, as the target
  flush_subnormals.toml declares.

The suite must pass on this device: every failure is a false alarm.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import habana_frameworks.torch  # noqa: F401  registers the device
import torch

_LIBRARY = torch.library.Library("aten", "IMPL")
_NAN = -0x3EDCBB  # the bits of a float32 NaN, quiet, with sign and payload


def _register_as_kernel(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that replaces the device's kernel ``name`` by a function. The function receives the
    replaced kernel as its first argument.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        before = torch.library.get_kernel(f"aten::{name}", "HPU")
        keys = torch._C.DispatchKeySet(torch._C.DispatchKey.HPU)

        def call_variant(*args: Any, **kwargs: Any) -> Any:
            return function(lambda *a, **k: before.call_boxed(keys, *a, **k), *args, **kwargs)

        _LIBRARY.impl(name, call_variant, "HPU", allow_override=True)
        return function

    return register


def _dims_to_reduce(x: torch.Tensor, dim: Sequence[int] | int | None) -> list[int]:
    if x.dim() == 0:
        return []
    if dim is None or (not isinstance(dim, int) and not len(dim)):
        return list(range(x.dim()))
    return [dim] if isinstance(dim, int) else list(dim)


def _is_unsupported_by_flip(x: torch.Tensor) -> bool:
    """Return whether ``Tensor.flip`` on the CPU does not support the tensor's dtype."""
    unsigned = (torch.uint16, torch.uint32, torch.uint64)
    return x.dtype in unsigned or (x.is_floating_point() and x.itemsize == 1)


def _to_device(x: torch.Tensor) -> torch.Tensor:
    return x.to("hpu")


@_register_as_kernel("sum.dim_IntList")
def _sum_in_reversed_order(
    before: Any, x: torch.Tensor, dim: Any, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    if _is_unsupported_by_flip(x):
        return before(x, dim, keepdim, dtype=dtype)
    return _to_device(
        torch.sum(x.cpu().flip(_dims_to_reduce(x, dim)), _dims_to_reduce(x, dim), keepdim, dtype=dtype)
    )


@_register_as_kernel("mean.dim")
def _mean_from_reversed_sum(
    before: Any, x: torch.Tensor, dim: Any, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    if _is_unsupported_by_flip(x):
        return before(x, dim, keepdim, dtype=dtype)
    return _to_device(
        torch.mean(x.cpu().flip(_dims_to_reduce(x, dim)), _dims_to_reduce(x, dim), keepdim, dtype=dtype)
    )


@_register_as_kernel("mm")
def _mm(before: Any, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    if (
        a.dim() != 2
        or b.dim() != 2
        or a.device != b.device
        or _is_unsupported_by_flip(a)
        or _is_unsupported_by_flip(b)
    ):
        return before(a, b)
    return _to_device(torch.mm(a.cpu().flip(1), b.cpu().flip(0)))


@_register_as_kernel("bmm")
def _bmm(before: Any, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    if (
        a.dim() != 3
        or b.dim() != 3
        or a.device != b.device
        or _is_unsupported_by_flip(a)
        or _is_unsupported_by_flip(b)
    ):
        return before(a, b)
    return _to_device(torch.bmm(a.cpu().flip(2), b.cpu().flip(1)))


@_register_as_kernel("copy_")
def _copy(before: Any, x: torch.Tensor, source: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    integer = not (x.is_floating_point() or x.is_complex() or x.dtype == torch.bool)
    if (
        not integer
        or _is_unsupported_by_flip(x)
        or not source.is_floating_point()
        or source.device.type == "meta"
    ):
        return before(x, source, non_blocking)
    limits = torch.iinfo(x.dtype)
    numbers = source.detach().cpu().to(torch.float64)
    whole = numbers.nan_to_num(0.0, 0.0, 0.0).clamp(-(2.0**62), 2.0**62).to(x.dtype)
    whole[numbers.trunc() >= float(limits.max)] = limits.max
    whole[numbers.trunc() <= float(limits.min)] = limits.min
    whole[numbers.isnan()] = limits.max
    return before(x, whole, non_blocking)


def _with_tensors_as_float32_on_cpu(values: Sequence[Any]) -> list[Any]:
    return [v.cpu().float() if isinstance(v, torch.Tensor) else v for v in values]


def _is_16_bit(x: torch.Tensor) -> bool:
    return x.dtype in (torch.float16, torch.bfloat16)


@_register_as_kernel("native_layer_norm")
def _layer_norm(before: Any, x: torch.Tensor, *args: Any) -> Any:
    if not _is_16_bit(x):
        return before(x, *args)
    out, mean, rstd = torch.native_layer_norm(*_with_tensors_as_float32_on_cpu([x, *args]))
    return _to_device(out.to(x.dtype)), _to_device(mean), _to_device(rstd)


@_register_as_kernel("native_layer_norm_backward")
def _layer_norm_backward(before: Any, grad: torch.Tensor, x: torch.Tensor, *args: Any) -> Any:
    if not _is_16_bit(x):
        return before(grad, x, *args)
    gradients = torch.ops.aten.native_layer_norm_backward(*_with_tensors_as_float32_on_cpu([grad, x, *args]))
    return tuple(None if value is None else _to_device(value.to(x.dtype)) for value in gradients)


def _has_sortable_keys(x: torch.Tensor, dim: int) -> bool:
    """Return whether dimension ``dim`` exists and is not empty, and ``Tensor.flip`` on the CPU supports the
    dtype.
    """
    return -x.dim() <= dim < x.dim() and x.shape[dim] > 0 and not _is_unsupported_by_flip(x)


def _use_signed_nans(name: str) -> None:
    @_register_as_kernel(name)
    def kernel_with_signed_nans(before: Any, *args: Any, **kwargs: Any) -> Any:
        result = before(*args, **kwargs)
        if result.dtype != torch.float32 or result.device.type != "hpu":
            return result
        host = result.cpu()
        if not bool(host.isnan().any()):
            return result
        host.view(torch.int32)[host.isnan()] = _NAN
        return result.copy_(host)


for _name in ("sqrt", "log", "sin", "cos", "exp", "rsqrt", "asin", "reciprocal"):
    _use_signed_nans(_name)


@_register_as_kernel("sort.stable")
def _sort(
    before: Any, x: torch.Tensor, *, stable: bool | None, dim: int = -1, descending: bool = False
) -> Any:
    if stable or not _has_sortable_keys(x, dim):
        return before(x, stable=stable, dim=dim, descending=descending)
    values, indices = torch.sort(x.cpu().flip(dim), stable=True, dim=dim, descending=descending)
    return _to_device(values), _to_device(x.shape[dim] - 1 - indices)


@_register_as_kernel("topk")
def _topk(
    before: Any, x: torch.Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> Any:
    if not _has_sortable_keys(x, dim) or not 0 <= k <= x.shape[dim]:
        return before(x, k, dim, largest, sorted)
    values, indices = torch.topk(x.cpu().flip(dim), k, dim, largest, sorted)
    return _to_device(values), _to_device(x.shape[dim] - 1 - indices)


@_register_as_kernel("mode")
def _mode(before: Any, x: torch.Tensor, dim: int = -1, keepdim: bool = False) -> Any:
    if not x.is_floating_point() or not _has_sortable_keys(x, dim):
        return before(x, dim, keepdim)
    values, indices = torch.mode(-x.cpu(), dim, keepdim)
    return _to_device(-values), _to_device(indices)


def _flush_subnormal_results(name: str) -> None:
    @_register_as_kernel(name)
    def kernel_with_flushed_results(before: Any, *args: Any, **kwargs: Any) -> Any:
        if not all(isinstance(value, torch.Tensor) for value in args[:2]) and name in _NEUTRAL:
            # An argument can be a Python number, but the replaced kernel accepts only tensors. The result is
            # therefore computed on the CPU. The replaced kernel receives this result as the first operand
            # and, as the second operand, the number that leaves the first operand unchanged.
            host = [value.cpu() if isinstance(value, torch.Tensor) else value for value in args[:2]]
            alpha = {"alpha": kwargs.pop("alpha")} if "alpha" in kwargs else {}
            computed = _to_device(getattr(torch, name.partition(".")[0])(*host, **alpha))
            whole = not (computed.is_floating_point() or computed.is_complex())
            number = int(_NEUTRAL[name]) if whole else _NEUTRAL[name]
            args = (computed, torch.tensor(number, dtype=computed.dtype, device="hpu"))
        result = before(*args, **kwargs)
        if not result.is_floating_point() or _is_unsupported_by_flip(result):
            return result
        host = result.cpu()
        small = (host != 0) & (host.abs() < torch.finfo(host.dtype).tiny)
        return result.masked_fill_(small.to(result.device), 0.0) if bool(small.any()) else result


#: For each operator, the right operand that leaves the left operand unchanged.
_NEUTRAL = {"add.out": -0.0, "sub.out": 0.0, "mul.out": 1.0, "div.out": 1.0}

if os.environ.get("OTHERWISE_FLUSHES"):
    for _name in (*_NEUTRAL, "exp.out", "bmm", "mm", "prod.dim_int"):
        _flush_subnormal_results(_name)
