"""Sizes dealt to the dtypes of an overload, each with a layout and a form, so that few calls cover all pairs.

Every overload is dealt every size of ``FURTHER`` once, in one of its dtypes, and every layout at least once;
it is called with those that the CPU takes in time. Which of them come together follows from the overload's
name, so that over all overloads each size meets each dtype, each layout and each form.
"""

from __future__ import annotations

import dataclasses
import itertools
import random
import zlib
from collections.abc import Iterator, Sequence

from conformance.properties.overloads._call_forms import ArgumentLayout
from conformance.properties.overloads._references import OverloadReference
from conformance.properties.shared.memory_layouts import LAYOUTS

#: Around vectors of 16 and 32, around a block of threads, one and a half blocks of 512, and large.
FURTHER = (15, 16, 31, 32, 255, 256, 769, 32_769, 70_000)


@dataclasses.dataclass(frozen=True)
class SizeAssignment:
    """A size in elements, the word of a layout (None: dense), and the number of a form."""

    size: int
    layout: str | None
    form: int


def assignments_for(overload: str, dtypes: Sequence[str], dtype: str) -> list[SizeAssignment]:
    """Return the calls that one of an overload's dtypes makes, the smallest first."""
    generator = random.Random(zlib.crc32(overload.encode()))
    sizes = list(FURTHER)
    layouts: list[str | None] = [None, *LAYOUTS]
    generator.shuffle(sizes)
    generator.shuffle(layouts)
    place = sorted(dtypes).index(dtype)
    everything = [
        SizeAssignment(size, layout, generator.randrange(6))
        for size, layout in zip(sizes, itertools.cycle(layouts), strict=False)
    ]
    return sorted(everything[place :: len(dtypes)], key=lambda one: one.size)


def laid(reference: OverloadReference, word: str | None) -> Iterator[ArgumentLayout]:
    """Yield the layout for the largest tensor of a call that can have it, if there is one."""
    if word is None:
        return
    tensors = reference.sample.tensors()
    for place in sorted(range(len(tensors)), key=lambda number: -tensors[number].numel()):
        if LAYOUTS[word](tensors[place].detach()) is not None:
            yield ArgumentLayout(LAYOUTS[word], word, place)
            return
