"""Check functions that move elements (``flip``, ``roll``, ``rot90``, ``diag``, ``nonzero``, ``cat`` and
related functions), ``clamp`` and ``tolist``.
"""

from __future__ import annotations

import contextlib
import math
from typing import Any

import numpy
import torch

from conformance.behaviours.behaviour import ALL, COMPLEX, behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api._numpy_values import (
    expect_error_for_two_devices,
    tensor_from_array,
    to_widest_numpy_array,
)


@behaviour(
    "shape", dtypes=ALL, level="core", must_detect=("value", "error"), page="generated/torch.flip.html"
)
def flipping(lab: Lab) -> None:
    """``flip``, ``fliplr`` and ``flipud`` reverse the elements along dimensions and return new memory. A
    dimension that does not exist or appears twice raises an error.
    """
    base = lab.integers(2, 3, 4, low=0, high=6)
    array = to_widest_numpy_array(base)
    for dims in ((0,), (1,), (2,), (0, 2), (-1, 1), (0, 1, 2), ()):
        result = base.flip(dims)
        lab.expect(f"flip{dims}", result, numpy.flip(array, dims))
        lab.apart(f"flip{dims} and its input", base, result)
    lab.expect("fliplr", torch.fliplr(base), numpy.fliplr(array))
    lab.expect("flipud", torch.flipud(base), numpy.flipud(array))
    turned = base.permute(2, 0, 1)
    lab.expect("flip of a permuted tensor", turned.flip(0, 2), numpy.flip(array.transpose(2, 0, 1), (0, 2)))
    lab.expect("flip with gaps", base[..., ::2].flip(2), numpy.flip(array[..., ::2], 2))
    lab.expect(
        "flip expanded",
        base[:, :1].expand(2, 3, 4).flip(0, 1),
        numpy.flip(numpy.repeat(array[:, :1], 3, 1), (0, 1)),
    )
    lab.same("flip of empty and dimensionless tensors", [base[:0].flip(0, 1), base[0, 0, 0].flip(())])
    long = lab.integers(2, 3000, low=0, high=6)
    lab.expect("flip of long rows", long.flip(1), numpy.flip(to_widest_numpy_array(long), 1))
    with lab.parity("No page says that a dimension out of range is refused"):
        lab.raises("flip a dimension that does not exist", lambda: base.flip(3), IndexError, match="(?i)dim")
    with lab.parity("No page says that a repeated dimension is refused"):
        lab.raises("flip twice the same", lambda: base.flip(0, -3), match="(?i)multiple times")
    lab.raises("fliplr of a vector", lambda: torch.fliplr(base[0, 0]), match="(?i)2")
    lab.raises("flipud of a number", lambda: torch.flipud(base[0, 0, 0]), match="(?i)1")


@behaviour(
    "shape",
    dtypes=("float32", "int64", "complex64", "bool"),
    level="core",
    must_detect=("value", "error"),
    page="generated/torch.rot90.html",
)
def turning_and_rolling(lab: Lab) -> None:
    """``rot90`` rotates a plane by any number of quarter turns, in both directions. ``roll`` shifts elements
    cyclically.
    """
    base = lab.integers(3, 4, 2, low=0, high=6)
    array = to_widest_numpy_array(base)
    for turns in (-5, -1, 0, 1, 2, 3, 4, 7):
        for dims in ((0, 1), (1, 0), (-1, 0)):
            lab.expect(
                f"rot90({turns}, {dims})", torch.rot90(base, turns, dims), numpy.rot90(array, turns, dims)
            )
    rolls: tuple[Any, ...] = ((1, 0), (-2, 1), (5, 2), ((1, 2), (0, 1)), ((1, -1), (2, 2)))
    for shifts, along in rolls:
        lab.expect(f"roll({shifts}, {along})", base.roll(shifts, along), numpy.roll(array, shifts, along))
    lab.expect("roll of all", base.roll(3), numpy.roll(array, 3))
    lab.same("roll of nothing", base[:0].roll(1, 1))
    with lab.parity("No page says that rot90 refuses a single dimension"):
        lab.raises("rot90 of one dimension", lambda: torch.rot90(base, 1, (0,)), match="(?i)2")
    with lab.parity("No page says that a repeated dimension is refused"):
        lab.raises("rot90 of a repeated dimension", lambda: torch.rot90(base, 1, (1, 1)))
    with lab.parity("No page says that a dimension out of range is refused"):
        lab.raises(
            "rot90 of a dimension that does not exist",
            lambda: torch.rot90(base, 1, (0, 3)),
            IndexError,
            RuntimeError,
        )
    lab.raises("roll with too few dimensions", lambda: base.roll((1, 2), 0), match="(?i)align|same")


