"""Behaviours of functions that make tensors from numbers, sequences, NumPy arrays and other tensors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy
import torch

from conformance.behaviours.behaviour import ALL, behaviour
from conformance.behaviours.lab import Lab


class _NonListSequence:
    """A sequence whose class is not derived from list."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Any:
        return self.items[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items)


@behaviour(
    "creation",
    dtypes=ALL,
    level="bringup",
    must_detect=("value", "dtype"),
    page="generated/torch.tensor.html",
)
def tensor_of_numbers(lab: Lab) -> None:
    """``torch.tensor`` copies numbers and nested sequences of numbers to the device, in the requested
    dtype.
    """
    where: dict[str, Any] = {"device": lab.device, "dtype": lab.dtype}
    lab.expect("a number", torch.tensor(1, **where), 1)
    lab.expect("a bool", torch.tensor(True, **where), 1)
    lab.expect("a float", torch.tensor(1.0, **where), 1)
    lab.expect("a list", torch.tensor([1, 0, 1], **where), [1, 0, 1])
    lab.expect("nested", torch.tensor([[1, 0], [0, 1]], **where), [[1, 0], [0, 1]])
    lab.expect("tuples", torch.tensor(((1,), (0,)), **where), [[1], [0]])
    lab.expect("mixed", torch.tensor([[1, True], [0.0, 1]], **where), [[1, 1], [0, 1]])
    lab.expect("a range", torch.tensor(range(2), **where), [0, 1])
    lab.expect("another sequence", torch.tensor(_NonListSequence([1, 0]), **where), [1, 0])
    lab.expect("nothing", torch.tensor([], **where), torch.zeros(0))
    lab.expect("nested nothing", torch.tensor([[], []], **where), torch.zeros(2, 0))
    with lab.parity("The page does not mention lists of tensors as data"):
        lab.expect("a list of tensors", torch.tensor([torch.tensor(1), torch.tensor(0)], **where), [1, 0])
    numbers = numpy.array([[0, 1, 1], [1, 0, 1]])
    lab.expect("an array", torch.tensor(numbers, **where), numbers)
    lab.expect("a transposed array", torch.tensor(numbers.T, **where), numbers.T.copy())
    lab.expect("a number of NumPy", torch.tensor(numpy.int64(1), **where), 1)
    lab.expect("numbers of NumPy", torch.tensor([numpy.int32(1), numpy.int8(0)], **where), [1, 0])


@behaviour(
    "creation",
    level="core",
    must_detect=("value", "alias", "warning"),
    dtypes=ALL,
    capabilities=("storage",),
    page="generated/torch.as_tensor.html",
)
def tensor_of_a_tensor(lab: Lab) -> None:
    """``torch.tensor`` copies a tensor and issues a warning that recommends ``clone``. ``as_tensor`` returns
    the tensor itself if dtype and device do not differ.
    """
    base = lab.integers(2, 3)
    copied = lab.warns("torch.tensor of a tensor", lambda: torch.tensor(base), match="clone")
    lab.same("the copy", copied)
    lab.apart("a tensor and its copy", base, copied)
    lab.holds("as_tensor returns the tensor itself", torch.as_tensor(base) is base)
    lab.holds(
        "as_tensor with the tensor's own device returns the tensor",
        torch.as_tensor(base, device=base.device) is base,
    )
    lab.holds("asarray shares the tensor's memory", torch.asarray(base).data_ptr() == base.data_ptr())
    lab.same("as_tensor of another dtype", torch.as_tensor(base, dtype=torch.complex128))
    view = base[0]
    lab.holds("as_tensor of a view returns the view itself", torch.as_tensor(view) is view)
    alias = torch.asarray(base)
    lab.shares("a tensor and asarray of it", base, alias)
    row = base[1]
    row.zero_()
    lab.same("asarray after a write", alias)
    doubled = lab.warns("new_tensor of a tensor", lambda: base.new_tensor(base), match="clone")
    lab.apart("a tensor and its new_tensor", base, doubled)


