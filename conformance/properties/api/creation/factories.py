"""Behaviours of factories with fill values, of factories that copy the metadata of another tensor, and of
refused arguments.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from conformance.behaviours.behaviour import ALL, behaviour
from conformance.behaviours.lab import Lab
from conformance.device import memory
from conformance.model.verdicts import Kind

SHAPES = ((), (0,), (5,), (2, 0, 3), (2, 3, 4))


@contextlib.contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """Set the default dtype inside the context."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


#: The number of calls of each factory. A wrong result in any of these calls is detected.
_CALLS = 200


@behaviour(
    "creation",
    must_detect=("value", "dtype", "shape"),
    basis="consistency",
    ground="The same call must give the same result each time",
)
def factories_many_times(lab: Lab) -> None:
    """A factory gives the same result each time that it is called with the same arguments, and different
    results for different arguments. The calls retain no memory.
    """
    where: dict[str, Any] = {"device": lab.device}

    def calls_of_factory(factory: Any, *argument_lists: tuple[Any, ...]) -> list[Callable[[], torch.Tensor]]:
        return [functools.partial(factory, *arguments, **where) for arguments in argument_lists]

    # The calls of a factory differ in one argument, and their results have the same size if possible. This
    # detects a factory that returns the result of an earlier call.
    factory_calls = {
        "tril_indices": calls_of_factory(torch.tril_indices, (91, 92), (92, 92), (92, 93, -1), (92, 93, 2)),
        "triu_indices": calls_of_factory(torch.triu_indices, (92, 91), (91, 91), (91, 92, 1), (91, 92, -2)),
        "kaiser_window": calls_of_factory(
            torch.kaiser_window, (300, True, 9.0), (300, True, 5.0), (300, False, 5.0), (301, False, 5.0)
        ),
        "kaiser_window with default arguments": calls_of_factory(torch.kaiser_window, (300,), (301,)),
        "kaiser_window with a choice": calls_of_factory(
            torch.kaiser_window, (300, True), (300, False), (301, False)
        ),
        "eye": calls_of_factory(torch.eye, (60, 70), (70, 60)),
        "linspace": calls_of_factory(torch.linspace, (0, 1, 300), (1, 0, 300)),
        "arange": calls_of_factory(torch.arange, (0, 300), (1, 301)),
    }
    for name, calls in factory_calls.items():
        with lab.parity("The note on numerical accuracy does not promise bitwise equal windows and ranges"):
            first = [lab.same(f"{name}, {number}", call()) for number, call in enumerate(calls)]
        with _expect_no_memory_growth(lab, name):
            all_equal = all(
                torch.equal(calls[call % len(calls)](), first[call % len(calls)]) for call in range(_CALLS)
            )
        lab.holds(f"{name} returns equal results each time", all_equal, kind=Kind.VALUE)
    with _expect_no_memory_growth(lab, "empty_strided"):
        for _ in range(_CALLS):
            torch.empty_strided((60, 70), (70, 1), **where)


@behaviour("creation", must_detect=("value", "dtype", "shape"))
def large_factories(lab: Lab) -> None:
    """Factories give complete, dense results of the documented dtype, also for more than 65,536 elements."""
    where: dict[str, Any] = {"device": lab.device}
    exact = {
        "tril_indices": torch.tril_indices(300, 301, **where),
        "triu_indices": torch.triu_indices(301, 300, **where),
        "eye": torch.eye(260, 270, **where),
        "arange": torch.arange(70000, **where),
    }
    for name, result in exact.items():
        lab.same(name, result)
    windows = {
        "kaiser_window": torch.kaiser_window(70000, **where),
        "kaiser_window with a choice": torch.kaiser_window(70000, False, **where),
        "kaiser_window with a beta": torch.kaiser_window(70000, True, 9.0, **where),
        "linspace": torch.linspace(-1, 1, 70000, **where),
    }
    for name, window in windows.items():
        lab.close(name, window, roundings=256)
    with lab.parity("No page gives the strides of these results"):
        for name, result in {**exact, **windows}.items():
            lab.same(f"the strides of {name}", lab.strides(result))


