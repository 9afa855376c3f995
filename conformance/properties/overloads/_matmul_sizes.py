"""Long sums, which kernels split over threads or a grid: matrix products, and sums of whole numbers.

Rounding errors of long sums of random numbers are large in 16 bits, and so are their tolerances. If the terms
are whole numbers, partial sums are exact, and a much smaller error shows a fault.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import torch

from conformance.oracle.reference import Agreement
from conformance.properties.overloads._modified_calls import reference_of_modified_call, with_mapped_tensors
from conformance.properties.overloads._references import OverloadReference
from conformance.samples.dispatched_kernels import base_name
from conformance.samples.handmade_calls.calls import TensorMaker
from conformance.samples.operators import dtype_name
from conformance.samples.sizes import ANY, GROUP, SPLIT, draw_sizes

#: The maximum number of products in a sum.
_LONGEST = 10_000

#: Arguments that multiply the two summands of operators such as ``addmm``.
_FACTORS = frozenset({"alpha", "beta"})
#: The number of products in each sum of a large batch.
_SHORT = 3
#: The maximum number of addends in a sum of whole numbers. A larger sum could overflow float16. By the notes
#: on numerical accuracy, a mean may overflow too if its sum does.
_MOST_ADDENDS = 100_000
#: Overloads that add up the elements of their first tensor.
_SUMS = frozenset({"sum", "nansum", "mean"})

#: The shapes of the tensors of each overload, with one character per dimension: a digit is the size of the
#: dimension, ``k`` is the length of the sum, and ``b`` is the size of the batch.
_SHAPES: Mapping[str, Sequence[str]] = {
    "mm": ("2k", "k3"),
    "addmm": ("23", "2k", "k3"),
    "bmm": ("b2k", "bk3"),
    "baddbmm": ("b23", "b2k", "bk3"),
    "addbmm": ("23", "b2k", "bk3"),
    "mv": ("2k", "k"),
    "addmv": ("2", "2k", "k"),
    "dot": ("k", "k"),
    "vdot": ("k", "k"),
}


def references_of_long_matrix_products(
    references: Sequence[OverloadReference],
) -> Iterator[OverloadReference]:
    """Yield references of the first call, changed to sums of several lengths and to a large batch.

    The iterator is empty if the overload is not in the table of matrix products.
    """
    for reference in references[:1]:
        shapes = _SHAPES.get(base_name(reference.subject.name), ())
        text = f"products of {reference.subject.name} {dtype_name(reference.dtype)}"
        *lengths, batch = draw_sizes(text, (SPLIT, SPLIT, ANY, GROUP))
        sizes = [(min(length, _LONGEST), 2) for length in lengths]
        if any("b" in shape for shape in shapes):
            sizes.append((_SHORT, batch))
        for length, batch in sizes if shapes else ():
            for agreement in _agreements_for_sum_length(reference.dtype, length):
                changed = _with_sizes(reference, shapes, {"k": length, "b": batch}, agreement)
                if changed is not None:
                    yield changed


def _agreements_for_sum_length(dtype: torch.dtype, length: int) -> Sequence[Agreement]:
    """Return the agreements with which matrix products with sums of this length are compared.

    Integer dtypes have no ``SUMS_OF_WHOLE_NUMBERS``, because long sums of nonzero integers overflow 8 bits.
    Short sums belong to a large batch and have no ``EXACT_SUMS``: ``addbmm`` adds up the batch, so 16 bits
    do not represent every partial sum.
    """
    agreements = [Agreement.TOLERANCE]
    if dtype.is_floating_point or dtype.is_complex:
        agreements.append(Agreement.SUMS_OF_WHOLE_NUMBERS)
    return [*agreements, Agreement.EXACT_SUMS] if length > _SHORT else agreements


def references_of_whole_number_sums(references: Sequence[OverloadReference]) -> Iterator[OverloadReference]:
    """Yield references of calls of a sum or mean whose arguments are small whole numbers.

    The iterator is empty if the overload is neither a sum nor a mean, or if its dtype is integral.
    """
    for reference in references:
        if base_name(reference.subject.name) not in _SUMS or not reference.dtype.is_floating_point:
            continue
        if max(tensor.numel() for tensor in reference.sample.tensors()) > _MOST_ADDENDS:
            continue
        make = TensorMaker(f"whole {reference.sample.describe()}", dtype_name(reference.dtype))
        changed = reference_of_modified_call(
            reference,
            with_mapped_tensors(
                reference.sample,
                lambda tensor, make=make: _whole_numbers(make, tuple(tensor.shape)),  # type: ignore[misc]
            ),
            Agreement.SUMS_OF_WHOLE_NUMBERS,
        )
        if changed is not None:
            yield changed


def _with_sizes(
    reference: OverloadReference, shapes: Sequence[str], sizes: Mapping[str, int], agreement: Agreement
) -> OverloadReference | None:
    make = TensorMaker(f"{reference.subject.name} {dict(sizes)}", dtype_name(reference.dtype))
    tensors = reference.sample.tensors()
    if len(tensors) != len(shapes):
        return None
    new: dict[int, torch.Tensor] = {}
    for tensor, letters in zip(tensors, shapes, strict=True):
        shape = tuple(sizes.get(letter) or int(letter) for letter in letters)
        if agreement is Agreement.TOLERANCE:
            new[id(tensor)] = make.values(*shape, low=-1, high=1)
        elif agreement is Agreement.EXACT_SUMS and "k" in letters:
            new[id(tensor)] = _mostly_zeros(make.values(*shape), letters.index("k"))
        else:
            new[id(tensor)] = _whole_numbers(make, shape)
    sample = with_mapped_tensors(reference.sample, lambda tensor: new[id(tensor)])
    if agreement is not Agreement.TOLERANCE:  # with a factor such as 0.6, each term would be rounded
        sample = sample.replace(kwargs={**sample.kwargs, **dict.fromkeys(sample.kwargs.keys() & _FACTORS, 1)})
    return reference_of_modified_call(reference, sample, agreement)


def _whole_numbers(make: TensorMaker, shape: tuple[int, ...]) -> torch.Tensor:
    """Return whole numbers from 0 to 3, or from 0 to 1 if a sum of larger numbers could overflow float16."""
    highest = 3 if math.prod(shape) <= 20_000 else 1
    values = make.values(*shape, low=0, high=highest + 0.99)
    if not make.dtype.is_complex:
        return values.floor() if make.dtype.is_floating_point else values
    parts = torch.view_as_real(values.to(torch.complex128))
    return torch.view_as_complex(parts.floor()).to(make.dtype)


def _mostly_zeros(values: torch.Tensor, dimension: int) -> torch.Tensor:
    """Return zeros, except for ones at both ends of a dimension and beside each power of two from 64.

    The tiles of kernels end at powers of two. The sums are small, so each missing product changes a result.
    """
    length = values.shape[dimension]
    borders = [1 << exponent for exponent in range(6, length.bit_length())]
    positions = sorted({0, length - 1, *(border - 1 for border in borders), *borders} & set(range(length)))
    return torch.zeros_like(values).index_fill_(dimension, torch.tensor(positions), 1)
