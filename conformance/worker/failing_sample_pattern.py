"""The pattern of the samples that fail: what all of them have in common, and the others lack.

Only what the arguments show counts: layouts, sizes, ranks, values, dtypes and options. The counts are part of
the pattern, so that a reader can see how much it rests on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from conformance.model.records import SamplePattern
from conformance.samples.operators import Sample

#: Fewer samples of either kind say nothing.
_LEAST = 2
_SIZES = (16, 256, 1024, 4096, 32768, 65536)
_RANKS = (3, 4, 5, 6)
#: Values are looked at in tensors up to this many elements.
_LOOKED_AT = 1 << 20


class SampleWatch:
    """Notes the features of each sample that a property gives to the device."""

    def __init__(self) -> None:
        self.features: dict[int, set[str]] = {}

    def __call__(self, sample: Sample) -> None:
        """Note a sample; one that comes in several layouts has the features of all."""
        self.features.setdefault(sample.index, set()).update(features_of(sample))


def find(features: Mapping[int, set[str]], failed: Sequence[int]) -> SamplePattern | None:
    """Find the feature that separates the samples that fail from the others.

    Args:
        features: of each sample by its index.
        failed: indices of those that fail.

    Returns:
        The first feature, in the order of `features_of`, that all samples that fail have and no other; else
        the one that all of them have and the fewest others, if that is fewer than half. None if there is
        none, or too few samples of either kind.
    """
    bad = set(failed)
    if not bad <= features.keys():
        return None
    good = features.keys() - bad
    if min(len(bad), len(good)) < _LEAST:
        return None
    best: tuple[int, SamplePattern] | None = None
    common = set[str].intersection(*(features[index] for index in bad))
    seen = set[str]().union(*(features[index] for index in bad))
    lacking = set[str]().union(*(features[index] for index in good)) - seen
    for feature in sorted(common, key=_priority):
        also = sum(feature in features[index] for index in good)
        if best is None or also < best[0]:
            best = also, _pattern(feature, len(bad), len(bad) + also, len(good) - also)
    for feature in sorted(lacking, key=_priority):
        also = sum(feature not in features[index] for index in good)
        if best is None or also < best[0]:
            best = also, _pattern(f"not: {feature}", len(bad), len(bad) + also, len(good) - also)
    return best[1] if best is not None and best[0] < len(good) / 2 else None


def _pattern(when: str, failed: int, such: int, others: int) -> SamplePattern:
    return {"when": when, "failed": failed, "such": such, "others": others}


def _priority(feature: str) -> tuple[int, str]:
    """Layouts before sizes before values before options, and the narrower before the wider."""
    for place, words in enumerate(("channels_last", "expanded", "offset", "contiguous", "elements", "rank",
                                   "shapes", "dtypes", "holds", "`")):  # fmt: skip
        if words in feature:
            return place, feature
    return 99, feature


def features_of(sample: Sample) -> Iterator[str]:
    """Yield the features of a sample, each as the condition of a sentence."""
    tensors = [tensor for tensor in sample.tensors() if tensor.layout is torch.strided]
    for tensor in tensors:
        yield from _layout(tensor)
        yield from _size(tensor)
        yield from _values(tensor)
    if len({tensor.shape for tensor in tensors}) > 1:
        yield "the inputs have several shapes"
    if len({tensor.dtype for tensor in tensors}) > 1:
        yield "the inputs have several dtypes"
    for name, value in sample.kwargs.items():
        yield f"`{name}` is given"
        if isinstance(value, (bool, str, type(None))):
            yield f"`{name}` is {value!r}"
        elif isinstance(value, int) and value < 0:
            yield f"`{name}` is negative"


def _layout(tensor: torch.Tensor) -> Iterator[str]:
    if not tensor.is_contiguous():
        yield "an input is not contiguous"
        if tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last):
            yield "an input is channels_last"
    if tensor.storage_offset():
        yield "an input has an offset into its storage"
    if any(stride == 0 and size > 1 for stride, size in zip(tensor.stride(), tensor.shape, strict=True)):
        yield "an input is expanded"


def _size(tensor: torch.Tensor) -> Iterator[str]:
    if tensor.numel() == 0:
        yield "an input has no elements"
    if tensor.dim() == 0:
        yield "an input has rank 0"
    for size in _SIZES:
        if tensor.numel() > size:
            yield f"an input has more than {size:,} elements"
    for rank in _RANKS:
        if tensor.dim() >= rank:
            yield f"an input has rank {rank} or more"


def _values(tensor: torch.Tensor) -> Iterator[str]:
    if not 0 < tensor.numel() <= _LOOKED_AT or tensor.dtype.is_complex or tensor.device.type != "cpu":
        return
    values = tensor.detach().to(torch.float64) if tensor.dtype.is_floating_point else tensor.detach()
    if values.dtype.is_floating_point:
        tests: dict[str, Any] = {
            "NaN": values.isnan(),
            "an infinity": values.isinf(),
            "a subnormal number": (values != 0) & (values.abs() < torch.finfo(tensor.dtype).tiny),
        }
        for name, found in tests.items():
            if bool(found.any()):
                yield f"an input holds {name}"
    if values.dtype is not torch.bool:
        if bool((values == 0).any()):
            yield "an input holds a zero"
        if bool((values < 0).any()):
            yield "an input holds a negative number"