@contextlib.contextmanager
def _expect_no_memory_growth(lab: Lab, name: str) -> Iterator[None]:
    """Expect that the device's allocated memory grows by less than one byte per call inside the context."""
    allocated = memory.allocated_bytes_counter(lab.target) if lab.on_target else None
    before = 0 if allocated is None else allocated()
    yield
    with lab.parity("No page says how much memory calls retain"):
        lab.holds(f"{name} keeps no memory", allocated is None or allocated() - before < _CALLS)


@behaviour(
    "creation",
    dtypes=ALL,
    level="bringup",
    must_detect=("value", "dtype", "shape"),
    page="generated/torch.zeros.html",
)
def filled_factories(lab: Lab) -> None:
    """``zeros``, ``ones``, ``full`` and ``empty`` return tensors of the requested shape, dtype and device.
    All except ``empty`` return the requested content.
    """
    where: dict[str, Any] = {"device": lab.device, "dtype": lab.dtype}
    for shape in SHAPES:
        lab.expect(f"zeros {shape}", torch.zeros(shape, **where), torch.zeros(shape))
        lab.expect(f"ones {shape}", torch.ones(shape, **where), torch.ones(shape))
        lab.expect(f"full {shape}", torch.full(shape, 1, **where), torch.ones(shape))
        empty = torch.empty(list(shape), **where)
        lab.same(f"empty {shape}", [empty.shape, empty.dtype, lab.strides(empty), empty.layout])
        lab.expect(f"empty {shape}, zeroed", empty.zero_(), torch.zeros(shape))
    lab.holds("an empty tensor is on the device", empty.device.type == lab.device.type)
    lab.same("a torch.Size", torch.zeros(torch.Size([2, 1]), **where))
    with lab.parity("No page describes torch.scalar_tensor"):
        lab.expect("a scalar tensor", torch.scalar_tensor(1, **where), 1)
    grown = torch.ones(3, requires_grad=lab.dtype.is_floating_point or lab.dtype.is_complex, **where)
    lab.same("whether gradients are required", [grown.requires_grad, grown.is_leaf])


@behaviour("creation", level="core", must_detect=("dtype",), page="generated/torch.set_default_dtype.html")
def fill_value_dtype(lab: Lab) -> None:
    """If ``full``, ``tensor`` or another factory is called without a dtype, the result has the dtype of the
    fill value or the default dtype.
    """
    device = lab.device
    for default in (torch.float32, torch.float64):
        with default_dtype(default):
            for value in (True, 3, 2.5, 1 + 2j):
                lab.same(f"full {value}, {default}", torch.full((2,), value, device=device))
                lab.same(f"tensor {value}, {default}", torch.tensor(value, device=device))
                lab.same(f"tensor [{value}], {default}", torch.tensor([value], device=device))
            lab.same(f"zeros, {default}", torch.zeros(2, device=device))
            lab.same(f"ones, {default}", torch.ones(2, device=device))
            lab.same(f"eye, {default}", torch.eye(2, device=device))
            lab.same(f"linspace, {default}", torch.linspace(0, 4, 5, device=device))
            lab.same(f"arange of integers, {default}", torch.arange(3, device=device))
            lab.same(f"arange of floats, {default}", torch.arange(3.0, device=device))
            lab.same(f"an empty list, {default}", torch.tensor([], device=device))
            lab.same(f"a mixed list, {default}", torch.tensor([True, 2, 3.5], device=device))
            lab.same(f"integers and bools, {default}", torch.tensor([True, 2], device=device))