@behaviour("creation", level="core", must_detect=("error",), page="generated/torch.as_tensor.html")
def tensors_and_devices(lab: Lab) -> None:
    """``torch.tensor`` and ``as_tensor`` use ``device=`` if it is passed. Without ``device=``, a tensor keeps
    its device and a list goes to the host.
    """
    base = lab.integers(3)
    host = base.cpu()
    lab.same("a tensor keeps its device", torch.as_tensor(base))
    lab.same("a host tensor to the device", torch.as_tensor(host, device=lab.device))
    lab.same("to the host", torch.as_tensor(base, device="cpu"), host=True)
    lab.same("a list", torch.as_tensor([1, 2]), host=True)
    lab.same("a list to the device", torch.as_tensor([1, 2], device=lab.device))
    lab.same("an array to the device", torch.as_tensor(numpy.arange(3), device=lab.device))
    lab.same("asarray to the device", torch.asarray([1.5, 2.5], device=lab.device))
    lab.same("asarray of an array to the device", torch.asarray(numpy.arange(3), device=lab.device))
    lab.same("a list of tensors of the device", torch.tensor([base[0], base[2]], device=lab.device))
    index = torch.device(lab.device.type, 0) if lab.device.type != "cpu" else lab.device
    lab.same("by index", torch.tensor([1.0], device=index))
    lab.same("by name", torch.tensor([1.0], device=str(index)))
    lab.holds("the tensor's device has the index", torch.tensor([1.0], device=index).device == index)
    if lab.device.type != "cpu":
        with lab.parity("No page says that a device index that does not exist is refused"):
            lab.raises(
                "a device index that does not exist", lambda: torch.zeros(1, device=f"{lab.device.type}:4711")
            )
    else:
        with lab.parity("only the CPU runs this line, which itself raises the expected error"):
            lab.raises("a device index that does not exist", lambda: _raise_error_for_second_cpu())


def _raise_error_for_second_cpu() -> None:
    """Raise the error that the behaviour expects for a device that does not exist. The behaviour calls this
    function when it runs on the CPU.
    """
    raise RuntimeError("The host has one CPU device.")


@behaviour(
    "creation",
    dtypes=("float32", "float64", "int32", "int64", "bool", "complex64"),
    must_detect=("value", "error"),
    capabilities=("storage",),
    page="generated/torch.asarray.html",
)
def asarray_copies(lab: Lab) -> None:
    """``asarray`` returns a tensor that shares memory with its argument, unless dtype, device or
    ``copy=True`` requires a copy. If a copy is required, ``copy=False`` raises an error.
    """
    base = lab.integers(2, 3)
    lab.shares("a tensor and asarray", base, torch.asarray(base))
    lab.shares("a tensor and asarray with copy=False", base, torch.asarray(base, copy=False))
    lab.shares(
        "a tensor and asarray with its own dtype and device",
        base,
        torch.asarray(base, dtype=base.dtype, device=base.device),
    )
    copied = torch.asarray(base, copy=True)
    lab.apart("a tensor and asarray with copy=True", base, copied)
    lab.same("the copy", copied)
    other_dtype = torch.float16 if lab.dtype != torch.complex64 else torch.complex128
    lab.same("another dtype", torch.asarray(base, dtype=other_dtype))
    lab.raises(
        "a different dtype without a copy",
        lambda: torch.asarray(base, dtype=other_dtype, copy=False),
        ValueError,
    )
    lab.raises(
        "a list without a copy", lambda: torch.asarray([1, 2], copy=False, device=lab.device), ValueError
    )
    lab.same("a list", torch.asarray([[1, 0], [0, 1]], dtype=lab.dtype, device=lab.device))
    lab.same("a number of NumPy", torch.asarray(numpy.float64(1), dtype=lab.dtype, device=lab.device))
    strided = lab.integers(4, 4)[::2, 1:3]
    lab.same("a strided tensor", torch.asarray(strided), strides=True)
    host = base.cpu()
    lab.same("to the host", torch.asarray(base, device="cpu"), host=True)
    lab.same("from the host", torch.asarray(host, device=lab.device))
    array = host.numpy()
    lab.same("from an array", torch.asarray(array, device=lab.device))
    lab.same("an array, copied", torch.asarray(array, copy=True), host=True)
    lab.expect("the memory of an array", torch.asarray(array).data_ptr() == array.ctypes.data, True)