@behaviour(
    "shape", dtypes=ALL, level="core", must_detect=("value", "error"), page="generated/torch.diagonal.html"
)
def diagonals(lab: Lab) -> None:
    """``diag``, ``diagonal``, ``diagflat``, ``diag_embed``, ``trace``, ``tril`` and ``triu`` agree with NumPy
    for every offset, also for offsets larger than the matrix.
    """
    base = lab.integers(3, 5, low=0, high=4)
    array = to_widest_numpy_array(base)
    for offset in (-4, -3, -1, 0, 1, 4, 6):
        lab.expect(f"diagonal({offset})", base.diagonal(offset), numpy.diagonal(array, offset))
        lab.expect(f"diag({offset})", torch.diag(base, offset), numpy.diag(array, offset))
        lab.expect(f"diag of a vector ({offset})", base[0].diag(offset), numpy.diag(array[0], offset))
        lab.expect(f"diagflat({offset})", torch.diagflat(base, offset), numpy.diagflat(array, offset))
        lab.expect(f"tril({offset})", base.tril(offset), numpy.tril(array, offset))
        lab.expect(f"triu({offset})", base.triu(offset), numpy.triu(array, offset))
    cube = lab.integers(2, 3, 4, low=0, high=4)
    for offset, first_dim, second_dim in ((0, 0, 1), (1, 1, 2), (-1, 2, 0), (2, -1, -2), (5, 0, 2)):
        name = f"diagonal({offset}, {first_dim}, {second_dim})"
        lab.expect(
            name,
            cube.diagonal(offset, first_dim, second_dim),
            numpy.diagonal(to_widest_numpy_array(cube), offset, first_dim, second_dim),
        )
    lab.same("diag_embed", [torch.diag_embed(base, o, 0, 2) for o in (-1, 0, 2)])
    lab.same("tril of a batch", [cube.tril(1), cube.triu(-1), cube.mT.tril()])
    lab.same("of nothing", [base[:0].tril(), base[:, :0].triu(1), base[:0].diagonal()])
    if lab.dtype != torch.bool:
        keeps_its_dtype = lab.dtype.is_floating_point or lab.dtype.is_complex or lab.dtype == torch.int64
        with (
            contextlib.nullcontext()
            if keeps_its_dtype
            else lab.parity("No page gives the dtype of the trace of narrow integers")
        ):
            lab.expect("trace", base.trace(), numpy.trace(array))
            lab.expect("trace of a transpose", base.t().trace(), numpy.trace(array))
        with lab.parity("The page describes a matrix, but does not say that other inputs are refused"):
            lab.raises("trace of a vector", lambda: base[0].trace(), match="(?i)matrix|dim")
    with lab.parity("No page says that a repeated dimension is refused"):
        lab.raises(
            "diagonal of one dimension twice", lambda: base.diagonal(0, 0, 0), match="(?i)identical|same"
        )
    with lab.parity("No page says what diag does with three dimensions"):
        lab.raises("diag of three dimensions", lambda: torch.diag(cube), match="(?i)dim|D")
    with lab.parity("The page describes matrices, but does not say that a vector is refused"):
        lab.raises("tril of a vector", lambda: base[0].tril(), match="(?i)2 dim")