@behaviour(
    "creation", level="core", must_detect=("value", "error"), capabilities=("storage",), page="notes/out.html"
)
def factories_into_out(lab: Lab) -> None:
    """A factory with ``out=`` writes into the passed tensor and returns this tensor. An empty tensor is
    resized. A ``dtype=`` that differs from the dtype of the passed tensor is refused.
    """
    device = lab.device
    calls = {
        "zeros": lambda out: torch.zeros(2, 3, out=out),
        "ones": lambda out: torch.ones((2, 3), out=out),
        "full": lambda out: torch.full((2, 3), 7.0, out=out),
        "eye": lambda out: torch.eye(2, 3, out=out),
        "arange": lambda out: torch.arange(0.0, 3.0, 0.5, out=out),
        "linspace": lambda out: torch.linspace(0, 5, 6, out=out),
    }
    for name, call in calls.items():
        shape = (6,) if name in ("arange", "linspace") else (2, 3)
        fitting = torch.full(shape, -1.0, device=device)
        address = fitting.data_ptr()
        result = call(fitting)
        lab.same(f"{name} into an out of the result's size", fitting)
        lab.holds(f"{name} returns out", result is fitting)
        with lab.parity("No page says that the address stays the same"):
            lab.holds(f"{name} uses the memory of out", fitting.data_ptr() == address)
        lab.same(f"{name} into an empty out", call(torch.empty(0, device=device)))
    ints = torch.empty((2, 3), dtype=torch.int64, device=device)
    with lab.parity("No page says that the dtype of out replaces the default dtype"):
        lab.same("zeros into integers", torch.zeros((2, 3), out=ints))
    lab.raises("zeros with two dtypes", lambda: torch.zeros((2, 3), out=ints, dtype=torch.float32))
    lab.raises("full with two dtypes", lambda: torch.full((2, 3), 1.0, dtype=torch.float32, out=ints))
    with lab.parity("No page says that a sparse layout is refused"):
        lab.raises(
            "full of another layout", lambda: torch.full((2,), 1.0, layout=torch.sparse_coo, device=device)
        )


@behaviour(
    "creation",
    dtypes=ALL,
    level="core",
    must_detect=("value", "dtype"),
    capabilities=("strides",),
    page="generated/torch.empty_like.html",
)
def like_factories(lab: Lab) -> None:
    """The ``_like`` factories copy shape, dtype, device and dense strides from their input. Explicit
    arguments override these properties.
    """
    inputs = {
        "contiguous": lab.integers(2, 3, 4),
        "permuted": lab.integers(2, 3, 4).permute(2, 0, 1),
        "channels last": lab.integers(2, 3, 2, 2).to(memory_format=torch.channels_last),
        "empty": lab.integers(2, 0),
        "scalar": lab.integers(),
    }
    for name, source in inputs.items():
        lab.same(f"zeros like {name}", torch.zeros_like(source), strides=True)
        lab.same(f"ones like {name}", torch.ones_like(source), strides=True)
        lab.same(f"full like {name}", torch.full_like(source, 1), strides=True)
        empty = torch.empty_like(source)
        lab.same(f"empty like {name}", [empty.shape, lab.strides(empty), empty.dtype])
        packed = torch.zeros_like(source, memory_format=torch.contiguous_format)
        lab.same(f"contiguous like {name}", packed, strides=True)
    source = inputs["permuted"]
    lab.same("another dtype", torch.ones_like(source, dtype=torch.float64), strides=True)
    lab.same("full of another dtype", torch.full_like(source, 2, dtype=torch.int32))
    lab.expect("on the host", torch.zeros_like(source, device="cpu").device.type, "cpu")
    lab.apart("an input and the result of zeros_like", source, torch.zeros_like(source))
    grown = torch.ones_like(source, dtype=torch.float32, requires_grad=True)
    lab.same("whether gradients are required", [grown.requires_grad, torch.ones_like(grown).requires_grad])


@behaviour(
    "creation",
    dtypes=ALL,
    level="core",
    must_detect=("value", "dtype"),
    capabilities=("storage", "strides"),
    page="generated/torch.Tensor.new_tensor.html",
)
def new_factories(lab: Lab) -> None:
    """The ``new_`` methods copy dtype and device from their tensor. Explicit arguments override both."""
    base = lab.integers(2, 2)
    lab.same("new_zeros", base.new_zeros(2, 3))
    lab.same("new_ones", base.new_ones((3,)))
    lab.same("new_full", base.new_full((2, 1), 1))
    lab.same("new_tensor", base.new_tensor([[0, 1], [1, 1]]))
    lab.same("new_tensor of nothing", base.new_tensor([]))
    lab.same("new_empty", [base.new_empty(2, 3).shape, base.new_empty(2, 3).dtype])
    strided = base.new_empty_strided((2, 3), (1, 2))
    lab.same("new_empty_strided", [strided.shape, lab.strides(strided), strided.dtype])
    with lab.parity("No page says how many bytes the storage has"):
        lab.same("bytes of new_empty_strided", strided.untyped_storage().nbytes())
    lab.same("another dtype", base.new_ones(2, dtype=torch.int16))
    lab.expect("on the host", base.new_zeros(2, device="cpu").device.type, "cpu")
    for name in ("new_zeros", "new_ones", "new_empty"):
        grown = getattr(base, name)((2,), dtype=torch.float32, requires_grad=True)
        lab.same(f"{name} that requires gradients", [grown.requires_grad, grown.is_leaf])
    lab.same(
        "new_full that requires gradients", base.new_full((2,), 1.0, dtype=torch.float64, requires_grad=True)
    )
    source = lab.integers(3)
    copied = lab.silent("new_tensor of a list", lambda: base.new_tensor([1, 0]))
    lab.same("its values", copied)
    lab.apart("a tensor and its new_tensor", source, source.new_tensor(source.tolist()))


