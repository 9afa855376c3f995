"""Legacy tensor types such as ``torch.hpu.FloatTensor``."""

from __future__ import annotations

from typing import Any

from habana_frameworks.torch.internal.device_type import DEVICE_TYPE

import torch


class _TypedTensor(type):
    """Metaclass of the legacy tensor types: calling a type returns a `torch.Tensor` of its dtype on hpu.

    ``isinstance(tensor, type)`` checks dtype, device and layout of the tensor.
    """

    dtype: torch.dtype

    def __call__(cls, *args: Any, dtype: torch.dtype | None = None, device: Any = None) -> torch.Tensor:
        if dtype not in (None, cls.dtype):
            raise RuntimeError(
                f"torch.{DEVICE_TYPE}.{cls.__name__} has the dtype {cls.dtype} and got dtype={dtype}. "
                "Omit dtype."
            )
        if device is not None and torch.device(device).type != DEVICE_TYPE:
            raise RuntimeError(
                f"torch.{DEVICE_TYPE}.{cls.__name__} is on {DEVICE_TYPE} and got device={device}. "
                "Omit device."
            )
        if len(args) == 1 and isinstance(args[0], torch.Tensor):
            return cls._alias(args[0])
        if not args:
            return torch.empty(0, dtype=cls.dtype, device=DEVICE_TYPE)
        if all(isinstance(argument, int) for argument in args):
            return torch.empty(args, dtype=cls.dtype, device=DEVICE_TYPE)
        if len(args) == 1 and isinstance(args[0], torch.Size):
            return torch.empty(args[0], dtype=cls.dtype, device=DEVICE_TYPE)
        if len(args) == 1:
            return torch.tensor(args[0], dtype=cls.dtype, device=DEVICE_TYPE)
        raise TypeError(
            f"torch.{DEVICE_TYPE}.{cls.__name__} accepts sizes, one sequence or one tensor, but got "
            f"{len(args)} other arguments"
        )

    def _alias(cls, tensor: torch.Tensor) -> torch.Tensor:
        if not cls.__instancecheck__(tensor):
            raise RuntimeError(
                f"torch.{DEVICE_TYPE}.{cls.__name__} got a tensor of {tensor.dtype} on {tensor.device}. "
                f"Convert it with tensor.to('{DEVICE_TYPE}', {cls.dtype})."
            )
        return tensor.detach()

    def __instancecheck__(cls, instance: Any) -> bool:
        return (
            isinstance(instance, torch.Tensor)
            and instance.device.type == DEVICE_TYPE
            and instance.dtype == cls.dtype
            and instance.layout == torch.strided
        )


def _make_tensor_type(name: str, dtype: torch.dtype) -> _TypedTensor:
    return _TypedTensor(
        name,
        (),
        {
            "dtype": dtype,
            "__doc__": f"Tensors of {dtype} on {DEVICE_TYPE}.",
            "__module__": f"torch.{DEVICE_TYPE}",
        },
    )


BFloat16Tensor = _make_tensor_type("BFloat16Tensor", torch.bfloat16)
BoolTensor = _make_tensor_type("BoolTensor", torch.bool)
ByteTensor = _make_tensor_type("ByteTensor", torch.uint8)
CharTensor = _make_tensor_type("CharTensor", torch.int8)
DoubleTensor = _make_tensor_type("DoubleTensor", torch.float64)
FloatTensor = _make_tensor_type("FloatTensor", torch.float32)
HalfTensor = _make_tensor_type("HalfTensor", torch.float16)
IntTensor = _make_tensor_type("IntTensor", torch.int32)
LongTensor = _make_tensor_type("LongTensor", torch.int64)
ShortTensor = _make_tensor_type("ShortTensor", torch.int16)