@behaviour(
    "shape",
    dtypes=ALL,
    level="core",
    capabilities=("data_dependent_shapes",),
    must_detect=("value", "shape", "error"),
    page="generated/torch.nonzero.html",
)
def nonzero_elements(lab: Lab) -> None:
    """``nonzero`` returns the indices of nonzero elements in order, as rows or as one tensor per dimension,
    for any strides, and with ``out=``. NaN is nonzero, and -0.0 is zero.
    """
    for shape in ((5,), (3, 4), (2, 3, 4), (2, 1, 3, 2)):
        base = lab.integers(*shape, low=0, high=2)
        array = to_widest_numpy_array(base)
        expected = numpy.argwhere(array)
        lab.expect(f"of {shape}", base.nonzero(), expected)
        lab.expect(f"argwhere of {shape}", torch.argwhere(base), expected)
        lab.expect(
            f"transposed {shape}",
            base.mT.nonzero() if base.dim() > 1 else base.nonzero(),
            numpy.argwhere(numpy.swapaxes(array, -1, -2)) if base.dim() > 1 else expected,
        )
        for dimension, result in enumerate(base.nonzero(as_tuple=True)):
            lab.expect(f"dimension {dimension} of {shape}", result, expected[:, dimension])
        out = torch.empty(0, dtype=torch.int64, device=base.device)
        lab.holds("out is returned", torch.nonzero(base, out=out) is out)
        lab.expect(f"out of {shape}", out, expected)
        lab.expect(f"count of {shape}", torch.count_nonzero(base), numpy.count_nonzero(array))
    gapped = lab.integers(4, 6, low=0, high=2)[:, ::2]
    lab.expect("with gaps", gapped.nonzero(), numpy.argwhere(to_widest_numpy_array(gapped)))
    lab.same("all zero", torch.zeros(3, 2, dtype=lab.dtype, device=lab.device).nonzero())
    lab.same("nothing", [base[:0].nonzero(), base[:0].nonzero(as_tuple=True)])
    number = lab.put(1, dtype=lab.dtype)
    lab.expect(
        "a number", [list(n.nonzero().shape) for n in (number, torch.zeros_like(number))], [[1, 0], [0, 0]]
    )
    lab.same("nonzero of a dimensionless tensor with as_tuple=True", number.nonzero(as_tuple=True))
    large = lab.integers(3000, low=0, high=2)
    lab.expect("many", large.nonzero()[:, 0], numpy.flatnonzero(to_widest_numpy_array(large)))
    if lab.dtype.is_floating_point:
        special = lab.put([0.0, -0.0, math.nan, math.inf, -math.inf], dtype=lab.dtype)
        with lab.consistent("nonzero must agree with the device's own comparison of NaN and -0.0 with zero"):
            lab.expect("special values", special.nonzero(), [[2], [3], [4]])
    # The page notes/out.html says that the dtypes of out= and result must match.
    lab.raises(
        "nonzero into an out= of a wrong dtype",
        lambda: torch.nonzero(base, out=torch.empty(0, device=lab.device)),
        match="(?i)long|int",
    )
    expect_error_for_two_devices(
        lab, "an out elsewhere", lambda: torch.nonzero(base, out=torch.empty(0, dtype=torch.int64))
    )
    lab.silent("nonzero without as_tuple", lambda: base.nonzero())