@behaviour("creation", dtypes=ALL, must_detect=("value", "error"), page="generated/torch.eye.html")
def identity_matrices(lab: Lab) -> None:
    """``eye`` has ones on its diagonal for any numbers of rows and columns, including zero. Negative numbers
    are refused.
    """
    where: dict[str, Any] = {"device": lab.device, "dtype": lab.dtype}
    for rows, columns in ((0, 0), (0, 3), (1, 1), (3, 3), (2, 5), (5, 2)):
        expected = [[int(row == column) for column in range(columns)] for row in range(rows)]
        matrix = torch.tensor(expected).reshape(rows, columns)
        lab.expect(f"eye {rows} by {columns}", torch.eye(rows, columns, **where), matrix)
    lab.same("eye with equal numbers of rows and columns", torch.eye(4, **where))
    out = torch.empty(0, **where)
    lab.same("eye into out", torch.eye(2, out=out))
    with lab.parity("No page says that negative numbers are refused"):
        lab.raises("eye(-1)", lambda: torch.eye(-1, **where), match="n must be greater or equal to 0")
        lab.raises("eye(2, -1)", lambda: torch.eye(2, -1, **where), match="m must be greater or equal to 0")


@behaviour(
    "creation",
    must_detect=("error",),
    capabilities=("storage", "strides"),
    page="generated/torch.empty_strided.html",
    ground="sizes and strides are on the page; most refusals and the size of the storage are not",
)
def strided_factories(lab: Lab) -> None:
    """``empty_strided`` and ``new_empty_strided`` return a tensor with the requested strides and the memory
    that these strides need. Invalid sizes and strides are refused.
    """
    device = lab.device
    for size, stride in (
        ((2, 3), (1, 2)),
        ((2, 3), (3, 1)),
        ((2, 3), (4, 1)),
        ((2, 2), (0, 1)),
        ((0, 2), (2, 1)),
        ((), ()),
    ):
        for tensor in (
            torch.empty_strided(size, stride, device=device),
            torch.empty(0, device=device).new_empty_strided(size, stride),
        ):
            lab.same(f"{size} by {stride}", [tensor.shape, lab.strides(tensor)])
            with lab.parity("No page says how many bytes the storage has"):
                lab.same(f"bytes of {size} by {stride}", tensor.untyped_storage().nbytes())
            lab.same(f"{size} by {stride} is contiguous", tensor.is_contiguous())
    for bad_size, bad_stride in (((1,), (1, 2)), ((2, 3), (1,)), ((2, 3), ())):
        with lab.parity("No page says that sizes and strides of different lengths are refused"):
            lab.raises(
                f"empty_strided({bad_size}, {bad_stride})",
                lambda: torch.empty_strided(bad_size, bad_stride, device=device),
                match="must match|mismatch in length",
            )
            lab.raises(
                f"new_empty_strided({bad_size}, {bad_stride})",
                lambda: torch.empty(0, device=device).new_empty_strided(bad_size, bad_stride),
                match="must match|mismatch in length",
            )
    with lab.parity("No page says that negative sizes are refused"):
        lab.raises("a negative size", lambda: torch.empty((2, -1), device=device), match="negative dimension")
        lab.raises(
            "zeros of a negative size",
            lambda: torch.zeros(-3, device=device),
            match="negative dimension|non-negative",
        )
    lab.raises(
        "as_strided with a negative stride",
        lambda: torch.ones(2, device=device).as_strided((2,), (-1,)),
        type_is_documented=True,
    )
    huge = [2, 4, 2**29, 2**29]
    with lab.parity("No page says which error an impossible size raises"):
        lab.raises(
            "an empty tensor larger than the address space",
            lambda: torch.empty(huge, device=device),
            match="(?i)overflow",
        )
    with lab.parity("No page says which error impossible strides raise"):
        lab.raises(
            "strides that leave the address space",
            lambda: torch.empty_strided((2, 2), (2**62, 1), dtype=torch.float64, device=device),
        )


