"""Discrete Fourier transforms against NumPy's."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy
import torch

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api._numpy_values import Array, from_array, values

_REAL = ("float32", "float64")
_ALL = (*_REAL, "complex64", "complex128")
_NORMS: tuple[Any, ...] = (None, "forward", "backward", "ortho")


def room(count: int) -> float:
    """Roundings of a transform of ``count`` elements: each result sums all of them, so that the error
    relative to the largest result is below the number of elements.
    """
    return 4.0 * count + 16


def _hermitian(array: Array, size: int | None, dim: int, norm: Any) -> Array:
    """hfft from its definition by irfft of the conjugate."""
    count = size or 2 * (array.shape[dim] - 1)
    result = numpy.fft.irfft(array.conj(), count, dim)
    return result * {None: count, "backward": count, "forward": 1, "ortho": math.sqrt(count)}[norm]


@behaviour("fft", dtypes=_ALL, level="core", sees=("value", "shape"))
def transforms_of_one_dimension(lab: Lab) -> None:
    """fft, ifft, rfft, irfft, hfft and ihfft agree with NumPy for every length, dimension and norm, of any
    strides.
    """
    for shape, dim in (((8,), -1), ((7, 6), 0), ((3, 5, 4), 1)):
        x = lab.integers(*shape)
        array = values(x)
        count = shape[dim]
        for n, norm in itertools.product((None, 5, 12), _NORMS):
            name = f"of {shape} along {dim} to {n} by {norm}"
            size = max(count, n or 0)
            lab.expect(
                f"fft {name}",
                torch.fft.fft(x, n, dim, norm),
                numpy.fft.fft(array, n, dim, norm),
                roundings=room(size),
            )
            lab.expect(
                f"ifft {name}",
                torch.fft.ifft(x, n, dim, norm),
                numpy.fft.ifft(array, n, dim, norm),
                roundings=room(size),
            )
            lab.expect(
                f"irfft {name}",
                torch.fft.irfft(x, n, dim, norm),
                numpy.fft.irfft(array, n, dim, norm),
                roundings=room(2 * size),
            )
            lab.expect(
                f"hfft {name}",
                torch.fft.hfft(x, n, dim, norm),
                _hermitian(array, n, dim, norm),
                roundings=room(2 * size),
            )
            if not lab.dtype.is_complex:
                lab.expect(
                    f"rfft {name}",
                    torch.fft.rfft(x, n, dim, norm),
                    numpy.fft.rfft(array, n, dim, norm),
                    roundings=room(size),
                )
                lab.expect(
                    f"ihfft {name}",
                    torch.fft.ihfft(x, n, dim, norm),
                    numpy.fft.ihfft(array, n, dim, norm),
                    roundings=room(size),
                )
    turned = lab.integers(5, 6, 4).permute(2, 0, 1)
    lab.expect(
        "permuted", torch.fft.fft(turned, dim=1), numpy.fft.fft(values(turned), axis=1), roundings=room(5)
    )
    gapped = lab.integers(3, 20)[:, 1::2]
    lab.expect("with gaps", torch.fft.fft(gapped), numpy.fft.fft(values(gapped)), roundings=room(10))
    lab.expect(
        "expanded",
        torch.fft.fft(gapped[:1].expand(4, 10)),
        numpy.fft.fft(numpy.repeat(values(gapped)[:1], 4, 0)),
        roundings=room(10),
    )
    out = torch.empty(0, dtype=torch.fft.fft(turned).dtype, device=lab.device)
    lab.holds("fft returns out", torch.fft.fft(gapped, out=out) is out)
    lab.expect("out", out, numpy.fft.fft(values(gapped)), roundings=room(10))


@behaviour("fft", dtypes=_ALL, level="core", sees=("value", "shape"))
def transforms_of_several_dimensions(lab: Lab) -> None:
    """fftn, rfftn and their inverses agree with NumPy for any dimensions and sizes, hfftn and ihfftn with
    their definitions, and the two-dimensional ones with those for several.
    """
    for shape, dims, sizes in (
        ((4, 5), None, None),
        ((3, 4, 5), None, None),
        ((3, 4, 5), (0, 2), None),
        ((3, 4, 5), (-1,), None),
        ((3, 4, 5), None, (4, 6)),
        ((2, 3, 4, 3), (0, 1), (3, 5)),
        ((5,), (0,), None),
    ):
        x = lab.integers(*shape)
        array = values(x)
        for norm in _NORMS:
            name = f"of {shape} over {dims} to {sizes} by {norm}"
            axes = (
                dims
                if dims is not None or sizes is None
                else tuple(range(len(shape) - len(sizes), len(shape)))
            )
            count = 2 * math.prod(sizes or shape)
            for word in ("fftn", "ifftn"):
                expected = getattr(numpy.fft, word)(array, sizes, axes, norm)
                lab.expect(
                    f"{word} {name}",
                    getattr(torch.fft, word)(x, sizes, dims, norm),
                    expected,
                    roundings=room(count),
                )
            # Half of a Hermitian signal: what several dimensions give for another one is left open.
            half = numpy.fft.rfftn(array.real, sizes, axes, norm)
            lengths = sizes or [shape[d] for d in (range(len(shape)) if axes is None else axes)]
            kind = torch.complex64 if lab.dtype in (torch.float32, torch.complex64) else torch.complex128
            lab.expect(
                f"irfftn {name}",
                torch.fft.irfftn(from_array(lab, half, kind), lengths, dims, norm),
                numpy.fft.irfftn(half, lengths, axes, norm),
                roundings=room(4 * count),
            )
            if lab.dtype.is_complex:
                continue
            lab.expect(
                f"rfftn {name}",
                torch.fft.rfftn(x, sizes, dims, norm),
                numpy.fft.rfftn(array, sizes, axes, norm),
                roundings=room(count),
            )
            if sizes is None:
                last = tuple(range(len(shape)))[-1] if axes is None else axes[-1]
                half = numpy.fft.ifftn(array, None, axes, norm)
                cut = half.take(range(shape[last] // 2 + 1), last)
                lab.expect(
                    f"ihfftn {name}", torch.fft.ihfftn(x, None, dims, norm), cut, roundings=room(count)
                )
                given = from_array(
                    lab, cut, torch.complex128 if lab.dtype == torch.float64 else torch.complex64
                )
                whole = [shape[d] for d in (range(len(shape)) if axes is None else axes)]
                back = torch.fft.hfftn(given, whole, dims, norm)
                lab.expect(f"hfftn {name}", back, array, roundings=room(4 * count))
    x = lab.integers(3, 4, 6)
    for word in ("fft", "ifft", "irfft", "hfft", *(() if lab.dtype.is_complex else ("rfft", "ihfft"))):
        for sizes, norm in itertools.product((None, (4, 8)), _NORMS):
            two, several = getattr(torch.fft, f"{word}2"), getattr(torch.fft, f"{word}n")
            result, expected = two(x, sizes, norm=norm), several(x, sizes, (-2, -1), norm)
            lab.expect(f"{word}2 to {sizes} by {norm}", result, values(expected), roundings=room(64))
            lab.expect(
                f"{word}2 of other dimensions to {sizes} by {norm}",
                two(x, sizes, (1, 0), norm),
                values(several(x, sizes, (1, 0), norm)),
                roundings=room(64),
            )
    for word in ("fftn", "ifftn", "fft2", "ifft2"):
        lab.expect(f"{word} of no dimensions", getattr(torch.fft, word)(x, dim=[]), values(x).astype(complex))


@behaviour("fft", dtypes=_ALL, level="core", sees=("value",))
def transforms_and_back(lab: Lab) -> None:
    """A transform and its inverse give the input back, for every norm, odd lengths and non-contiguous inputs,
    and neither changes its input.
    """
    pairs: list[tuple[Any, Any]] = [(torch.fft.fft, torch.fft.ifft)]
    several: list[tuple[Any, Any]] = [(torch.fft.fftn, torch.fft.ifftn)]
    if not lab.dtype.is_complex:
        pairs += [(torch.fft.rfft, torch.fft.irfft), (torch.fft.ihfft, torch.fft.hfft)]
        several += [(torch.fft.rfftn, torch.fft.irfftn), (torch.fft.ihfftn, torch.fft.hfftn)]
    inputs = {
        "odd": lab.integers(67),
        "even": lab.integers(12, 14),
        "transposed": lab.integers(6, 9).t(),
        "a slice": lab.integers(5, 6, 7)[1:4, :, ::2],
        "expanded": lab.integers(1, 9).expand(4, 9),
    }
    for (name, x), norm, dim in itertools.product(inputs.items(), _NORMS, (-1, 0)):
        before = values(x)
        for forward, backward in pairs:
            options: dict[str, Any] = {"n": x.shape[dim], "dim": dim, "norm": norm}
            lab.expect(
                f"{forward.__name__} of {name} by {norm} along {dim}",
                backward(forward(x, **options), **options),
                before + (0j if forward is torch.fft.fft else 0),
                roundings=room(4 * x.shape[dim]),
            )
        for forward, backward in several:
            options = {"s": x.shape, "norm": norm}
            if dim == -1:
                lab.expect(
                    f"{forward.__name__} of {name} by {norm}",
                    backward(forward(x, **options), **options),
                    before + (0j if forward is torch.fft.fftn else 0),
                    roundings=room(4 * x.numel()),
                )
        lab.expect(f"{name} afterwards by {norm} along {dim}", x, before)
    wide = torch.complex128 if lab.dtype in (torch.float64, torch.complex128) else torch.complex64
    for size in (1024, 1013, 2310):
        x = lab.integers(size, low=-1, high=2, dtype=wide)
        first, second = torch.fft.fft(x), torch.fft.fft(x.clone())
        lab.holds(
            f"a transform of {size} is repeatable",
            bool((first - second).abs().max() <= first.abs().max() * 1e-5),
        )
        lab.expect(f"a transform of {size}", first, numpy.fft.fft(values(x)), roundings=room(size))
    half = torch.fft.rfft(lab.integers(6, dtype=torch.float32))
    kept = values(half)
    torch.fft.irfft(half, 6)
    lab.expect("a half spectrum afterwards", half, kept)


@behaviour("fft", dtypes=("any",), level="core", sees=("dtype", "error"))
def dtypes_of_transforms(lab: Lab) -> None:
    """Transforms of integers and booleans have the default dtype; complex transforms of real input are
    complex, real ones of complex input real; rfft and ihfft refuse complex input.
    """
    pairs = {
        torch.int8: torch.complex64,
        torch.int64: torch.complex64,
        torch.bool: torch.complex64,
        torch.float32: torch.complex64,
        torch.float64: torch.complex128,
        torch.complex64: torch.complex64,
        torch.complex128: torch.complex128,
    }
    for dtype, wide in pairs.items():
        x = lab.integers(8, low=0, high=2, dtype=dtype)
        lab.expect(f"fft of {dtype}", (torch.fft.fft(x).dtype, torch.fft.ifftn(x).dtype), (wide, wide))
        real = torch.float64 if wide == torch.complex128 else torch.float32
        lab.expect(f"hfft of {dtype}", (torch.fft.hfft(x).dtype, torch.fft.irfft(x).dtype), (real, real))
        if not dtype.is_complex:
            lab.expect(f"rfft of {dtype}", (torch.fft.rfft(x).dtype, torch.fft.ihfft(x).dtype), (wide, wide))
    z = lab.integers(8, dtype=torch.complex64)
    for word in ("rfft", "rfftn", "ihfft"):
        lab.raises(f"{word} of complex numbers", lambda: getattr(torch.fft, word)(z), match="(?i)real")
    lab.raises("rfft2 of complex numbers", lambda: torch.fft.rfft2(z.view(2, 4)), match="(?i)real")


@behaviour("fft", dtypes=("float32", "complex64"), level="core", sees=("error", "message"))
def transforms_refuse(lab: Lab) -> None:
    """Transforms of no points, over a dimension that does not exist or appears twice, or with sizes that do
    not fit their dimensions, are errors.
    """
    words = ["fft", "ifft", "irfft", "hfft", "fftn", "ifftn", "irfftn", "fft2", "ifft2", "irfft2"]
    words += [] if lab.dtype.is_complex else ["rfft", "ihfft", "rfftn", "rfft2"]
    none = torch.empty(1, 0, dtype=lab.dtype, device=lab.device)
    for word in words:
        lab.raises(
            f"{word} of nothing",
            lambda: getattr(torch.fft, word)(none),
            match="(?i)invalid number of data points",
        )
    single = torch.empty(2, 1, dtype=torch.complex64, device=lab.device)
    for word in ("irfft", "irfft2", "irfftn", "hfft", "hfft2", "hfftn"):
        lab.raises(
            f"{word} of one point",
            lambda: getattr(torch.fft, word)(single),
            match="(?i)invalid number of data points",
        )
    x = lab.integers(3, 4, 5)
    for word in [w for w in words if w.endswith("n") or w.endswith("2")]:
        function = getattr(torch.fft, word)
        lab.raises(f"{word} of the same dimension", lambda: function(x, dim=(0, 0)), match="(?i)unique")
        lab.raises(f"{word} of the same from both ends", lambda: function(x, dim=(2, -1)), match="(?i)unique")
        lab.raises(
            f"{word} to too few sizes", lambda: function(x, s=(1,), dim=(0, 1)), match="(?i)same length"
        )
        lab.raises(f"{word} of a dimension that does not exist", lambda: function(x, dim=(3,)), IndexError)
        if word.endswith("n"):
            lab.raises(
                f"{word} to too many sizes", lambda: function(x, s=(2, 2, 2, 2)), match="(?i)dimensions"
            )
    lab.raises("fft of a dimension that does not exist", lambda: torch.fft.fft(x, dim=3), IndexError)
    lab.raises("fft by another norm", lambda: torch.fft.fft(x, norm="none"), match="(?i)norm")
    lab.raises("fft to no points", lambda: torch.fft.fft(x, 0), match="(?i)invalid number of data points")


@behaviour("fft", dtypes=_REAL, level="core", sees=("value",))
def frequencies_and_shifts(lab: Lab) -> None:
    """fftfreq and rfftfreq give NumPy's frequencies, into out= with a warning if it is resized; fftshift and
    ifftshift put them in order and back.
    """
    for count, spacing in itertools.product((1, 2, 7, 8, 19), (1.0, 0.5, 4.0)):
        for word in ("fftfreq", "rfftfreq"):
            frequencies = getattr(torch.fft, word)(count, spacing, dtype=lab.dtype, device=lab.device)
            lab.expect(
                f"{word} of {count} by {spacing}",
                frequencies,
                getattr(numpy.fft, word)(count, spacing),
                roundings=4.0,
            )
    for word in ("fftfreq", "rfftfreq"):
        out = torch.empty((), dtype=lab.dtype, device=lab.device)
        lab.warns(
            f"{word} into another shape",
            lambda: getattr(torch.fft, word)(8, 0.5, out=out),
            match="(?i)resized",
        )
        lab.expect(f"{word} into out", out, getattr(numpy.fft, word)(8, 0.5), roundings=4.0)
    for shape, dims in (((7,), None), ((8,), (0,)), ((4, 5), None), ((4, 5), (1,)), ((2, 3, 4, 5), (1, 3))):
        x = lab.integers(*shape)
        for word in ("fftshift", "ifftshift"):
            lab.expect(
                f"{word} of {shape} over {dims}",
                getattr(torch.fft, word)(x, dims),
                getattr(numpy.fft, word)(values(x), dims),
            )
    for count in (9, 10):
        x = torch.fft.fftfreq(count, 1 / count, dtype=lab.dtype, device=lab.device)
        shifted = torch.fft.fftshift(x)
        lab.expect(
            f"{count} in order", shifted, numpy.arange(-(count // 2), count - count // 2), roundings=8.0
        )
        lab.expect(f"{count} and back", torch.fft.ifftshift(shifted), values(x))