@behaviour(
    "shape",
    dtypes=("float32", "float64", "bfloat16", "int64", "int32", "uint8"),
    level="core",
    must_detect=("value", "error"),
    page="generated/torch.clamp.html",
)
def clamping(lab: Lab) -> None:
    """``clamp`` limits values to bounds. A bound is a number or a tensor and can be omitted. If the lower
    bound is above the upper bound, the result is the upper bound. NaN propagates.
    """
    base = lab.integers(4, 5, low=0, high=12)
    array = to_widest_numpy_array(base)
    for low, high in ((2, 7), (None, 5), (6, None), (8, 3)):
        expected = array if low is None else numpy.maximum(array, low)
        expected = expected if high is None else numpy.minimum(expected, high)
        lab.expect(f"clamp({low}, {high})", base.clamp(low, high), expected)
        lab.expect(f"clip({low}, {high})", torch.clip(base, low, high), expected)
        lows = None if low is None else torch.full((5,), low, dtype=lab.dtype, device=lab.device)
        highs = None if high is None else torch.full((4, 1), high, dtype=lab.dtype, device=lab.device)
        lab.expect(f"clamp({low}, {high}) by tensors", base.clamp(lows, highs), expected)
        copy = base.clone()
        lab.holds("clamp_ returns its input", copy.clamp_(low, high) is copy)
        lab.expect(f"clamp_({low}, {high})", copy, expected)
    lab.expect("clamp_min and clamp_max", base.clamp_min(3).clamp_max(9), array.clip(3, 9))
    lab.expect("with gaps", base.t()[::2].clamp(2, 8), array.T[::2].clip(2, 8))
    out = torch.empty(0, dtype=lab.dtype, device=lab.device)
    lab.expect("out", torch.clamp(base, 2, 7, out=out), array.clip(2, 7))
    if lab.dtype.is_floating_point:
        special = lab.put([math.nan, math.inf, -math.inf, 1.0], dtype=lab.dtype)
        lab.expect("infinities", special[1:].clamp(-2, 2), [2, -2, 1])
        with lab.parity("The page of clamp does not mention NaN"):
            lab.expect("special values", special.clamp(-2, 2), [math.nan, 2, -2, 1])
        with lab.parity("The page of clamp does not mention NaN bounds"):
            lab.expect(
                "NaN bounds",
                base[0, :2].clamp(max=lab.put([math.nan, math.nan], dtype=lab.dtype)),
                [math.nan, math.nan],
            )
    with lab.parity("No page says that at least one bound is required"):
        lab.raises("no bound", lambda: base.clamp(), match="(?i)at least one|min.*max")
    with lab.parity("No page says that a number and a tensor cannot be combined as bounds"):
        lab.raises("clamp by two kinds", lambda: base.clamp(2, base), TypeError)  # type: ignore[call-overload]


