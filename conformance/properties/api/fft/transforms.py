"""Behaviours of discrete Fourier transforms (``torch.fft``), compared with NumPy's transforms."""

from __future__ import annotations

import contextlib
import itertools
import math
from typing import Any

import numpy
import torch

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api._numpy_values import Array, tensor_from_array, to_widest_numpy_array

_REAL = ("float32", "float64")
_ALL = (*_REAL, "complex64", "complex128")
_NORMS: tuple[Any, ...] = (None, "forward", "backward", "ortho")


def allowed_roundings_of_transform(count: int) -> float:
    """Return the allowed error, in roundings, of a transform of ``count`` elements.

    Each result is a sum of ``count`` terms. The error of a result, in roundings of the largest result, is
    therefore below a small multiple of ``count``.
    """
    return 4.0 * count + 16


def _hfft_by_definition(array: Array, size: int | None, dim: int, norm: Any) -> Array:
    """Return ``hfft`` of an array, computed by ``irfft`` of the conjugate."""
    count = size or 2 * (array.shape[dim] - 1)
    result = numpy.fft.irfft(array.conj(), count, dim)
    return result * {None: count, "backward": count, "forward": 1, "ortho": math.sqrt(count)}[norm]


def _is_same_transform(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Return whether two results of one transform agree up to rounding."""
    if first.shape != second.shape or first.dtype != second.dtype:
        return False
    return bool((first - second).abs().max() <= second.abs().max() * 1e-5)


@behaviour("fft", dtypes=_ALL, level="core", must_detect=("value", "shape"))
def transforms_of_one_dimension(lab: Lab) -> None:
    """``fft``, ``ifft``, ``rfft``, ``irfft``, ``hfft`` and ``ihfft`` agree with NumPy for all lengths,
    dimensions, norms and strides.
    """
    for shape, dim in (((8,), -1), ((7, 6), 0), ((3, 5, 4), 1)):
        x = lab.integers(*shape)
        array = to_widest_numpy_array(x)
        count = shape[dim]
        for n, norm in itertools.product((None, 5, 12), _NORMS):
            name = f"of {shape} along {dim} to {n} by {norm}"
            size = max(count, n or 0)
            lab.expect(
                f"fft {name}",
                torch.fft.fft(x, n, dim, norm),
                numpy.fft.fft(array, n, dim, norm),
                roundings=allowed_roundings_of_transform(size),
            )
            lab.expect(
                f"ifft {name}",
                torch.fft.ifft(x, n, dim, norm),
                numpy.fft.ifft(array, n, dim, norm),
                roundings=allowed_roundings_of_transform(size),
            )
            lab.expect(
                f"irfft {name}",
                torch.fft.irfft(x, n, dim, norm),
                numpy.fft.irfft(array, n, dim, norm),
                roundings=allowed_roundings_of_transform(2 * size),
            )
            lab.expect(
                f"hfft {name}",
                torch.fft.hfft(x, n, dim, norm),
                _hfft_by_definition(array, n, dim, norm),
                roundings=allowed_roundings_of_transform(2 * size),
            )
            if not lab.dtype.is_complex:
                lab.expect(
                    f"rfft {name}",
                    torch.fft.rfft(x, n, dim, norm),
                    numpy.fft.rfft(array, n, dim, norm),
                    roundings=allowed_roundings_of_transform(size),
                )
                lab.expect(
                    f"ihfft {name}",
                    torch.fft.ihfft(x, n, dim, norm),
                    numpy.fft.ihfft(array, n, dim, norm),
                    roundings=allowed_roundings_of_transform(size),
                )
    turned = lab.integers(5, 6, 4).permute(2, 0, 1)
    lab.expect(
        "permuted",
        torch.fft.fft(turned, dim=1),
        numpy.fft.fft(to_widest_numpy_array(turned), axis=1),
        roundings=allowed_roundings_of_transform(5),
    )
    gapped = lab.integers(3, 20)[:, 1::2]
    lab.expect(
        "with gaps",
        torch.fft.fft(gapped),
        numpy.fft.fft(to_widest_numpy_array(gapped)),
        roundings=allowed_roundings_of_transform(10),
    )
    lab.expect(
        "expanded",
        torch.fft.fft(gapped[:1].expand(4, 10)),
        numpy.fft.fft(numpy.repeat(to_widest_numpy_array(gapped)[:1], 4, 0)),
        roundings=allowed_roundings_of_transform(10),
    )
    out = torch.empty(0, dtype=torch.fft.fft(turned).dtype, device=lab.device)
    lab.holds("fft returns out", torch.fft.fft(gapped, out=out) is out)
    lab.expect(
        "out", out, numpy.fft.fft(to_widest_numpy_array(gapped)), roundings=allowed_roundings_of_transform(10)
    )


@behaviour("fft", dtypes=_ALL, level="core", must_detect=("value", "shape"))
def transforms_of_several_dimensions(lab: Lab) -> None:
    """``fftn``, ``rfftn`` and their inverses agree with NumPy for any dimensions and sizes. ``hfftn`` and
    ``ihfftn`` agree with their definitions. ``fft2`` and the other two-dimensional functions agree with the
    n-dimensional functions.
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
        array = to_widest_numpy_array(x)
        for norm in _NORMS:
            name = f"of {shape} over {dims} to {sizes} by {norm}"
            axes = (
                dims
                if dims is not None or sizes is None
                else tuple(range(len(shape) - len(sizes), len(shape)))
            )
            count = 2 * math.prod(sizes or shape)
            for function_name in ("fftn", "ifftn"):
                expected = getattr(numpy.fft, function_name)(array, sizes, axes, norm)
                lab.expect(
                    f"{function_name} {name}",
                    getattr(torch.fft, function_name)(x, sizes, dims, norm),
                    expected,
                    roundings=allowed_roundings_of_transform(count),
                )
            # The input of ``irfftn`` is half of a Hermitian spectrum, because the result is unspecified for
            # any other input.
            half = numpy.fft.rfftn(array.real, sizes, axes, norm)
            lengths = sizes or [shape[d] for d in (range(len(shape)) if axes is None else axes)]
            kind = torch.complex64 if lab.dtype in (torch.float32, torch.complex64) else torch.complex128
            lab.expect(
                f"irfftn {name}",
                torch.fft.irfftn(tensor_from_array(lab, half, kind), lengths, dims, norm),
                numpy.fft.irfftn(half, lengths, axes, norm),
                roundings=allowed_roundings_of_transform(4 * count),
            )
            if lab.dtype.is_complex:
                continue
            lab.expect(
                f"rfftn {name}",
                torch.fft.rfftn(x, sizes, dims, norm),
                numpy.fft.rfftn(array, sizes, axes, norm),
                roundings=allowed_roundings_of_transform(count),
            )
            if sizes is None:
                last = tuple(range(len(shape)))[-1] if axes is None else axes[-1]
                half = numpy.fft.ifftn(array, None, axes, norm)
                cut = half.take(range(shape[last] // 2 + 1), last)
                lab.expect(
                    f"ihfftn {name}",
                    torch.fft.ihfftn(x, None, dims, norm),
                    cut,
                    roundings=allowed_roundings_of_transform(count),
                )
                half_spectrum = tensor_from_array(
                    lab, cut, torch.complex128 if lab.dtype == torch.float64 else torch.complex64
                )
                whole = [shape[d] for d in (range(len(shape)) if axes is None else axes)]
                back = torch.fft.hfftn(half_spectrum, whole, dims, norm)
                lab.expect(f"hfftn {name}", back, array, roundings=allowed_roundings_of_transform(4 * count))
    x = lab.integers(3, 4, 6)
    for function_name in (
        "fft",
        "ifft",
        "irfft",
        "hfft",
        *(() if lab.dtype.is_complex else ("rfft", "ihfft")),
    ):
        for sizes, norm in itertools.product((None, (4, 8)), _NORMS):
            two, several = getattr(torch.fft, f"{function_name}2"), getattr(torch.fft, f"{function_name}n")
            for dims_name, result, expected in (
                ("", two(x, sizes, norm=norm), several(x, sizes, (-2, -1), norm)),
                (" of other dimensions", two(x, sizes, (1, 0), norm), several(x, sizes, (1, 0), norm)),
            ):
                name = f"{function_name}2{dims_name} to {sizes} by {norm}"
                if function_name in ("irfft", "hfft"):
                    # The input is not half of a Hermitian signal. The result is therefore unspecified, and is
                    # not compared with the CPU's result.
                    lab.holds(f"{name} agrees with {function_name}n", _is_same_transform(result, expected))
                else:
                    lab.expect(
                        name,
                        result,
                        to_widest_numpy_array(expected),
                        roundings=allowed_roundings_of_transform(64),
                    )
    for function_name in ("fftn", "ifftn", "fft2", "ifft2"):
        with lab.parity("No page says what a transform over no dimensions returns"):
            lab.expect(
                f"{function_name} of no dimensions",
                getattr(torch.fft, function_name)(x, dim=[]),
                to_widest_numpy_array(x).astype(complex),
            )


@behaviour("fft", dtypes=_ALL, level="core", must_detect=("value",))
def transforms_and_back(lab: Lab) -> None:
    """A transform followed by its inverse returns the input, for every norm, odd lengths and non-contiguous
    inputs. Neither the transform nor its inverse changes its input.
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
        before = to_widest_numpy_array(x)
        for forward, backward in pairs:
            options: dict[str, Any] = {"n": x.shape[dim], "dim": dim, "norm": norm}
            lab.expect(
                f"{forward.__name__} of {name} by {norm} along {dim}",
                backward(forward(x, **options), **options),
                before + (0j if forward is torch.fft.fft else 0),
                roundings=allowed_roundings_of_transform(4 * x.shape[dim]),
            )
        for forward, backward in several:
            options = {"s": x.shape, "norm": norm}
            if dim == -1:
                lab.expect(
                    f"{forward.__name__} of {name} by {norm}",
                    backward(forward(x, **options), **options),
                    before + (0j if forward is torch.fft.fftn else 0),
                    roundings=allowed_roundings_of_transform(4 * x.numel()),
                )
        with lab.consistent(
            "The input must be the same before and after a call that does not write in place"
        ):
            lab.expect(f"{name} afterwards by {norm} along {dim}", x, before)
    wide = torch.complex128 if lab.dtype in (torch.float64, torch.complex128) else torch.complex64
    for size in (1024, 1013, 2310):
        x = lab.integers(size, low=-1, high=2, dtype=wide)
        first, second = torch.fft.fft(x), torch.fft.fft(x.clone())
        with lab.consistent("two transforms of the same input must agree"):
            lab.holds(
                f"two transforms of {size} agree",
                _is_same_transform(first, second),
            )
        lab.expect(
            f"a transform of {size}",
            first,
            numpy.fft.fft(to_widest_numpy_array(x)),
            roundings=allowed_roundings_of_transform(size),
        )
    half = torch.fft.rfft(lab.integers(6, dtype=torch.float32))
    half_values = to_widest_numpy_array(half)
    torch.fft.irfft(half, 6)
    with lab.consistent("The input must be the same before and after a call that does not write in place"):
        lab.expect("a half spectrum afterwards", half, half_values)


@behaviour(
    "fft",
    dtypes=("any",),
    level="core",
    must_detect=("dtype", "error"),
    ground="The page's examples show int64 input and complex64 results",
)
def dtypes_of_transforms(lab: Lab) -> None:
    """Transforms of integers and booleans use the default dtype. ``fft`` of real input is complex, and
    ``irfft`` of complex input is real. ``rfft`` and ``ihfft`` reject complex input.
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
        real = torch.float64 if wide == torch.complex128 else torch.float32
        with (
            lab.parity("The pages mention neither bool nor small integers as input")
            if dtype in (torch.int8, torch.bool)
            else contextlib.nullcontext()
        ):
            lab.expect(f"fft of {dtype}", (torch.fft.fft(x).dtype, torch.fft.ifftn(x).dtype), (wide, wide))
            lab.expect(f"hfft of {dtype}", (torch.fft.hfft(x).dtype, torch.fft.irfft(x).dtype), (real, real))
            if not dtype.is_complex:
                lab.expect(
                    f"rfft of {dtype}", (torch.fft.rfft(x).dtype, torch.fft.ihfft(x).dtype), (wide, wide)
                )
    z = lab.integers(8, dtype=torch.complex64)
    for function_name in ("rfft", "rfftn", "ihfft"):
        lab.raises(
            f"{function_name} of complex numbers",
            lambda: getattr(torch.fft, function_name)(z),
            match="(?i)real",
        )
    lab.raises("rfft2 of complex numbers", lambda: torch.fft.rfft2(z.view(2, 4)), match="(?i)real")


@behaviour(
    "fft",
    dtypes=("float32", "complex64"),
    level="core",
    must_detect=("error", "message"),
    basis="parity",
    ground="No page says which lengths, dimensions, sizes or norms are refused",
)
def transforms_refuse(lab: Lab) -> None:
    """A transform raises an error for a length of zero, for a dimension that does not exist or is repeated,
    and for sizes that do not match its dimensions.
    """
    function_names = ["fft", "ifft", "irfft", "hfft", "fftn", "ifftn", "irfftn", "fft2", "ifft2", "irfft2"]
    function_names += [] if lab.dtype.is_complex else ["rfft", "ihfft", "rfftn", "rfft2"]
    none = torch.empty(1, 0, dtype=lab.dtype, device=lab.device)
    for function_name in function_names:
        lab.raises(
            f"{function_name} of no elements",
            lambda: getattr(torch.fft, function_name)(none),
            match="(?i)invalid number of data points",
        )
    single = torch.empty(2, 1, dtype=torch.complex64, device=lab.device)
    for function_name in ("irfft", "irfft2", "irfftn", "hfft", "hfft2", "hfftn"):
        lab.raises(
            f"{function_name} of one point",
            lambda: getattr(torch.fft, function_name)(single),
            match="(?i)invalid number of data points",
        )
    x = lab.integers(3, 4, 5)
    for function_name in [name for name in function_names if name.endswith("n") or name.endswith("2")]:
        function = getattr(torch.fft, function_name)
        lab.raises(
            f"{function_name} over a repeated dimension", lambda: function(x, dim=(0, 0)), match="(?i)unique"
        )
        lab.raises(
            f"{function_name} over a dimension counted from both ends",
            lambda: function(x, dim=(2, -1)),
            match="(?i)unique",
        )
        lab.raises(
            f"{function_name} with too few sizes",
            lambda: function(x, s=(1,), dim=(0, 1)),
            match="(?i)same length",
        )
        lab.raises(
            f"{function_name} over a dimension that does not exist", lambda: function(x, dim=(3,)), IndexError
        )
        if function_name.endswith("n"):
            lab.raises(
                f"{function_name} with too many sizes",
                lambda: function(x, s=(2, 2, 2, 2)),
                match="(?i)dimensions",
            )
    lab.raises("fft over a dimension that does not exist", lambda: torch.fft.fft(x, dim=3), IndexError)
    lab.raises("fft by another norm", lambda: torch.fft.fft(x, norm="none"), match="(?i)norm")
    lab.raises("fft to no points", lambda: torch.fft.fft(x, 0), match="(?i)invalid number of data points")


@behaviour("fft", dtypes=_REAL, level="core", must_detect=("value",), page="generated/torch.fft.fftfreq.html")
def frequencies_and_shifts(lab: Lab) -> None:
    """``fftfreq`` and ``rfftfreq`` return NumPy's frequencies, and warn if they resize ``out=``.
    ``fftshift`` and ``ifftshift`` sort the frequencies and restore their order.
    """
    for count, spacing in itertools.product((1, 2, 7, 8, 19), (1.0, 0.5, 4.0)):
        for function_name in ("fftfreq", "rfftfreq"):
            frequencies = getattr(torch.fft, function_name)(
                count, spacing, dtype=lab.dtype, device=lab.device
            )
            lab.expect(
                f"{function_name} of {count} by {spacing}",
                frequencies,
                getattr(numpy.fft, function_name)(count, spacing),
                roundings=4.0,
            )
    for function_name in ("fftfreq", "rfftfreq"):
        out = torch.empty((), dtype=lab.dtype, device=lab.device)
        lab.warns(
            f"{function_name} into another shape",
            lambda: getattr(torch.fft, function_name)(8, 0.5, out=out),
            match="(?i)resized",
        )
        lab.expect(f"{function_name} into out", out, getattr(numpy.fft, function_name)(8, 0.5), roundings=4.0)
    for shape, dims in (((7,), None), ((8,), (0,)), ((4, 5), None), ((4, 5), (1,)), ((2, 3, 4, 5), (1, 3))):
        x = lab.integers(*shape)
        for function_name in ("fftshift", "ifftshift"):
            lab.expect(
                f"{function_name} of {shape} over {dims}",
                getattr(torch.fft, function_name)(x, dims),
                getattr(numpy.fft, function_name)(to_widest_numpy_array(x), dims),
            )
    for count in (9, 10):
        x = torch.fft.fftfreq(count, 1 / count, dtype=lab.dtype, device=lab.device)
        shifted = torch.fft.fftshift(x)
        lab.expect(
            f"{count} in order", shifted, numpy.arange(-(count // 2), count - count // 2), roundings=8.0
        )
        lab.expect(f"{count} and back", torch.fft.ifftshift(shifted), to_widest_numpy_array(x))
