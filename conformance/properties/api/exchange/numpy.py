"""Behaviours of conversions between NumPy arrays and tensors."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy
import torch

from conformance.behaviours.behaviour import ALL, behaviour
from conformance.behaviours.lab import Lab

#: The dtypes of the suite that both torch and NumPy have.
NUMPY = tuple(name for name in ALL if name != "bfloat16")


@behaviour(
    "exchange",
    dtypes=NUMPY,
    level="bringup",
    must_detect=("value",),
    page="generated/torch.Tensor.numpy.html",
)
def arrays_through_the_host(lab: Lab) -> None:
    """A tensor that is moved to the host, converted to NumPy and moved back keeps its values, dtype and
    shape. The array shares memory with the host tensor.
    """
    base = lab.integers(3, 4) + lab.integers(3, 4)
    array = base.cpu().numpy()
    lab.same("the array", [str(array.dtype), array.shape, array.tolist()])
    lab.same("back on the host", torch.from_numpy(array), host=True)
    lab.same("back on the device", torch.from_numpy(array).to(lab.device))
    for name, part in {
        "transposed": base.t(),
        "strided": base[:, ::2],
        "offset": base[1:],
        "empty": base[:0],
        "scalar": base[1, 1],
    }.items():
        result = part.cpu().numpy()
        lab.same(f"{name}", [result.shape, result.tolist()])
    host = base.cpu()
    shared = host.numpy()
    host.zero_()
    lab.expect("the array after a write to the tensor", bool((shared == 0).all()), True)
    shared[0, 0] = 1
    lab.expect("the tensor after a write to the array", host[0, 0].item() == 1, True)


@behaviour(
    "exchange",
    capabilities=("sparse",),
    level="core",
    must_detect=("error", "message"),
    page="generated/torch.Tensor.numpy.html",
)
def device_arrays_refused(lab: Lab) -> None:
    """If NumPy cannot use a tensor's memory directly, ``numpy()`` raises an error that names the function to
    call first. With ``force=True``, ``numpy()`` copies the values instead, unless NumPy has no such dtype or
    layout.
    """
    base = torch.arange(4.0, device=lab.device)
    turned = torch.tensor([1 + 2j, 3j], device=lab.device).conj()
    graded = torch.ones(2, device=lab.device, requires_grad=True)
    sparse = torch.eye(2, device=lab.device if lab.target.capable("sparse") else "cpu").to_sparse()
    kinds = (RuntimeError, TypeError)
    lab.raises("numpy() of a tensor that requires gradients", graded.numpy, *kinds, match="(?i)detach|cpu")
    lab.raises("numpy() of a conjugate", turned.numpy, *kinds, match="(?i)resolve_conj|cpu")
    lab.raises("numpy() of a sparse tensor", sparse.numpy, *kinds, match="(?i)use tensor")
    lab.raises(
        "numpy(force=True) of a sparse tensor",
        lambda: sparse.numpy(force=True),
        *kinds,
        match="(?i)use tensor",
    )
    lab.expect("force=True", base.numpy(force=True).tolist(), [0.0, 1.0, 2.0, 3.0])
    lab.expect("force=True with gradients", graded.numpy(force=True).tolist(), [1.0, 1.0])
    lab.expect("force=True of a conjugate", turned.numpy(force=True).tolist(), [1 - 2j, -3j])
    is_cpu = lab.device.type == "cpu"
    text = None if is_cpu else _text_of_error(base.numpy)
    lab.holds("numpy() of a device tensor raises an error", is_cpu or text is not None)
    with lab.parity("No page gives the text of the error"):
        lab.holds("the error of numpy() mentions the CPU", is_cpu or "cpu" in (text or "").lower())
    with lab.parity("No page says what numpy.asarray does with a device tensor"):
        text = None if is_cpu else _text_of_error(lambda: numpy.asarray(base))
        lab.holds("the error of numpy.asarray mentions the CPU", is_cpu or "cpu" in (text or "").lower())
    narrow = torch.ones(1, dtype=torch.bfloat16, device=lab.device)
    lab.raises(
        "numpy(force=True) of bfloat16",
        lambda: narrow.numpy(force=True),
        TypeError,
        match="unsupported ScalarType",
    )


def _text_of_error(call: Callable[[], Any]) -> str | None:
    """Return the text of the error that a call raises, or None if the call raises no error."""
    try:
        call()
    except Exception as error:
        return str(error)
    return None


@behaviour(
    "exchange",
    must_detect=("value", "error"),
    capabilities=("strides",),
    page="generated/torch.from_numpy.html",
)
def arrays_of_all_kinds(lab: Lab) -> None:
    """``from_numpy`` and ``as_tensor`` accept arrays of every numeric dtype with positive strides. Both raise
    errors for strings, for negative strides, and for strides that are not multiples of the element size.
    """
    for kind in (
        "float64",
        "float32",
        "float16",
        "complex64",
        "complex128",
        "int64",
        "int32",
        "int16",
        "int8",
        "uint8",
        "bool",
    ):
        array = numpy.array([1, 2, 0, 4], dtype=kind)
        lab.same(f"{kind}", torch.from_numpy(array).to(lab.device) + 0)
        lab.same(f"{kind} by tensor", torch.tensor(array, device=lab.device))
    cube = numpy.arange(125.0).reshape(5, 5, 5)
    for name, part in {
        "offset": cube[1],
        "transposed": cube[0].T,
        "holes": cube[:, 1],
        "reverse order": cube.transpose(2, 1, 0),
    }.items():
        lab.same(name, torch.from_numpy(part).to(lab.device) * 1, strides=False)
    lab.same("no rows", torch.from_numpy(numpy.zeros((0, 2))).to(lab.device))
    lab.same("no columns", torch.from_numpy(numpy.zeros((2, 0))).to(lab.device))
    odd = numpy.lib.stride_tricks.as_strided(numpy.zeros(3), shape=(3,), strides=(3,))
    with lab.parity("No page says that strides that split elements are refused"):
        lab.raises(
            "strides that split elements",
            lambda: torch.from_numpy(odd),
            ValueError,
            match="not a multiple|element",
        )
    lab.raises("strings", lambda: torch.from_numpy(numpy.array(["a", "b"])), TypeError, match="can't convert")
    with lab.parity("No page says that negative strides are refused"):
        lab.raises(
            "negative strides", lambda: torch.from_numpy(numpy.arange(3)[::-1]), ValueError, match="negative"
        )
    lab.raises("a list", lambda: torch.from_numpy([1, 2]), TypeError)
    with lab.parity("No page says that a non-native byte order is refused"):
        lab.raises(
            "an array of a non-native byte order",
            lambda: torch.from_numpy(numpy.arange(3).astype(">i4")),
            ValueError,
            match="byte order",
        )
    with lab.parity("No page says that torch.tensor refuses ragged data"):
        lab.raises(
            "ragged arrays",
            lambda: torch.tensor([numpy.zeros((3, 3)), numpy.zeros((3, 0))], device=lab.device),
            ValueError,
            match="expected sequence of length",
        )
        lab.raises(
            "a list of ragged rows",
            lambda: torch.tensor([[1, 2, 3], numpy.zeros(2)], device=lab.device),
            ValueError,
            match="expected sequence of length",
        )
        lab.raises(
            "an array and a number in one list",
            lambda: torch.tensor([[numpy.zeros(3), 1.0]], device=lab.device),
            TypeError,
            match="not a sequence",
        )


@behaviour(
    "exchange",
    must_detect=("value",),
    page="tensors.html",
    basis="parity",
    ground="No page says that NumPy scalars are accepted wherever Python numbers are accepted",
)
def numpy_scalars(lab: Lab) -> None:
    """NumPy scalars work like Python numbers: in arithmetic and comparisons, and as sizes, dimensions and
    indices.
    """
    base = lab.put([[1.0, 2.0], [3.0, 4.0]])
    for kind in (numpy.float32, numpy.float64, numpy.int32, numpy.int64, numpy.int16, numpy.uint8):
        number = kind(2)
        lab.expect(f"times {kind.__name__}", base * number, [[2.0, 4.0], [6.0, 8.0]])
        lab.same(f"dtype with {kind.__name__}", (base + number).dtype)
        lab.same(f"tensor of {kind.__name__}", torch.tensor(number, device=lab.device))
        lab.expect(f"equal to {kind.__name__}", base == number, [[False, True], [False, False]])
    for kind in (numpy.int64, numpy.int32, numpy.int16, numpy.int8, numpy.uint8):
        scalar = kind(1)
        lab.expect(f"row {kind.__name__}", base[scalar] * 1, [3.0, 4.0])
        lab.same(f"along {kind.__name__}", base.sum(scalar))
        lab.same(f"diagonal {kind.__name__}", base.diag(scalar) + 0)
        lab.same(f"of size {kind.__name__}", torch.zeros(scalar, device=lab.device))
        written = base.clone()
        written[scalar] = kind(9)
        lab.same(f"written at {kind.__name__}", written)
    mask = numpy.array([True, False])
    lab.same("a mask", base[mask])
    lab.same("an index array", base[numpy.array([1, 0, 1])])
    with lab.documented():
        lab.same(
            "index_put_ with an array as index",
            base.clone().index_put_((torch.as_tensor(numpy.array([1])).to(lab.device),), base[:1]),
        )
    with lab.documented():
        lab.expect("item of an element", numpy.float32(base[1, 1].item()) == 4.0, True)
    gradient = torch.ones(2, device=lab.device, requires_grad=True)
    lab.same(
        "with gradients", [(gradient * numpy.float64(2)).requires_grad, (gradient * numpy.int32(3)).dtype]
    )


@behaviour(
    "exchange",
    must_detect=("value", "warning"),
    page="generated/torch.from_numpy.html",
    basis="parity",
    ground="No page says that these conversions warn",
)
def arrays_warn(lab: Lab) -> None:
    """Converting a list of arrays, or a read-only array, to a tensor warns and succeeds."""
    fixed = numpy.arange(3.0)
    fixed.flags.writeable = False
    shared = lab.warns("a read-only array", lambda: torch.from_numpy(fixed), match="(?i)not writ[e]?able")
    with lab.documented():
        lab.same("its values", shared.to(lab.device) + 0)
        lab.same("as_tensor of a copy", torch.tensor(fixed, device=lab.device))
    pair = lab.warns(
        "a list of arrays",
        lambda: torch.tensor([numpy.array([0]), numpy.array([1])], device=lab.device),
        match="extremely slow",
    )
    with lab.documented():
        lab.expect("their values", pair, [[0], [1]])
    lab.same(
        "a list of numbers",
        lab.silent("a list of numbers", lambda: torch.tensor([0.0, 1.0], device=lab.device)),
    )


@behaviour(
    "exchange",
    must_detect=("value",),
    page="generated/torch.asarray.html",
    ground=(
        "tensor.numpy, asarray and frombuffer share memory; no page describes calls of NumPy functions on "
        "tensors"
    ),
)
def numpy_functions_on_host(lab: Lab) -> None:
    """NumPy functions accept tensors that were moved to the host. Conversions from tensor to array and back
    share memory if possible.
    """
    base = lab.put([1.0, -4.0, 9.0]) * 1
    host: Any = base.cpu()
    with lab.parity("No page says that NumPy functions accept tensors"):
        lab.same("asarray", numpy.asarray(host).tolist())
        lab.same("asarray of another dtype", numpy.asarray(host, dtype=numpy.int32).tolist())
        lab.same("abs", torch.as_tensor(numpy.abs(host)).to(lab.device))
        lab.same("a comparison", torch.as_tensor(numpy.greater_equal(host, 1)).to(lab.device))
    with lab.parity("No page says that a tensor can be compared with an array"):
        lab.expect("equal to an array", (host == numpy.array([1.0, -4.0, 9.0])).all().item(), True)
    lab.expect(
        "the difference of a NumPy sum and a tensor",
        (torch.as_tensor(numpy.add(host.numpy(), 1.0)).to(lab.device) - base).tolist(),
        [1.0, 1.0, 1.0],
    )
    resized = host.numpy()
    try:
        host.resize_(10)
        grown = True
    except RuntimeError:
        grown = False
    with lab.parity("No page says that memory that an array shares is not reallocated"):
        lab.holds("memory that an array shares is not reallocated", not grown or resized.shape == (3,))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lab.same(
            "a buffer", torch.frombuffer(bytearray(b"\x01\x02\x03\x04"), dtype=torch.uint8).to(lab.device) + 0
        )
        lab.same(
            "a buffer from an offset",
            torch.frombuffer(bytearray(range(8)), dtype=torch.int16, offset=2, count=2).to(lab.device) + 0,
        )
    buffer = bytearray(range(4))
    shared = torch.asarray(buffer, dtype=torch.uint8)
    buffer[0] = 9
    lab.expect("asarray shares a buffer of the host", shared[0].item() == 9, True)
    copied = torch.asarray(buffer, dtype=torch.uint8, copy=True)
    buffer[0] = 7
    lab.expect("asarray with copy=True does not share the buffer", copied[0].item() == 9, True)
    lab.same(
        "asarray of a buffer to the device", torch.asarray(buffer, dtype=torch.uint8, device=lab.device) + 0
    )
    lab.raises(
        "a buffer of the wrong size", lambda: torch.frombuffer(bytearray(3), dtype=torch.int16), ValueError
    )
    with lab.parity("The page's conditions also hold if no bytes follow the offset"):
        lab.raises(
            "a buffer beyond its end",
            lambda: torch.frombuffer(bytearray(4), dtype=torch.uint8, offset=4),
            ValueError,
        )
    lab.same(
        "true_divide of float16 and an empty tensor",
        torch.true_divide(
            torch.ones((), dtype=torch.float16, device=lab.device),
            torch.as_tensor(numpy.zeros(0), dtype=torch.float16, device=lab.device),
        ),
    )