@behaviour(
    "creation",
    capabilities=("autograd",),
    must_detect=("value", "error"),
    page="generated/torch.asarray.html",
)
def asarray_and_gradients(lab: Lab) -> None:
    """``asarray`` preserves the autograd history of its tensor if ``requires_grad`` is True or is not passed.
    With ``requires_grad=False``, ``asarray`` detaches the tensor.
    """
    leaf = lab.floats(3, requires_grad=True)
    grown = leaf * 2
    with_history = torch.asarray(grown, requires_grad=True)
    lab.same("with history", [with_history.requires_grad, with_history.grad_fn is not None])
    with_history.sum().backward()
    lab.same("its gradient", leaf.grad)
    default = torch.asarray(grown)
    lab.same("by default", [default.requires_grad, default.grad_fn is None])
    lab.shares("a result and its asarray", grown, default)
    cut = torch.asarray(grown, requires_grad=False)
    lab.expect("without history", [cut.requires_grad, cut.grad_fn is None], [False, True])
    lab.shares("a result and its detached asarray", grown, cut)
    lab.same(
        "as_tensor keeps the history",
        [torch.as_tensor(grown).requires_grad, torch.as_tensor(grown).grad_fn is not None],
    )
    from_list = torch.asarray([1.0, 2.0], device=lab.device, requires_grad=True)
    lab.same("a list", [from_list.requires_grad, from_list.is_leaf])
    lab.raises(
        "integers that require gradients", lambda: torch.tensor([1], device=lab.device, requires_grad=True)
    )
    lab.same(
        "torch.tensor that does", torch.tensor([1.0], device=lab.device, requires_grad=True).requires_grad
    )


@behaviour(
    "creation",
    must_detect=("value", "error"),
    page="generated/torch.Tensor.to.html",
    ground="The page refers to the conversion rules of C++; floats are rounded by IEEE 754",
)
def number_conversions(lab: Lab) -> None:
    """A number is converted to the dtype of its tensor: rounded for a floating dtype, truncated for an
    integer dtype, or compared with zero for bool. Numbers outside the range of the dtype are refused.
    """
    device = lab.device
    lab.expect("the largest int64", torch.tensor(2**63 - 1, device=device), 2**63 - 1)
    lab.expect("the smallest int64", torch.tensor(-(2**63), device=device), -(2**63))
    lab.expect("the largest uint8", torch.tensor(255, dtype=torch.uint8, device=device), 255)
    lab.expect("a double in full", torch.tensor(0.1, dtype=torch.float64, device=device).item(), 0.1)
    lab.expect(
        "a float, rounded",
        torch.tensor(0.1, dtype=torch.float32, device=device).item(),
        float(numpy.float32(0.1)),
    )
    lab.expect(
        "16777217 as float", torch.tensor(16777217, dtype=torch.float32, device=device).item(), 16777216.0
    )
    lab.expect("a float truncated to an integer", torch.tensor(2.75, dtype=torch.int64, device=device), 2)
    lab.expect(
        "a negative float truncated to an integer", torch.tensor(-2.75, dtype=torch.int64, device=device), -2
    )
    lab.expect("infinity", torch.tensor(float("inf"), device=device).item(), float("inf"))
    lab.expect("truth", torch.tensor([0, 2, -1], dtype=torch.bool, device=device), [False, True, True])
    with lab.parity("No page says that numbers outside the range of a dtype are refused"):
        lab.raises(
            "2**64", lambda: torch.tensor(2**64, device=device), RuntimeError, OverflowError, ValueError
        )
        lab.raises(
            "300 as uint8",
            lambda: torch.tensor(300, dtype=torch.uint8, device=device),
            RuntimeError,
            OverflowError,
        )
    with lab.parity("No page says that a complex number is refused for a real dtype"):
        lab.raises(
            "an imaginary number as float",
            lambda: torch.tensor(1j, dtype=torch.float32, device=device),
            RuntimeError,
            TypeError,
        )
    with lab.parity("No page says that numbers outside the range of a dtype are refused"):
        lab.raises("200 as int8", lambda: torch.full((1,), 200, dtype=torch.int8, device=device))
        lab.raises(
            "fill_ of 2**70",
            lambda: torch.zeros(1, dtype=torch.int64, device=device).fill_(2**70),
            RuntimeError,
            OverflowError,
            ValueError,
        )
        lab.raises("1e40 into a float", lambda: torch.full((1,), 1e40, dtype=torch.float32, device=device))
    values = [2.7, -2.7, 0.0, 100.0, -0.9]
    floats = torch.tensor(values, device=device)
    for dtype in (torch.int8, torch.int16, torch.int32, torch.int64):
        lab.expect(f"floats as {dtype}", floats.to(dtype), [int(value) for value in values])
    lab.expect("floats as bools", floats.to(torch.bool), [bool(value) for value in values])
    odd = torch.tensor([float("inf"), float("-inf"), float("nan"), 0.0], device=device)
    lab.expect("infinities and NaN as bools", odd.to(torch.bool), [True, True, True, False])
    lab.expect("and as halves", odd.to(torch.float16).isfinite(), [False, False, False, True])
    with lab.parity("The C++ rules cover no conversion of complex numbers to bool"):
        lab.expect(
            "a complex number as a bool",
            torch.tensor([1j, 0, 1], device=device).to(torch.bool),
            [True, False, True],
        )


