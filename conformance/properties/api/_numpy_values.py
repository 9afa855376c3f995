"""Convert tensors of the device to NumPy arrays and back, for expected values that NumPy computes on the
host.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import torch

from conformance.behaviours.lab import Lab, lab_work
from conformance.framework.compare import to_host_tensor

#: The annotation of NumPy arrays. It is ``Any``, because the arrays have several dtypes.
Array = Any


def to_widest_numpy_array(tensor: torch.Tensor) -> Array:
    """Return the elements of a tensor as an array of bool, int64, float64 or complex128, in the tensor's
    shape.
    """
    with lab_work():
        host = to_host_tensor(tensor).clone()
        if host.is_complex():
            return host.to(torch.complex128).numpy()
        if host.is_floating_point():
            return host.to(torch.float64).numpy()
        return host.numpy() if host.dtype == torch.bool else host.to(torch.int64).numpy()


def tensor_from_array(
    lab: Lab, array: Any, dtype: torch.dtype | None = None, *, requires_grad: bool = False
) -> torch.Tensor:
    """Return a tensor on the device with the values of an array, of dtype ``dtype`` or the Lab's dtype."""
    with lab_work():
        host = torch.from_numpy(numpy.ascontiguousarray(array).copy()).reshape(numpy.shape(array))
    return lab.put(host, dtype=dtype or lab.dtype, requires_grad=requires_grad)


def expect_error_for_two_devices(
    lab: Lab, name: str, call: Callable[[], Any], *types: type[BaseException], match: str | None = None
) -> None:
    """Expect an error from a call that mixes tensors of the device with tensors of the CPU.

    When the behaviour runs on the CPU, all tensors are on the CPU. The call is then skipped, and the
    observation is recorded as true.
    """
    if lab.device.type == "cpu":
        lab.holds(f"{name} raises", True)
    else:
        lab.raises(name, call, *(types or (RuntimeError,)), match=match)
