"""Matrix products with long sums and large batches, which kernels split over threads or a grid."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch

from conformance.properties.overloads._modified_calls import reference_of_modified_call, with_mapped_tensors
from conformance.properties.overloads._references import OverloadReference
from conformance.samples.dispatched_kernels import base_name
from conformance.samples.handmade_calls.calls import Maker
from conformance.samples.operators import dtype_name

#: ``_LENGTHS`` are the lengths of the sums. ``_BATCH`` is the size of a large batch.
_LENGTHS = (1025, 4097)
_BATCH = 513

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


def long_products(references: Sequence[OverloadReference]) -> Iterator[OverloadReference]:
    """Yield references of the first call with sums of each length and with a large batch.

    The iterator is empty if the overload is not in the table of matrix products.
    """
    for reference in references[:1]:
        shapes = _SHAPES.get(base_name(reference.subject.name), ())
        sizes = [(length, 2) for length in _LENGTHS]
        if any("b" in shape for shape in shapes):
            sizes.append((3, _BATCH))
        for length, batch in sizes if shapes else ():
            for sparse in (False, True):
                changed = _with_sizes(reference, shapes, {"k": length, "b": batch}, sparse=sparse)
                if changed is not None:
                    yield changed


def _with_sizes(
    reference: OverloadReference, shapes: Sequence[str], sizes: Mapping[str, int], *, sparse: bool
) -> OverloadReference | None:
    make = Maker(f"{reference.subject.name} {dict(sizes)}", dtype_name(reference.dtype))
    tensors = reference.sample.tensors()
    if len(tensors) != len(shapes):
        return None
    new: dict[int, torch.Tensor] = {}
    for tensor, shape in zip(tensors, shapes, strict=True):
        values = make.values(*(sizes.get(letter) or int(letter) for letter in shape), low=-1, high=1)
        new[id(tensor)] = _mostly_zeros(values, shape.index("k")) if sparse and "k" in shape else values
    return reference_of_modified_call(
        reference, with_mapped_tensors(reference.sample, lambda tensor: new[id(tensor)])
    )


def _mostly_zeros(values: torch.Tensor, dimension: int) -> torch.Tensor:
    """Return zeros, with ones along a dimension at positions near powers of two and at both ends. Sums of
    such tensors are small, so that a missing product changes the result.
    """
    length = values.shape[dimension]
    positions = [
        position for position in (0, 1, 255, 256, 1023, 1024, 4095, 4096, length - 1) if position < length
    ]
    return torch.zeros_like(values).index_fill_(dimension, torch.tensor(positions), 1)
