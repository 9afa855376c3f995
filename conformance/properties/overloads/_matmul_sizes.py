"""Matrix products with long sums and many matrices, which kernels split over threads or a grid."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch

from conformance.properties.overloads._modified_calls import mapped, reference_of_modified_call
from conformance.properties.overloads._references import OverloadReference
from conformance.samples.dispatched_kernels import base_name
from conformance.samples.handmade_calls.calls import Maker
from conformance.samples.operators import dtype_name

#: Lengths of the sums, and the size of a batch.
_LENGTHS = (1025, 4097)
_BATCH = 513

#: By overload, the shapes of its tensors; ``k`` is the length of the sum and ``b`` the batch.
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


def long_products(known: Sequence[OverloadReference]) -> Iterator[OverloadReference]:
    """Yield the answers to a product with sums of each length, and with many matrices; none if it is none."""
    for found in known[:1]:
        shapes = _SHAPES.get(base_name(found.subject.name), ())
        sizes = [(length, 2) for length in _LENGTHS]
        if any("b" in shape for shape in shapes):
            sizes.append((3, _BATCH))
        for length, batch in sizes if shapes else ():
            for few in (False, True):
                changed = _with_sizes(found, shapes, {"k": length, "b": batch}, few=few)
                if changed is not None:
                    yield changed


def _with_sizes(
    reference: OverloadReference, shapes: Sequence[str], sizes: Mapping[str, int], *, few: bool
) -> OverloadReference | None:
    make = Maker(f"{reference.subject.name} {dict(sizes)}", dtype_name(reference.dtype))
    tensors = reference.sample.tensors()
    if len(tensors) != len(shapes):
        return None
    new: dict[int, torch.Tensor] = {}
    for tensor, shape in zip(tensors, shapes, strict=True):
        values = make.values(*(sizes.get(word) or int(word) for word in shape), low=-1, high=1)
        new[id(tensor)] = _few(values, shape.index("k")) if few and "k" in shape else values
    return reference_of_modified_call(reference, mapped(reference.sample, lambda tensor: new[id(tensor)]))


def _few(values: torch.Tensor, dimension: int) -> torch.Tensor:
    """Return ones around powers of two and at both ends, zeros elsewhere: each product shows in the sum."""
    length = values.shape[dimension]
    places = [place for place in (0, 1, 255, 256, 1023, 1024, 4095, 4096, length - 1) if place < length]
    return torch.zeros_like(values).index_fill_(dimension, torch.tensor(places), 1)