@behaviour(
    "creation",
    must_detect=("error", "message"),
    basis="parity",
    ground="No page says that arguments of wrong types are refused, or with which error",
)
def factories_refuse_nonsense(lab: Lab) -> None:
    """Factories raise a TypeError for arguments of wrong types. For an unknown device they raise an error
    that names the device.
    """
    device = lab.device
    lab.raises("zeros('a')", lambda: torch.zeros("a", device=device), TypeError)  # type: ignore[arg-type]
    lab.raises("full without a value", lambda: torch.full((2,), device=device), TypeError)  # type: ignore[call-overload]
    lab.raises("ones with a float as the size", lambda: torch.ones(2.5, device=device), TypeError)  # type: ignore[call-overload]
    lab.raises("a dtype by name", lambda: torch.zeros(2, dtype="float32", device=device), TypeError)  # type: ignore[call-overload]
    lab.raises("an unknown device", lambda: torch.zeros(2, device="nosuch"), match="nosuch")
    lab.raises("a negative index", lambda: torch.device(lab.device.type, -2))
    lab.raises("eye of a tensor", lambda: torch.eye(lab.integers(2)), TypeError)  # type: ignore[call-overload]
    lab.raises(
        "a ragged list",
        lambda: torch.tensor([[1, 2], [3]], device=device),
        ValueError,
        match="expected sequence",
    )
    lab.raises("a string", lambda: torch.tensor("text", device=device), TypeError)
    lab.raises("a list with None", lambda: torch.tensor([1, None], device=device), TypeError, RuntimeError)


@behaviour("creation", level="core", must_detect=("shape",), page="tensor_attributes.html")
def default_device_context(lab: Lab) -> None:
    """Under ``torch.device`` as a context, or after ``set_default_device``, factories create their tensors on
    that device. The argument ``device=`` and an inner context take precedence.
    """
    device = lab.device

    def all_on_device_type(*tensors: torch.Tensor) -> bool:
        return all(tensor.device.type == device.type for tensor in tensors)

    with torch.device(device):
        created = (
            torch.zeros(2),
            torch.tensor([1, 2]),
            torch.arange(3),
            torch.rand(2),
            torch.eye(2),
            torch.as_tensor([1.0]),
            torch.full((1,), 2),
            torch.randperm(3),
            torch.linspace(0, 1, 3),
            torch.nn.Linear(2, 2).weight.detach(),
            torch.empty(2),
        )
        lab.holds("factories follow torch.device", all_on_device_type(*created))
        lab.same("the default device", torch.get_default_device().type == device.type)
        lab.same("device= takes precedence", torch.zeros(2, device="cpu"), host=True)
        with torch.device("meta"):
            lab.expect("the inner context takes precedence", torch.zeros(2).device.type, "meta")
        lab.holds("the outer context is restored", all_on_device_type(torch.ones(1)))
        lab.same(
            "values of the created tensors",
            [created[0], created[1], created[2], created[4], created[5], created[6], created[8]],
        )
    lab.expect("outside", torch.zeros(1).device.type, "cpu")
    torch.set_default_device(device)
    try:
        lab.holds(
            "factories follow set_default_device", all_on_device_type(torch.zeros(2), torch.tensor(3.0))
        )
        lab.holds(
            "a context takes precedence over the default", torch.device("cpu") == _device_inside_cpu_context()
        )
    finally:
        torch.set_default_device(None)
    lab.expect("afterwards", torch.zeros(1).device.type, "cpu")


def _device_inside_cpu_context() -> torch.device:
    """Return the device of a tensor that is created inside the context ``torch.device("cpu")``."""
    with torch.device("cpu"):
        return torch.zeros(1).device
