"""Assign sizes, layouts and forms to the dtypes of an overload, so that few calls cover all pairs.

Each overload is assigned a size of every distribution in ``SIZE_DISTRIBUTIONS``, in one of its dtypes, and
every layout at least once. A size is omitted if the CPU needs too much time for it. The combination of size,
dtype, layout and form depends on the overload's name. Over all overloads, each distribution is therefore
combined with each dtype, layout and form.
"""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Iterator, Sequence

from conformance.model import seeds
from conformance.properties.overloads._call_forms import ArgumentLayout
from conformance.properties.overloads._references import OverloadReference
from conformance.properties.shared.memory_layouts import LAYOUTS
from conformance.samples.sizes import ANY, GRID, GROUP, PRIME, SPLIT, VECTOR, draw_sizes

#: The distributions of the sizes that are assigned to an overload.
SIZE_DISTRIBUTIONS = (VECTOR, VECTOR, VECTOR, GROUP, GROUP, SPLIT, GRID, PRIME, ANY)


@dataclasses.dataclass(frozen=True)
class SizeAssignment:
    """The number of elements, the layout (None: dense) and the index of the form of a call."""

    size: int
    layout: str | None
    form: int


def assignments_for(overload: str, dtypes: Sequence[str], dtype: str) -> list[SizeAssignment]:
    """Return the size assignments of an overload for ``dtype``, one of its ``dtypes``, in order of size."""
    generator = random.Random(seeds.seed_for(overload))
    sizes = draw_sizes(overload, SIZE_DISTRIBUTIONS)
    layouts: list[str | None] = [None, *LAYOUTS]
    generator.shuffle(sizes)
    generator.shuffle(layouts)
    dtype_index = sorted(dtypes).index(dtype)
    assignments = [
        SizeAssignment(size, layout, generator.randrange(6))
        for size, layout in zip(sizes, itertools.cycle(layouts), strict=False)
    ]
    return sorted(assignments[dtype_index :: len(dtypes)], key=lambda assignment: assignment.size)


def layout_of_largest_tensor(
    reference: OverloadReference, layout_name: str | None
) -> Iterator[ArgumentLayout]:
    """Yield the named layout for one tensor of a call: the largest tensor that can have this layout.

    The iterator is empty if no tensor can have the layout.
    """
    if layout_name is None:
        return
    tensors = reference.sample.tensors()
    for tensor_index in sorted(range(len(tensors)), key=lambda number: -tensors[number].numel()):
        if LAYOUTS[layout_name](tensors[tensor_index].detach()) is not None:
            yield ArgumentLayout(LAYOUTS[layout_name], layout_name, tensor_index)
            return
