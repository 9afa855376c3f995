"""Check rare calls of tensors: ``size`` with None, ``swap_tensors``, ``split_with_sizes_copy``, boolean
indices, hooks that remove themselves, meta tensors and ``sort`` with ``stable=None``.
"""

from __future__ import annotations

import sys
import warnings
from functools import partial
from typing import Any

import numpy
import torch
import torch.nn.functional as F

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab

#: ``torch._C._nn`` as an untyped object: its type stubs lack some ``out=`` arguments.
untyped_functions: Any = torch._C._nn


@behaviour(
    "tensor",
    must_detect=("value",),
    capabilities=("storage", "strides"),
    page="generated/torch.Tensor.size.html",
)
def sizes_strides_and_memory(lab: Lab) -> None:
    """``size`` and ``stride`` accept a dimension, None or no argument. ``sys.getsizeof`` of a storage grows
    with its number of elements. Python types are accepted as dtypes.
    """
    x = lab.integers(2, 3, 4)
    sizes: Any = x
    lab.same("sizes", [x.size(), sizes.size(None), x.size(1), sizes.size(dim=-1), sizes.size(dim=None)])
    with lab.parity("The page of stride does not mention None"):
        lab.same("strides", [x.stride(), sizes.stride(None), x.stride(1), sizes.stride(dim=-1)])
        lab.holds(
            "None selects all sizes and all strides",
            sizes.size(None) == x.shape and sizes.stride(None) == x.stride(),
        )
    empty, ten, hundred = (
        sys.getsizeof(torch.empty(n, device=lab.device).untyped_storage()) for n in (0, 10, 100)
    )
    with lab.parity("No page says what sys.getsizeof of a storage returns"):
        lab.holds(
            "sys.getsizeof grows ten times as much for 100 elements as for 10",
            (hundred - empty) // (ten - empty) == 10,
        )
        lab.holds(
            "sys.getsizeof grows by a multiple of the growth for 10 elements",
            (hundred - empty) % (ten - empty) == 0,
        )
    untyped: Any = torch
    for kind, dtype, number in ((float, torch.float64, 1.5), (int, torch.int64, 2), (bool, torch.bool, True)):
        tensor = untyped.full((1, 2), number, dtype=kind, device=lab.device)
        with lab.parity("No page says that a Python type can be a dtype"):
            lab.same(f"{kind.__name__}", tensor * 1)
            lab.holds(f"{kind.__name__} as dtype means {dtype}", tensor.dtype == dtype)


@behaviour("tensor", must_detect=("value", "error"), page="generated/torch.utils.swap_tensors.html")
def tensors_that_cannot_be_swapped(lab: Lab) -> None:
    """``swap_tensors`` exchanges two tensors with their attributes. Tensors whose classes have different
    ``__slots__`` raise an error.
    """
    first: Any = lab.integers(2)
    second: Any = lab.integers(3, 2)
    values_before = first.tolist(), second.tolist()
    first.word, second.number = "left", 3
    torch.utils.swap_tensors(first, second)
    lab.expect("the first", first * 1, values_before[1])
    lab.expect("the second", second * 1, values_before[0])
    lab.same("their attributes", [first.number, second.word, hasattr(first, "word")])

    class SubclassWithSlots(torch.Tensor):
        __slots__ = ["slot"]

    slotted: Any = first.as_subclass(SubclassWithSlots)
    lab.raises(
        "a slot that the other tensor's class does not have",
        lambda: torch.utils.swap_tensors(slotted, second),
        match="slot",
    )


@behaviour(
    "shape",
    dtypes=("float32", "int64"),
    must_detect=("value",),
    page="generated/torch.split.html",
    basis="consistency",
    ground="The parts written into out= must agree with the parts that torch.split returns",
)
def copies_of_splits_into_lists(lab: Lab) -> None:
    """``split_with_sizes_copy`` with ``out=`` writes the parts into tensors of any strides. A list of a wrong
    length, and sizes whose sum differs from the dimension, raise an error.
    """
    ops: Any = torch
    for dim in (0, 1):
        x = lab.integers(10, 10) if dim else lab.integers(10, 4)
        sizes = [1, 3, 2, 4]
        views = torch.split(x, sizes, dim)
        outs = [torch.zeros_like(view).mT.contiguous().mT for view in views]
        ops.split_with_sizes_copy(x, sizes, dim, out=outs)
        lab.same(f"along {dim}", outs)
        lab.holds(
            f"along {dim}: the parts equal the parts of torch.split",
            all(torch.equal(o, v) for o, v in zip(outs, views, strict=True)),
        )
        few = partial(ops.split_with_sizes_copy, x, sizes, dim, out=outs[:2])
        with lab.parity("No page says that a list of a wrong length is refused"):
            lab.raises(f"too few along {dim}", few)
    with lab.parity("No page says that sizes with another sum are refused"):
        lab.raises(
            "sizes that do not add up", lambda: ops.split_with_sizes_copy(x, [1, 2], 0), match="split_sizes"
        )


