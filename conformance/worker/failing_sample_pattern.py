"""Find a feature that all failing samples of a result have and the passing samples do not have.

Features are derived only from the arguments: layouts, sizes, ranks, values, dtypes and options. The pattern
contains counts of samples, so that a reader can judge its evidence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from conformance.model.records import SamplePattern
from conformance.samples.operators import Sample

#: A pattern needs at least this number of failing samples, and as many passing samples.
_MIN_SAMPLES = 2
_SIZES = (16, 256, 1024, 4096, 32768, 65536)
_RANKS = (3, 4, 5, 6)
#: The values of a tensor with more elements than this are not inspected.
_MAX_ELEMENTS = 1 << 20


class SampleFeatureRecorder:
    """Records the features of each sample that a property copies to the device."""

    def __init__(self) -> None:
        self.features: dict[int, set[str]] = {}

    def __call__(self, sample: Sample) -> None:
        """Record a sample. If a sample is copied in several layouts, the features of all layouts are
        recorded.
        """
        self.features.setdefault(sample.index, set()).update(features_of(sample))


def find_pattern(features: Mapping[int, set[str]], failed: Sequence[int]) -> SamplePattern | None:
    """Return the feature that separates failing samples from passing ones.

    Args:
        features: features of each sample by its index.
        failed: indices of the failing samples.

    Returns:
        The feature that all failing samples have and the fewest passing samples have. A feature can also be
        the negation ``not: FEATURE``. Among equal counts, layouts precede sizes, sizes precede values. None
        if half of the passing samples or more have the best feature, or if too few samples fail or pass.
    """
    failing = set(failed)
    if not failing <= features.keys():
        return None
    passing = features.keys() - failing
    if min(len(failing), len(passing)) < _MIN_SAMPLES:
        return None
    best: tuple[int, SamplePattern] | None = None
    common = set[str].intersection(*(features[index] for index in failing))
    features_of_failing = set[str]().union(*(features[index] for index in failing))
    lacking = set[str]().union(*(features[index] for index in passing)) - features_of_failing
    for feature in sorted(common, key=_feature_sort_key):
        passing_count = sum(feature in features[index] for index in passing)
        if best is None or passing_count < best[0]:
            best = (
                passing_count,
                _make_pattern(
                    feature, len(failing), len(failing) + passing_count, len(passing) - passing_count
                ),
            )
    for feature in sorted(lacking, key=_feature_sort_key):
        passing_count = sum(feature not in features[index] for index in passing)
        if best is None or passing_count < best[0]:
            best = (
                passing_count,
                _make_pattern(
                    f"not: {feature}",
                    len(failing),
                    len(failing) + passing_count,
                    len(passing) - passing_count,
                ),
            )
    return best[1] if best is not None and best[0] < len(passing) / 2 else None


def _make_pattern(when: str, failed: int, matching: int, passing: int) -> SamplePattern:
    return {"when": when, "failed": failed, "such": matching, "others": passing}


def _feature_sort_key(feature: str) -> tuple[int, str]:
    """Return the sort key of a feature: layouts, then sizes, shapes and dtypes, then values, then options.
    Narrow features precede wide ones (``channels_last`` precedes ``not contiguous``).
    """
    for rank, keyword in enumerate(("channels_last", "expanded", "offset", "contiguous", "elements", "rank",
                                   "shapes", "dtypes", "holds", "`")):  # fmt: skip
        if keyword in feature:
            return rank, feature
    return 99, feature


def features_of(sample: Sample) -> Iterator[str]:
    """Yield the features of a sample as texts such as ``an input has rank 0``."""
    tensors = [tensor for tensor in sample.tensors() if tensor.layout is torch.strided]
    for tensor in tensors:
        yield from _layout_features(tensor)
        yield from _size_features(tensor)
        yield from _value_features(tensor)
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


def _layout_features(tensor: torch.Tensor) -> Iterator[str]:
    if not tensor.is_contiguous():
        yield "an input is not contiguous"
        if tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last):
            yield "an input is channels_last"
    if tensor.storage_offset():
        yield "an input has an offset into its storage"
    if any(stride == 0 and size > 1 for stride, size in zip(tensor.stride(), tensor.shape, strict=True)):
        yield "an input is expanded"


def _size_features(tensor: torch.Tensor) -> Iterator[str]:
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


def _value_features(tensor: torch.Tensor) -> Iterator[str]:
    if not 0 < tensor.numel() <= _MAX_ELEMENTS or tensor.dtype.is_complex or tensor.device.type != "cpu":
        return
    values = tensor.detach().to(torch.float64) if tensor.dtype.is_floating_point else tensor.detach()
    if values.dtype.is_floating_point:
        tests: dict[str, Any] = {
            "NaN": values.isnan(),
            "an infinity": values.isinf(),
            "a subnormal number": (values != 0) & (values.abs() < torch.finfo(tensor.dtype).tiny),
        }
        for name, mask in tests.items():
            if bool(mask.any()):
                yield f"an input holds {name}"
    if values.dtype is not torch.bool:
        if bool((values == 0).any()):
            yield "an input holds a zero"
        if bool((values < 0).any()):
            yield "an input holds a negative number"
