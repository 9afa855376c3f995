"""Behaviours of short-time Fourier transforms: ``stft`` and ``istft``."""

from __future__ import annotations

import contextlib
import itertools
import math
from typing import Any

import numpy
import torch

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api._numpy_values import (
    Array,
    expect_error_for_two_devices,
    tensor_from_array,
    to_widest_numpy_array,
)
from conformance.properties.api.fft.transforms import allowed_roundings_of_transform

_DTYPES = ("float64", "complex128", "float32")


def _stft_by_definition(array: Array, window: Array, hop: int) -> Array:
    """Return the transforms of the windowed frames of a one-dimensional signal, one frame per column."""
    size = len(window)
    starts = range(0, len(array) - size + 1, hop)
    return numpy.stack([numpy.fft.fft(array[start : start + size] * window) for start in starts], 1)


@behaviour("fft", dtypes=_DTYPES, level="core", must_detect=("value",), page="generated/torch.stft.html")
def short_time_transforms(lab: Lab) -> None:
    """``stft`` returns the Fourier transforms of the windowed frames of a signal. Options select padding,
    one-sided results, normalisation and the window. Batches are accepted.
    """
    signal = lab.integers(40)
    array = to_widest_numpy_array(signal)
    for size, hop, window_size in itertools.product((8, 7), (2, 5), (None, 5)):
        window = lab.integers(
            size if window_size is None else window_size,
            low=1,
            high=4,
            dtype=torch.float64 if lab.dtype != torch.float32 else torch.float32,
        )
        padded = numpy.zeros(size)
        margin = (size - len(window)) // 2
        padded[margin : margin + len(window)] = to_widest_numpy_array(window)
        expected = _stft_by_definition(array, padded, hop)
        options: dict[str, Any] = {
            "n_fft": size,
            "hop_length": hop,
            "win_length": len(window),
            "window": window,
            "return_complex": True,
        }
        name = f"{size} by {hop} with a window of {len(window)}"
        with (
            lab.parity("No page says which side gets the larger half of an odd padding")
            if (size - len(window)) % 2
            else contextlib.nullcontext()
        ):
            lab.expect(
                name,
                torch.stft(signal, center=False, onesided=False, **options),
                expected,
                roundings=allowed_roundings_of_transform(8 * size),
            )
            lab.expect(
                f"normalised {name}",
                signal.stft(center=False, onesided=False, normalized=True, **options),
                expected / math.sqrt(size),
                roundings=allowed_roundings_of_transform(8 * size),
            )
            batch = torch.stack([signal, 2 * signal])
            lab.expect(
                f"a batch {name}",
                torch.stft(batch, center=False, onesided=False, **options),
                numpy.stack([expected, 2 * expected]),
                roundings=allowed_roundings_of_transform(8 * size),
            )
            for mode, numpy_mode in (("reflect", "reflect"), ("constant", "constant"), ("circular", "wrap")):
                around = numpy.pad(array, size // 2, numpy_mode)  # type: ignore[call-overload]
                lab.expect(
                    f"centred by {mode} {name}",
                    torch.stft(signal, pad_mode=mode, onesided=False, **options),
                    _stft_by_definition(around, padded, hop),
                    roundings=allowed_roundings_of_transform(8 * size),
                )
            if not lab.dtype.is_complex:
                lab.expect(
                    f"one side {name}",
                    torch.stft(signal, center=False, **options),
                    expected[: size // 2 + 1],
                    roundings=allowed_roundings_of_transform(8 * size),
                )
    turns = tensor_from_array(
        lab,
        numpy.exp(1j * numpy.arange(8)),
        torch.complex128 if lab.dtype != torch.float32 else torch.complex64,
    )
    result = torch.stft(signal, 8, 3, window=turns, center=False)
    lab.expect(
        "a complex window",
        result,
        _stft_by_definition(array, to_widest_numpy_array(turns), 3),
        roundings=allowed_roundings_of_transform(64),
    )


@behaviour(
    "fft",
    dtypes=("float64", "complex128"),
    level="core",
    must_detect=("value",),
    page="generated/torch.istft.html",
)
def short_time_transforms_and_back(lab: Lab) -> None:
    """``istft`` inverts ``stft`` for any size, hop, padding and normalisation, also for batches and complex
    signals. ``istft`` is linear. Beyond the last frame, the result of ``istft`` is zero.
    """
    for shape, size, hop, mode, normalised in itertools.product(
        ((60,), (2, 47)), (12, 9), (3, 4), ("constant", "reflect", "circular"), (False, True)
    ):
        x = lab.integers(*shape)
        window = torch.hann_window(size, dtype=torch.float64, device=lab.device) + 0.25
        options: dict[str, Any] = {
            "n_fft": size,
            "hop_length": hop,
            "window": window,
            "normalized": normalised,
        }
        for onesided in (False,) if lab.dtype.is_complex else (False, True):
            spectrum = torch.stft(x, pad_mode=mode, onesided=onesided, return_complex=True, **options)
            back = torch.istft(
                spectrum, onesided=onesided, length=shape[-1], return_complex=lab.dtype.is_complex, **options
            )
            lab.expect(
                f"{shape} {size} {hop} {mode} {normalised} {onesided}",
                back,
                to_widest_numpy_array(x),
                roundings=allowed_roundings_of_transform(64 * size),
            )
    wide = torch.complex128
    window = torch.hann_window(12, dtype=torch.float64, device=lab.device) + 0.25
    real, imaginary = lab.integers(2, 7, 9, dtype=wide), lab.integers(2, 7, 9, dtype=wide)
    options = {"n_fft": 12, "hop_length": 4, "window": window}
    apart = (
        to_widest_numpy_array(real.istft(**options)) * 2
        - to_widest_numpy_array(imaginary.istft(**options)) * 3
    )
    lab.expect(
        "linear",
        torch.istft(2 * real - 3 * imaginary, **options),
        apart,
        roundings=allowed_roundings_of_transform(1024),
    )
    lab.expect(
        "a batch",
        torch.istft(real, **options)[1],
        to_widest_numpy_array(torch.istft(real[1], **options)),
        roundings=allowed_roundings_of_transform(256),
    )
    flat = torch.zeros(3, 5, dtype=wide, device=lab.device)
    flat[0] = 4
    lab.expect(
        "a constant", torch.istft(flat, 4, length=4), [1.0] * 4, roundings=allowed_roundings_of_transform(64)
    )
    ones = torch.ones(5, dtype=torch.float64, device=lab.device)
    for cycle in (1, 2):
        wave: Any = torch.zeros(3, 2, dtype=wide, device=lab.device)
        wave[cycle] = -10j
        back = torch.istft(wave, 5, 5, 5, ones, center=False)
        lab.expect(
            f"a sine of {cycle}",
            back,
            4 * numpy.sin(2 * numpy.pi * cycle * numpy.arange(10) / 5),
            roundings=allowed_roundings_of_transform(64),
        )
    x = lab.integers(20, dtype=torch.float64)
    box = torch.ones(6, dtype=torch.float64, device=lab.device)
    spectrum = torch.stft(x, 6, 4, window=box, center=False, return_complex=True)
    back = lab.warns(
        "a length beyond the frames",
        lambda: torch.istft(spectrum, 6, 4, window=box, center=False, length=25),
        match="(?i)shorter than the length",
    )
    lab.expect("zeros beyond the frames", back[18:], [0.0] * 7)
    lab.expect(
        "the signal within the frames",
        back[:18],
        to_widest_numpy_array(x)[:18],
        roundings=allowed_roundings_of_transform(64),
    )


@behaviour(
    "fft",
    dtypes=("float64",),
    level="core",
    must_detect=("error",),
    page="generated/torch.stft.html",
    ground="notes/cuda.html says that operators on tensors of different GPUs raise errors",
)
def short_time_transforms_refuse(lab: Lab) -> None:
    """``stft`` raises errors for sizes, windows and shapes that do not match, for a one-sided transform of a
    complex signal, and for a missing ``return_complex``. ``istft`` raises errors for windows that leave gaps
    and for empty spectra.
    """
    x = lab.integers(10)
    options: dict[str, Any] = {"return_complex": True}
    lab.raises("three dimensions", lambda: lab.integers(10, 4, 2).stft(1, 1, **options))
    with lab.parity("No page says that a size above the signal's length is refused"):
        lab.raises(
            "a transform size above the signal's length", lambda: x.stft(11, 1, center=False, **options)
        )
    with lab.parity("No page says that a negative size is refused"):
        lab.raises("negative points", lambda: x.stft(-1, 1, **options))
    with lab.parity("The page limits the window's length, and does not mention win_length without a window"):
        lab.raises("a window that is too long", lambda: x.stft(3, win_length=5, **options))
    lab.raises(
        "a window whose length is not win_length", lambda: x.stft(5, 4, window=lab.integers(11), **options)
    )
    lab.raises("a window of two dimensions", lambda: x.stft(5, 4, window=lab.integers(1, 1), **options))
    z = lab.integers(20, dtype=torch.complex128)
    lab.raises(
        "a one-sided transform of a complex signal",
        lambda: z.stft(10, pad_mode="constant", onesided=True),
        match="(?i)complex",
    )
    lab.raises(
        "a one-sided transform with a complex window",
        lambda: lab.integers(20).stft(10, window=z[:10], pad_mode="constant", onesided=True),
        match="(?i)complex",
    )
    lab.raises("no return_complex", lambda: x.stft(4, pad_mode="constant"), match="(?i)return_complex")
    for flag in (True, False):
        with lab.parity("The page does not describe align_to_window"):
            lab.raises(
                f"align_to_window={flag} when centred",
                lambda: x.stft(4, center=True, align_to_window=flag, **options),
                match="(?i)align_to_window",
            )
    spectrum = torch.zeros(3, 5, dtype=torch.complex128, device=lab.device)
    ones = torch.ones(1, dtype=torch.float64, device=lab.device)
    lab.raises("istft with gaps", lambda: torch.istft(spectrum, 4, 20, 1, ones))
    lab.raises(
        "istft with a window of zeros",
        lambda: torch.istft(
            spectrum, 4, win_length=4, window=torch.zeros(4, dtype=torch.float64, device=lab.device)
        ),
    )
    with lab.parity("No page says that a spectrum without frames is refused"):
        lab.raises("istft of nothing", lambda: torch.istft(spectrum[:, :0], 2), RuntimeError)
    with lab.parity("No page says that a spectrum without frequencies is refused"):
        lab.raises("istft of no rows", lambda: torch.istft(spectrum[:0], 2), RuntimeError)
    lab.raises("istft of a real spectrum", lambda: torch.istft(spectrum.real, 4), RuntimeError)
    lab.warns(
        "stft without a window",
        lambda: x.stft(4, pad_mode="constant", return_complex=True),
        match="(?i)window was not provided",
        is_documented=True,
    )
    lab.warns(
        "istft without a window",
        lambda: torch.istft(spectrum, 4),
        match="(?i)window was not provided",
        is_documented=True,
    )
    window = torch.ones(4, dtype=torch.float64)
    expect_error_for_two_devices(
        lab,
        "stft with a window on the CPU",
        lambda: x.stft(4, window=window, **options),
        match="(?i)same device",
    )
    expect_error_for_two_devices(
        lab,
        "istft with a window on the CPU",
        lambda: torch.istft(spectrum, 4, window=window),
        match="(?i)same device",
    )
