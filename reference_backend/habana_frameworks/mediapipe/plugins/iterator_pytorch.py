"""Iterators over the batches of image pipelines, as torch tensors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy
import torch

from ..mediapipe import MediaPipe


class HPUGenericPytorchIterator:
    """Iterable over the batches of a pipeline, as lists of tensors on the pipeline's device."""

    def __init__(self, mediapipe: MediaPipe) -> None:
        """Build the pipeline over which to iterate."""
        self.pipe = mediapipe
        mediapipe.build()

    def __len__(self) -> int:
        """Return the number of batches of an epoch."""
        return self.pipe.reader().batch_count(self.pipe.getBatchSize())

    def __iter__(self) -> Iterator[Any]:
        """Yield the batches of one epoch."""
        for batch in self.pipe.batches():
            yield [self._tensor(array) for array in batch]

    def _tensor(self, array: numpy.ndarray) -> torch.Tensor:
        # torch supports few operations on unsigned integers of more than 8 bits, so labels become int64.
        wide = {"uint16": "int32", "uint32": "int64", "uint64": "int64"}.get(array.dtype.name)
        host = torch.from_numpy(numpy.ascontiguousarray(array if wide is None else array.astype(wide)))
        return host.to(self.pipe.getDevice())


class HPUResnetPytorchIterator(HPUGenericPytorchIterator):
    """Iterable over the batches of a classification pipeline: images and class labels."""