@behaviour(
    "indexing",
    dtypes=("float32", "int64", "bool"),
    must_detect=("value",),
    page="tensor_view.html",
    basis="parity",
    ground="No page says what True and False mean as an index",
)
def masks_beside_numbers(lab: Lab) -> None:
    """As an index, True adds a dimension of size one, and False adds a dimension of size zero. ``index_put_``
    with a uint8 mask and ``accumulate`` adds once per element. ``masked_scatter_`` writes into tensors of any
    strides.
    """
    x = lab.integers(2, 3, 4)
    ids = lab.put([0, 1])
    index_tensor = lab.put([[2]])
    index: Any = x
    lab.same("False and True", index[False, True, ...])
    lab.holds("an index of False and True selects nothing", index[False, True, ...].shape == (0, 2, 3, 4))
    chosen = index[True, [0, 1], True, True, [1], [[2]]]
    lab.same("among lists", chosen)
    lab.holds("True adds no dimension next to lists", torch.equal(chosen, index[[0, 1], [1], [[2]]]))
    by_tensors = index[True, ids, True, True, [1], index_tensor]
    lab.same("among tensors", by_tensors)
    lab.holds("True adds no dimension next to tensors", torch.equal(by_tensors, chosen))
    lab.raises("False next to a list of two indices", lambda: index[False, [0, 1], ...], IndexError)
    lab.raises("False next to a tensor of indices", lambda: index[False, ids, ...], IndexError)
    base = lab.integers(4, 5)
    target = base.mT
    mask = lab.put([[True, False, True, True]] * 5)
    source = lab.integers(5, 4)
    expected = target.clone().masked_scatter_(mask, source)
    target.masked_scatter_(mask, source)
    with lab.documented():
        lab.same("masked_scatter_ with gaps", base * 1)
    with lab.consistent("The write into a transposed tensor must agree with the write into a copy"):
        lab.holds(
            "masked_scatter_ into a transposed tensor equals the write into a copy",
            torch.equal(target, expected),
        )
    if lab.dtype is not torch.bool:
        marked, sums = lab.put([0, 1, 0, 1, 1], dtype=torch.uint8), lab.integers(5)
        before = sums.clone()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # uint8 masks are deprecated
            sums.index_put_((marked,), sums[marked], accumulate=True)
        lab.same("index_put_ with a uint8 mask and accumulate", sums)
        expected = torch.where(marked.bool(), before * 2, before)
        lab.holds("a uint8 mask adds once per element", torch.equal(sums, expected))


@behaviour(
    "tensor",
    capabilities=("autograd",),
    must_detect=("value",),
    page="generated/torch.Tensor.register_hook.html",
)
def hooks_that_remove_themselves(lab: Lab) -> None:
    """A tensor hook that removes itself changes only the gradient of the first backward pass. A hook that is
    not removed changes the gradient of every backward pass.
    """
    for removed in (True, False):
        leaf: Any = torch.ones(1, 5, device=lab.device, requires_grad=True)
        handles: list[Any] = []

        def zero_gradient_hook(
            gradient: torch.Tensor, removed: bool = removed, handles: list[Any] = handles
        ) -> torch.Tensor:
            if removed:
                handles[0].remove()
            return torch.zeros_like(gradient)

        handles.append(leaf.register_hook(zero_gradient_hook))
        leaf.mean().backward()
        lab.expect(f"removed {removed}: the first", leaf.grad * 1, [[0.0] * 5])
        leaf.grad = None
        leaf.mean().backward()
        lab.expect(
            f"removed {removed}: the second", leaf.grad * 1, [[0.2 if removed else 0.0] * 5], roundings=4
        )