@behaviour("shape", dtypes=ALL, level="core", must_detect=("value", "error"), page="generated/torch.cat.html")
def joining(lab: Lab) -> None:
    """``cat``, ``stack``, ``hstack``, ``vstack``, ``dstack``, ``column_stack``, ``block_diag``, ``tile`` and
    ``repeat`` agree with NumPy. ``cat`` ignores a one-dimensional tensor without elements.
    """
    upper, lower = lab.integers(2, 3, low=0, high=6), lab.integers(4, 3, low=0, high=6)
    first, second = to_widest_numpy_array(upper), to_widest_numpy_array(lower)
    lab.expect("cat", torch.cat([upper, lower]), numpy.concatenate([first, second]))
    lab.expect(
        "cat of transposes", torch.cat([upper.t(), lower.t()], -1), numpy.concatenate([first.T, second.T], -1)
    )
    lab.expect("cat of one", torch.cat([upper], 1), first)
    legacy = torch.empty(0, dtype=lab.dtype, device=lab.device)
    lab.expect("cat with nothing", torch.cat([legacy, upper, legacy]), first)
    lab.same("cat of nothing", torch.cat([upper[:0], lower[:0]]))
    lab.expect("stack", torch.stack([upper, lower[:2]], 1), numpy.stack([first, second[:2]], 1))
    lab.expect("stack last", torch.stack([upper, lower[2:]], -1), numpy.stack([first, second[2:]], -1))
    for name in ("hstack", "vstack", "dstack", "column_stack"):
        pair = [upper, lower[:2]]
        lab.expect(
            name, getattr(torch, name)(pair), getattr(numpy, name)([to_widest_numpy_array(x) for x in pair])
        )
        vectors = [upper[0], lower[1]]
        lab.expect(
            f"{name} of vectors",
            getattr(torch, name)(vectors),
            getattr(numpy, name)([to_widest_numpy_array(x) for x in vectors]),
        )
    lab.same("block_diag", torch.block_diag(upper, lower[0], lab.integers(1, low=0)[0]))
    lab.expect("tile", upper.tile(2, 1, 2), numpy.tile(first, (2, 1, 2)))
    lab.expect("repeat", upper.repeat(2, 2), numpy.tile(first, (2, 2)))
    lab.expect("repeat_interleave", upper.repeat_interleave(2, 1), numpy.repeat(first, 2, 1))
    lab.expect(
        "by a tensor", upper.repeat_interleave(lab.put([2, 0, 1]), 1), numpy.repeat(first, [2, 0, 1], 1)
    )
    out = torch.empty(6, 3, dtype=lab.dtype, device=lab.device)
    lab.holds("cat returns out", torch.cat([upper, lower], out=out) is out)
    lab.expect("out of cat", out, numpy.concatenate([first, second]))
    lab.raises("cat of other sizes", lambda: torch.cat([upper, lower], 1), match="(?i)size")
    lab.raises("cat of other dimensions", lambda: torch.cat([upper, lower[0]]), match="(?i)dimension")
    with lab.parity("No page says that an empty sequence is refused"):
        lab.raises("cat of no tensors", lambda: torch.cat([]), RuntimeError, ValueError)
    lab.raises("stack of other sizes", lambda: torch.stack([upper, lower]), match="(?i)size")
    with lab.parity("No page says that an out= which overlaps an input is refused"):
        lab.raises(
            "cat into an input",
            lambda: torch.cat([upper, lower], out=lower),
            match="(?i)overlap|unsupported|memory",
        )


@behaviour(
    "shape",
    dtypes=("float32", "int64", "complex64", "bool"),
    level="core",
    must_detect=("value",),
    page="generated/torch.Tensor.tolist.html",
)
def as_python_numbers(lab: Lab) -> None:
    """``tolist`` and ``item`` return Python numbers whose type corresponds to the dtype, for any strides.
    ``tolist`` returns one level of lists per dimension.
    """
    base = lab.integers(2, 3)
    lab.expect("tolist", base.tolist(), to_widest_numpy_array(base).tolist())
    lab.expect("of a transpose", base.t().tolist(), to_widest_numpy_array(base).T.tolist())
    lab.expect("with gaps", base[:, ::2].tolist(), to_widest_numpy_array(base)[:, ::2].tolist())
    lab.expect("of nothing", [base[:0].tolist(), base[:, :0].tolist()], [[], [[], []]])
    lab.expect(
        "of a number",
        (base + base.new_ones(()))[1, 2].tolist(),
        (to_widest_numpy_array(base) + to_widest_numpy_array(base.new_ones(())))[1, 2].item(),
    )
    lab.same("types", [type(base[0, 0].tolist()).__name__, type(base[0, 0].item()).__name__])


@behaviour("shape", dtypes=COMPLEX, must_detect=("value",), page="generated/torch.rot90.html")
def turning_complex_planes(lab: Lab) -> None:
    """``rot90`` of a complex tensor, also of a conjugate view, moves the elements and changes none."""
    base = lab.integers(3, 3)
    for turns in range(-2, 5):
        lab.expect(
            f"{turns} quarters", torch.rot90(base, turns), numpy.rot90(to_widest_numpy_array(base), turns)
        )
    lab.expect("of a conjugate", torch.rot90(base.conj()), numpy.rot90(to_widest_numpy_array(base).conj()))
    lab.same("made from NumPy", tensor_from_array(lab, to_widest_numpy_array(base)).rot90(2))
