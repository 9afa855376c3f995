"""Tensors in rare calls: sizes by None, slots, masks beside numbers, hooks that remove themselves."""

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

#: torch's functions without their stubs, which know no ``out=`` of some.
inner: Any = torch._C._nn


@behaviour("tensor", sees=("value",))
def sizes_strides_and_memory(lab: Lab) -> None:
    """size and stride take a dimension, None or nothing; a storage's size in Python grows with its elements;
    Python's types name the dtypes of factories.
    """
    x = lab.integers(2, 3, 4)
    sizes: Any = x
    lab.same("sizes", [x.size(), sizes.size(None), x.size(1), sizes.size(dim=-1), sizes.size(dim=None)])
    lab.same("strides", [x.stride(), sizes.stride(None), x.stride(1), sizes.stride(dim=-1)])
    lab.holds("None is all of them", sizes.size(None) == x.shape and sizes.stride(None) == x.stride())
    empty, ten, hundred = (
        sys.getsizeof(torch.empty(n, device=lab.device).untyped_storage()) for n in (0, 10, 100)
    )
    lab.holds("a storage grows by its elements", (hundred - empty) // (ten - empty) == 10)
    lab.holds("and by nothing else", (hundred - empty) % (ten - empty) == 0)
    made: Any = torch
    for kind, dtype, number in ((float, torch.float64, 1.5), (int, torch.int64, 2), (bool, torch.bool, True)):
        tensor = made.full((1, 2), number, dtype=kind, device=lab.device)
        lab.same(f"{kind.__name__}", tensor * 1)
        lab.holds(f"{kind.__name__} is {dtype}", tensor.dtype == dtype)


@behaviour("tensor", sees=("value", "error"))
def tensors_that_cannot_be_swapped(lab: Lab) -> None:
    """swap_tensors exchanges two tensors with their attributes, and refuses classes with slots of which the
    two differ, and tensors that a weak reference sees.
    """
    left: Any = lab.integers(2)
    right: Any = lab.integers(3, 2)
    shown = left.tolist(), right.tolist()
    left.word, right.number = "left", 3
    torch.utils.swap_tensors(left, right)
    lab.expect("the first", left * 1, shown[1])
    lab.expect("the second", right * 1, shown[0])
    lab.same("their attributes", [left.number, right.word, hasattr(left, "word")])

    class Slotted(torch.Tensor):
        __slots__ = ["slot"]

    slotted: Any = left.as_subclass(Slotted)
    lab.raises(
        "a slot that the other has not", lambda: torch.utils.swap_tensors(slotted, right), match="slot"
    )


@behaviour("shape", dtypes=("float32", "int64"), sees=("value",))
def copies_of_splits_into_lists(lab: Lab) -> None:
    """split_with_sizes_copy and unbind_copy with out= write what the splits hold into the tensors given, of
    any strides, and refuse lists of other lengths and sizes.
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
            f"along {dim}: as the views", all(torch.equal(o, v) for o, v in zip(outs, views, strict=True))
        )
        few = partial(ops.split_with_sizes_copy, x, sizes, dim, out=outs[:2])
        lab.raises(f"too few along {dim}", few)
    lab.raises(
        "sizes that do not add up", lambda: ops.split_with_sizes_copy(x, [1, 2], 0), match="split_sizes"
    )


@behaviour("indexing", dtypes=("float32", "int64", "bool"), sees=("value",))
def masks_beside_numbers(lab: Lab) -> None:
    """True and False among indices add a dimension of one or of none; masks of bytes add up into their places
    once for each; masked_scatter_ writes into tensors of any strides.
    """
    x = lab.integers(2, 3, 4)
    ids = lab.put([0, 1])
    other = lab.put([[2]])
    index: Any = x
    lab.same("False and True", index[False, True, ...])
    lab.holds("they leave nothing", index[False, True, ...].shape == (0, 2, 3, 4))
    chosen = index[True, [0, 1], True, True, [1], [[2]]]
    lab.same("among lists", chosen)
    lab.holds("True adds nothing among lists", torch.equal(chosen, index[[0, 1], [1], [[2]]]))
    by_tensors = index[True, ids, True, True, [1], other]
    lab.same("among tensors", by_tensors)
    lab.holds("True adds nothing among tensors", torch.equal(by_tensors, chosen))
    lab.raises("False among more than one", lambda: index[False, [0, 1], ...], IndexError)
    lab.raises("False among tensors", lambda: index[False, ids, ...], IndexError)
    base = lab.integers(4, 5)
    target = base.mT
    mask = lab.put([[True, False, True, True]] * 5)
    source = lab.integers(5, 4)
    due = target.clone().masked_scatter_(mask, source)
    target.masked_scatter_(mask, source)
    lab.same("masked_scatter_ with gaps", base * 1)
    lab.holds("it is that of a whole tensor", torch.equal(target, due))
    if lab.dtype is not torch.bool:
        marked, sums = lab.put([0, 1, 0, 1, 1], dtype=torch.uint8), lab.integers(5)
        before = sums.clone()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # masks of bytes are deprecated
            sums.index_put_((marked,), sums[marked], accumulate=True)
        lab.same("a mask of bytes adds up", sums)
        due = torch.where(marked.bool(), before * 2, before)
        lab.holds("once in each place", torch.equal(sums, due))


@behaviour("tensor", capabilities=("autograd",), sees=("value",))
def hooks_that_remove_themselves(lab: Lab) -> None:
    """A hook that removes itself changes the gradient of its first backward alone; one that stays changes
    each.
    """
    for removed in (True, False):
        leaf: Any = torch.ones(1, 5, device=lab.device, requires_grad=True)
        handles: list[Any] = []

        def hook(
            gradient: torch.Tensor, removed: bool = removed, handles: list[Any] = handles
        ) -> torch.Tensor:
            if removed:
                handles[0].remove()
            return torch.zeros_like(gradient)

        handles.append(leaf.register_hook(hook))
        leaf.mean().backward()
        lab.expect(f"removed {removed}: the first", leaf.grad * 1, [[0.0] * 5])
        leaf.grad = None
        leaf.mean().backward()
        lab.expect(
            f"removed {removed}: the second", leaf.grad * 1, [[0.2 if removed else 0.0] * 5], roundings=4
        )


@behaviour("tensor", sees=("shape", "error"))
def meta_forms_of_rare_calls(lab: Lab) -> None:
    """On meta, resampling to sizes that no memory holds gives their shape, and refuses out= of another dtype
    or device; conj_physical keeps strides; a number without data prints; empty storages can be written.
    """
    huge = torch.empty(2 * 10**8, 3, 2 * 10**8, device="meta")
    lab.same("one dimension", F.interpolate(huge, scale_factor=2).shape)
    lab.holds("it is twice as long", F.interpolate(huge, scale_factor=2).shape == (2 * 10**8, 3, 4 * 10**8))
    square = torch.empty(2 * 10**8, 3, 16, 16, device="meta")
    lab.same("two dimensions", F.interpolate(square, scale_factor=2).shape)
    nearest: dict[str, Any] = {
        "one": lambda out: inner.upsample_nearest1d(huge, (4 * 10**8,), 2, out=out),
        "two": lambda out: inner.upsample_nearest2d(square, (32, 32), out=out),
    }
    for name, call in nearest.items():
        out = torch.empty(0, device="meta")
        call(out)
        lab.same(f"out= of {name}", out.shape)
        wrong = {"dtype": torch.empty(0, device="meta", dtype=torch.float16), "device": lab.integers(0)}
        for word, other in wrong.items():
            lab.raises(
                f"out= of another {word}, {name}",
                partial(call, other),
                match="Expected out tensor|cross-device",
            )
    real = lab.integers(5, 3, 6, dtype=torch.complex64).permute(2, 0, 1)
    here, there = torch.conj_physical(real), torch.conj_physical(real.to("meta"))
    lab.same("strides on meta", [there.shape, there.stride()])
    lab.holds("they are the real ones", here.stride() == there.stride())
    number = torch.empty((), device="meta")
    lab.holds("a number on meta prints", f"{number}" == repr(number))
    none = lab.put(torch.from_numpy(numpy.empty((0, 4))))
    none[:, 1::2] *= 1
    lab.same("written without elements", none.shape)


@behaviour("creation", dtypes=("int8", "int16", "int32", "int64", "uint8"), sees=("value",))
def numbers_between_integers(lab: Lab) -> None:
    """A number between two integers becomes the one nearer to zero in an integer dtype; an item of a slice is
    that of its place; linspace over all of int64 grows.
    """
    numbers = [5.8, 5.2, 0.9] if lab.dtype == torch.uint8 else [5.8, 5.2, -5.8, -0.9, 0.9]
    due = [int(number) for number in numbers]
    made = torch.tensor(numbers, dtype=lab.dtype, device=lab.device)
    lab.expect("made", made * 1, due)
    lab.expect("converted", lab.put(numbers, dtype=torch.float32).to(lab.dtype), due)
    one = lab.put([1.0, 2.0, 3.0], dtype=torch.float32)
    lab.same("an item of a slice", [int(one[2:]), float(one[1:2]), int(one[1:2] * 2)])
    if lab.dtype == torch.int64:
        start, end, steps = torch.iinfo(torch.int64).min, torch.iinfo(torch.int64).max & ~0xFFF, 15
        line = torch.linspace(start, end, steps, dtype=torch.int64, device=lab.device)
        lab.holds("linspace grows by more than its share", int(line[1] - line[0]) > (end - start) / steps)


@behaviour("sorting", dtypes=("float32", "int64"), sees=("value",))
def sorts_that_may_be_stable(lab: Lab) -> None:
    """sort takes None for whether it is stable, and sorts as without."""
    x = lab.integers(10)
    sort: Any = x.sort
    lab.same("values", sort(stable=None).values)
    lab.holds("sorted as without", torch.equal(sort(stable=None).values, x.sort().values))
    alike: Any = torch.ones(10, dtype=lab.dtype, device=lab.device)
    lab.holds("of equal numbers", bool((alike.sort(stable=None).values == 1).all()))
