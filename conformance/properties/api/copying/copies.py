"""Behaviours of copies within the device, to the host and back, and between dtypes and layouts."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch

from conformance.behaviours.behaviour import ALL, behaviour
from conformance.behaviours.lab import Lab


def _first_declared_dtype(lab: Lab, *names: str) -> torch.dtype:
    """Return the first dtype in ``names`` that the target declares. If the Lab's dtype is complex, only
    complex dtypes are suitable.

    If no dtype is suitable, return the Lab's own dtype.
    """
    fitting = [getattr(torch, name) for name in names if lab.target.declares(name)]
    return next((dtype for dtype in fitting if dtype.is_complex or not lab.dtype.is_complex), lab.dtype)


@behaviour("copying", dtypes=ALL, level="bringup", must_detect=("value", "dtype"))
def to_device_and_back(lab: Lab) -> None:
    """``to`` and ``cpu`` move values to the device and back unchanged, also if the device is passed by its
    name. If the tensor is already on the requested device, ``to`` returns the tensor itself.
    """
    host = lab.integers(3, 4).cpu()
    moved = host.to(lab.device)
    lab.same("to", moved)
    lab.same("and back", moved.cpu(), host=True)
    lab.same("by name", host.to(lab.device.type))
    lab.same("to as of another", host.to(moved))
    lab.same("non-blocking", moved.to("cpu", non_blocking=False), host=True)
    lab.holds(
        "to() the tensor's own device or dtype returns the tensor",
        moved.to(moved.device) is moved and moved.to(moved.dtype) is moved,
    )
    lab.holds("to() the tensor itself returns the tensor", moved.to(moved) is moved)
    lab.holds("unless copy=True", moved.to(moved.device, copy=True) is not moved)
    lab.apart("a tensor and its copy", moved, moved.to(moved.device, copy=True))
    lab.same("the copy", moved.to(moved.device, copy=True))
    wide, narrow = (
        _first_declared_dtype(lab, "complex128", "float64"),
        _first_declared_dtype(lab, "complex64", "float32"),
    )
    lab.same("with another dtype", host.to(lab.device, wide))
    lab.same("to the host with a different dtype", moved.to("cpu", narrow), host=True)
    lab.same("a part", moved[1:, ::2].cpu(), host=True)
    lab.same("a transposed part of the host", host.t()[1:].to(lab.device))
    lab.same("nothing", host[:0].to(lab.device))
    lab.same("a scalar", host[0, 0].to(lab.device))
    lab.same("expanded", host[:1].expand(5, 4).to(lab.device), strides=False)
    computed = moved + torch.zeros_like(moved)
    lab.same("a computed tensor to the host", computed.cpu(), host=True)


@behaviour(
    "copying", level="core", must_detect=("value",), dtypes=ALL, page="generated/torch.Tensor.copy_.html"
)
def copies_between_dtypes(lab: Lab) -> None:
    """``copy_`` and ``to`` convert between any two dtypes, on the device and between host and device. The
    results are the CPU's results.
    """
    values = lab.put([0, 1, 3, 100], dtype=lab.dtype)
    for name in ALL:
        if not lab.target.declares(name):
            continue
        dtype = getattr(torch, name)
        converted = values.to(dtype)
        lab.same(f"to {name}", converted)
        into = torch.zeros(4, dtype=dtype, device=lab.device)
        lab.holds("copy_ gives itself", into.copy_(values) is into)
        lab.same(f"into {name}", into)
        host = torch.zeros(4, dtype=dtype)
        lab.same(f"into a host tensor of {name}", host.copy_(values), host=True)
        lab.same(f"back from a host tensor of {name}", torch.zeros_like(values).copy_(host))
        strided = torch.zeros(8, dtype=dtype, device=lab.device)[::2]
        lab.same(f"into {name} with gaps", strided.copy_(values))


@behaviour(
    "copying",
    dtypes=("float32", "float16", "int64", "complex64", "bool"),
    level="core",
    must_detect=("value", "error"),
    page="generated/torch.Tensor.copy_.html",
)
def copies_of_all_shapes(lab: Lab) -> None:
    """``copy_`` broadcasts its source to the destination. Source and destination may have any strides and may
    be on the device or on the host.
    """
    base = lab.integers(4, 6)
    for side in ("device", "host"):

        def on_source_side(tensor: torch.Tensor, side: str = side) -> torch.Tensor:
            return tensor if side == "device" else tensor.cpu()

        def zeros_on_device(*shape: int) -> torch.Tensor:
            return torch.zeros(shape, dtype=lab.dtype, device=lab.device)

        lab.same(f"transposed from the {side}", zeros_on_device(6, 4).copy_(on_source_side(base.t())))
        lab.same(
            f"into a transposed tensor from the {side}", zeros_on_device(6, 4).t().copy_(on_source_side(base))
        )
        lab.same(f"a row from the {side}", zeros_on_device(4, 6).copy_(on_source_side(base[0])))
        lab.same(f"a column from the {side}", zeros_on_device(4, 6).copy_(on_source_side(base[:, :1])))
        lab.same(f"a scalar from the {side}", zeros_on_device(4, 6).copy_(on_source_side(base[0, 0])))
        lab.same(
            f"a source with gaps from the {side}", zeros_on_device(2, 3).copy_(on_source_side(base)[::2, ::2])
        )
        whole = zeros_on_device(6, 8)
        whole[1:5, 1:7].copy_(on_source_side(base))
        lab.same(f"into the middle of a tensor from the {side}", whole)
        lab.same(f"nothing from the {side}", zeros_on_device(0, 6).copy_(on_source_side(base[:0])))
        lab.raises(
            f"a source that is too large, from the {side}",
            lambda: zeros_on_device(2, 2).copy_(on_source_side(base)),
            match="(?i)must match|size|shape",
        )
    target = torch.zeros(4, 6, dtype=lab.dtype)
    lab.same("to the host, transposed", torch.zeros(6, 4, dtype=lab.dtype).t().copy_(base), host=True)
    lab.same("to the host, broadcast", target.copy_(base[0]), host=True)
    large = lab.integers(130, 70)
    lab.same(
        "a large transposed tensor", torch.zeros(70, 130, dtype=lab.dtype, device=lab.device).copy_(large.t())
    )
    square = lab.integers(64, 64)
    lab.same("a square transposed tensor", torch.zeros_like(square).copy_(square.t()))
    lab.same("onto itself", square.copy_(square))


@behaviour(
    "copying",
    dtypes=("complex64", "complex128"),
    capabilities=("conj_neg_views",),
    must_detect=("value",),
    page="generated/torch.Tensor.copy_.html",
)
def copies_of_lazy_bits(lab: Lab) -> None:
    """``copy_``, ``clone`` and moves between devices give the correct values for conjugate and negative
    views, as source and as destination.
    """
    base = lab.integers(3, 3)
    turned = base.conj()
    negative = base.conj().imag
    lab.same("of a conjugate", torch.zeros_like(base).copy_(turned))
    lab.same("into a conjugate", torch.zeros_like(base).conj().copy_(base).resolve_conj())
    lab.same("both", torch.zeros_like(base).conj().copy_(turned).resolve_conj())
    lab.same("transposed", torch.zeros_like(base).copy_(turned.t()))
    lab.same("into a transposed conjugate", torch.zeros_like(base).t().conj().copy_(base).resolve_conj())
    lab.same("of a negative", torch.zeros_like(negative).copy_(negative))
    lab.same("to the host", turned.cpu().resolve_conj(), host=True)
    lab.same("a negative view to the host", negative.cpu().resolve_neg(), host=True)
    lab.same("of the host's conjugate", torch.zeros_like(base).copy_(base.cpu().conj()))
    lab.same("to another dtype", turned.to(torch.complex128).resolve_conj())
    with lab.parity("No page says whether a clone keeps the conjugate bit"):
        lab.same("clone", [turned.clone().is_conj(), turned.clone().resolve_conj()])
    lab.same("as a list", turned.tolist())


@behaviour("copying", dtypes=ALL, level="core", must_detect=("value",), page="generated/torch.clone.html")
def clones(lab: Lab) -> None:
    """``clone`` returns a tensor with the values of its source, dense strides and separate memory."""
    base = lab.integers(3, 4)
    cloned = base.clone()
    lab.same("a clone", cloned, strides=True)
    lab.apart("a tensor and its clone", base, cloned)
    base.zero_()
    lab.same("the clone after a write", cloned)
    lab.same("of a transposed", cloned.t().clone(), strides=True)
    lab.same("of a permuted", lab.integers(2, 3, 4).permute(2, 0, 1).clone(), strides=True)
    lab.same("with gaps", cloned[:, ::2].clone(), strides=True)
    lab.same("expanded", cloned[:1].expand(5, 4).clone(), strides=True)
    lab.same("of no strides", cloned[0, 0].expand(3, 2).clone(), strides=True)
    lab.same("packed", cloned.t().clone(memory_format=torch.contiguous_format), strides=True)
    lab.same("of nothing", cloned[:0].clone(), strides=True)
    lab.same("of a scalar", cloned[0, 0].clone())
    with lab.consistent("A copy in Python must equal its original"):
        lab.same("a copy in Python", copy.copy(cloned))
    with lab.parity("No page says that a shallow copy shares memory"):
        lab.shares("a tensor and its copy in Python", cloned, copy.copy(cloned))


@behaviour(
    "copying",
    capabilities=("autograd",),
    level="core",
    must_detect=("value",),
    dtypes=("float32", "int64", "bool", "complex64"),
    page="https://docs.python.org/3/library/copy.html",
    basis="consistency",
    ground="A deep copy must equal its original",
)
def deep_copies(lab: Lab) -> None:
    """``deepcopy`` preserves device, dtype, strides and gradients. If two tensors share memory and are copied
    together, their copies share memory too. Originals and copies do not share memory.
    """
    base: Any = lab.integers(2, 3)
    tree: list[Any] = [base, base, base[0], 5]
    copied, second_copy, part, number = copy.deepcopy(tree)
    lab.same("copied", [copied, part, number])
    lab.holds("a tensor that occurs twice is copied once", copied is second_copy)
    lab.apart("a tensor and its deep copy", base, copied)
    with lab.parity("No page says that copies share memory as their originals do"):
        lab.shares("a deep copy and the deep copy of a view", copied, part)
        part.zero_()
        lab.same("after a write through the view", copied)
    lab.same("strides", copy.deepcopy(base.t()), strides=True)
    lab.same("a scalar", copy.deepcopy(base[1, 1]))
    lab.same("nothing", copy.deepcopy(base[:0]))
    if lab.dtype.is_floating_point:
        leaf = lab.floats(3, requires_grad=True)
        (leaf * leaf).sum().backward()
        leaf_copy = copy.deepcopy(leaf)
        lab.same("a leaf", [leaf_copy, leaf_copy.grad, leaf_copy.requires_grad, leaf_copy.is_leaf])
        lab.holds("the copy has a separate gradient", leaf_copy.grad is not leaf.grad)
        weight = torch.nn.Parameter(lab.floats(2))
        lab.holds(
            "a deep copy of a parameter is a parameter", isinstance(copy.deepcopy(weight), torch.nn.Parameter)
        )
        with lab.parity("No page says that a deep copy of a result is an error"):
            lab.raises(
                "a result of autograd", lambda: copy.deepcopy(leaf * 2), match="(?i)graph leaves|deepcopy"
            )
    base.note = "kept"
    lab.expect("an attribute", copy.deepcopy(base).note, "kept")


@behaviour("copying", level="core", must_detect=("error",), page="tensor_attributes.html")
def mixed_devices_refused(lab: Lab) -> None:
    """Operators refuse tensors on different devices. Exceptions are scalars (tensors without dimensions) on
    the host, and indices on the host.
    """
    base = lab.integers(3, 3)
    elsewhere = torch.ones(3, 3, device="meta") if lab.device.type == "cpu" else torch.ones(3, 3)
    number = torch.tensor(2.0)
    lab.same("a scalar of the host", base * number)
    lab.same("a scalar first", number + base)
    calls: dict[str, Callable[[], object]] = {
        "add": lambda: base + elsewhere,
        "compare": lambda: base == elsewhere,
        "atan2": lambda: torch.atan2(base, elsewhere),
        "lerp": lambda: base.lerp(elsewhere, 0.5),
        "dot": lambda: torch.dot(base[0], elsewhere[0]),
        "cat": lambda: torch.cat((base, elsewhere)),
        "stack": lambda: torch.stack((base, elsewhere)),
        "where": lambda: torch.where(base > 0, base, elsewhere),
        "into out": lambda: torch.add(base, base, out=elsewhere),
        "index_add_": lambda: base.index_add_(0, lab.put([0, 1, 2]), elsewhere),
    }
    for name, call in calls.items():
        lab.raises(f"{name} of two devices", call)
    with lab.parity("The page allows only scalars of the host; no page allows indices"):
        lab.same("indexed from the host", base[torch.tensor([2, 0])])
        lab.same("a mask of the host", base[torch.tensor([True, False, True])])


@behaviour(
    "copying",
    must_detect=("value",),
    dtypes=("float16", "bfloat16", "float32"),
    ground="The page refers to the C++ conversion rules, which round to nearest under IEEE 754",
)
def narrowing_rounds(lab: Lab) -> None:
    """Conversions to a narrower floating dtype round to nearest, ties to even. Infinities, zeros and NaN are
    preserved.
    """
    unit = torch.finfo(lab.dtype).eps
    exact = [
        1.0,
        1.0 + unit,
        1.0 + unit / 2,
        1.0 + 3 * unit / 2,
        -1.0 - unit / 2,
        0.0,
        float("inf"),
        float("-inf"),
    ]

    def convert_by_copy(values: list[float], source: torch.dtype, target: torch.dtype) -> torch.Tensor:
        source_tensor = lab.put(values, dtype=source)
        return torch.zeros(len(values), dtype=target, device=lab.device).copy_(source_tensor)

    result = convert_by_copy(exact, torch.float64, lab.dtype)
    lab.expect(
        "rounded", result, [1.0, 1.0 + unit, 1.0, 1.0 + 2 * unit, -1.0, 0.0, float("inf"), float("-inf")]
    )
    with lab.parity("No page says which result values beyond the range have"):
        lab.same("too large", convert_by_copy([1e39, -1e39], torch.float64, lab.dtype))
    lab.same("NaN", convert_by_copy([float("nan")], torch.float64, lab.dtype).isnan())
    with lab.parity("No page says that the sign of zero is preserved"):
        lab.expect("negative zero", torch.signbit(convert_by_copy([-0.0], torch.float64, lab.dtype)), [True])
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        with lab.parity("The values include a value beyond the range and a subnormal of float16"):
            lab.same(f"to {dtype}", convert_by_copy([0.1, 1 / 3, 65504.0, 1e-7, 70000.0], lab.dtype, dtype))
    lab.same("magnitudes", lab.put([-1.5, 2.5, -0.0], dtype=lab.dtype).abs())
    lab.same("negated", -lab.put([-1.5, 2.5, 0.0], dtype=lab.dtype))