@behaviour("tensor", must_detect=("shape", "error"), page="meta.html")
def meta_forms_of_rare_calls(lab: Lab) -> None:
    """On meta, resampling to a size too large for memory returns a tensor of this size. An ``out=`` of
    another dtype or device raises an error. ``conj_physical`` on meta preserves strides, and dimensionless
    meta tensors can be printed. Empty slices can be written in place.
    """
    huge = torch.empty(2 * 10**8, 3, 2 * 10**8, device="meta")
    lab.same("one dimension", F.interpolate(huge, scale_factor=2).shape)
    lab.holds(
        "interpolation doubles the last dimension",
        F.interpolate(huge, scale_factor=2).shape == (2 * 10**8, 3, 4 * 10**8),
    )
    square = torch.empty(2 * 10**8, 3, 16, 16, device="meta")
    lab.same("two dimensions", F.interpolate(square, scale_factor=2).shape)
    nearest: dict[str, Any] = {
        "one": lambda out: untyped_functions.upsample_nearest1d(huge, (4 * 10**8,), 2, out=out),
        "two": lambda out: untyped_functions.upsample_nearest2d(square, (32, 32), out=out),
    }
    for name, call in nearest.items():
        out = torch.empty(0, device="meta")
        with lab.parity("The functions of torch._C._nn are private and undocumented"):
            call(out)
            lab.same(f"out= of {name}", out.shape)
        wrong = {"dtype": torch.empty(0, device="meta", dtype=torch.float16), "device": lab.integers(0)}
        for mismatch, wrong_out in wrong.items():
            with lab.parity("The functions of torch._C._nn are private and undocumented"):
                lab.raises(
                    f"out= of a wrong {mismatch}, {name}",
                    partial(call, wrong_out),
                    match="Expected out tensor|cross-device",
                )
    real = lab.integers(5, 3, 6, dtype=torch.complex64).permute(2, 0, 1)
    on_device, on_meta = torch.conj_physical(real), torch.conj_physical(real.to("meta"))
    lab.same("shape on meta", on_meta.shape)
    with lab.parity("No page gives the strides of the result of conj_physical"):
        lab.same("strides on meta", on_meta.stride())
        lab.holds("strides on meta are the strides on the device", on_device.stride() == on_meta.stride())
    number = torch.empty((), device="meta")
    with lab.parity("No page fixes the text of repr"):
        lab.holds("a dimensionless meta tensor can be printed", f"{number}" == repr(number))
    none = lab.put(torch.from_numpy(numpy.empty((0, 4))))
    none[:, 1::2] *= 1
    lab.same("written without elements", none.shape)


@behaviour(
    "creation",
    dtypes=("int8", "int16", "int32", "int64", "uint8"),
    must_detect=("value",),
    page="generated/torch.Tensor.to.html",
)
def numbers_between_integers(lab: Lab) -> None:
    """Conversion of a float to an integer dtype truncates toward zero. ``int`` and ``float`` of a slice with
    one element return the element. ``linspace`` over the range of int64 does not overflow.
    """
    numbers = [5.8, 5.2, 0.9] if lab.dtype == torch.uint8 else [5.8, 5.2, -5.8, -0.9, 0.9]
    truncated = [int(number) for number in numbers]
    created = torch.tensor(numbers, dtype=lab.dtype, device=lab.device)
    with lab.consistent("torch.tensor with an integer dtype must agree with the conversion by Tensor.to"):
        lab.expect("made", created * 1, truncated)
    lab.expect("converted", lab.put(numbers, dtype=torch.float32).to(lab.dtype), truncated)
    numbers_tensor = lab.put([1.0, 2.0, 3.0], dtype=torch.float32)
    lab.same(
        "int and float of a slice with one element",
        [int(numbers_tensor[2:]), float(numbers_tensor[1:2]), int(numbers_tensor[1:2] * 2)],
    )
    if lab.dtype == torch.int64:
        start, end, steps = torch.iinfo(torch.int64).min, torch.iinfo(torch.int64).max & ~0xFFF, 15
        line = torch.linspace(start, end, steps, dtype=torch.int64, device=lab.device)
        lab.holds(
            "the first step of linspace exceeds the range divided by the number of points",
            int(line[1] - line[0]) > (end - start) / steps,
        )


@behaviour(
    "sorting",
    dtypes=("float32", "int64"),
    must_detect=("value",),
    page="generated/torch.sort.html",
    basis="parity",
    ground="No page says that stable=None is accepted and what it means",
)
def sorts_that_may_be_stable(lab: Lab) -> None:
    """``sort`` with ``stable=None`` returns the result of ``sort`` without this argument."""
    x = lab.integers(10)
    sort: Any = x.sort
    lab.same("values", sort(stable=None).values)
    lab.holds(
        "stable=None sorts like a call without stable", torch.equal(sort(stable=None).values, x.sort().values)
    )
    alike: Any = torch.ones(10, dtype=lab.dtype, device=lab.device)
    lab.holds("stable=None keeps equal numbers", bool((alike.sort(stable=None).values == 1).all()))