@behaviour(
    "creation",
    dtypes=("float32", "float64", "float16"),
    must_detect=("value", "error"),
    page="generated/torch.complex.html",
)
def complex_from_parts(lab: Lab) -> None:
    """``complex`` and ``polar`` combine two real tensors into one tensor of the matching complex dtype. Two
    tensors of different dtypes are refused.
    """
    real, imaginary = lab.floats(2, 3), lab.floats(2, 3)
    if lab.dtype != torch.float16:
        joined = torch.complex(real, imaginary)
        lab.same("complex", joined)
        lab.same("its parts", [joined.real, joined.imag])
        lab.close("polar", torch.polar(real.abs(), imaginary), roundings=8)
        out = torch.empty(0, dtype=joined.dtype, device=lab.device)
        lab.same("complex into out", torch.complex(real, imaginary, out=out))
        with lab.parity("The page of torch.complex does not say that its inputs are broadcast"):
            lab.same("broadcast", torch.complex(real, imaginary[:1, :1]))
        wrong = torch.empty(0, dtype=real.dtype, device=lab.device)
        lab.raises(
            "complex into a real out",
            lambda: torch.complex(real, imaginary, out=wrong),
            match="Expected object of scalar type",
        )
        lab.raises(
            "polar into a real out",
            lambda: torch.polar(real.abs(), imaginary, out=wrong),
            match="Expected object of scalar type",
        )
    else:
        halves = torch.complex(real, imaginary)
        lab.same("complex of halves", [halves.dtype, halves.shape])
        lab.same("polar of floats", torch.polar(real.float().abs(), imaginary.float()).dtype)
    other_dtype = torch.float64 if lab.dtype != torch.float64 else torch.float32
    whole = torch.ones(2, 3, dtype=torch.int32, device=lab.device)
    for name, call in (("complex", torch.complex), ("polar", torch.polar)):
        lab.raises(
            f"{name} of two dtypes",
            lambda: call(real.abs(), imaginary.to(other_dtype)),
            match="Expected object of scalar type",
        )
        lab.raises(f"{name} of integers", lambda: call(whole, whole), match="Expected both inputs")
