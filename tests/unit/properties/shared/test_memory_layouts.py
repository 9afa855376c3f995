"""``memory_layouts`` places tensors as views in larger memory, and detects changes of the memory around a
view.
"""

from __future__ import annotations

import torch

from conformance.properties.shared import memory_layouts


def test_memory_around_a_view_is_compared() -> None:
    embedded = memory_layouts.at_offset(torch.full((2, 2), 2.0))
    assert embedded is not None
    embedded.view.fill_(7)
    assert embedded.is_unchanged(whole=False) and not embedded.is_unchanged(whole=True)
    embedded.base[0].zero_()
    assert not embedded.is_unchanged(whole=False)


def test_nothing_is_known_about_the_memory_around_a_resized_view() -> None:
    embedded = memory_layouts.with_gaps(torch.ones(3))
    assert embedded is not None
    embedded.view.resize_(4, 4).fill_(7)
    assert embedded.is_unchanged(whole=False) and not embedded.is_unchanged(whole=True)
