"""The base class of pipelines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from . import graph
from .fn import ReadImageDatasetFromDir


class MediaPipe:
    """A pipeline. A subclass creates nodes of `fn` and defines `definegraph`, which connects them."""

    def __init__(
        self, device: Any = None, prefetch_depth: int = 1, batch_size: int = 1, pipe_name: str = "MediaPipe",
        **unused_options: Any,
    ) -> None:  # fmt: skip
        """Create a pipeline.

        Args:
            device: device of the batches, for iterators; None for hpu.
            prefetch_depth: not used: batches are computed when requested.
            batch_size: number of images per batch.
            pipe_name: name for messages.
            unused_options: hardware arguments, not used.
        """
        self._device, self._batch_size, self._name = device or "hpu", batch_size, pipe_name
        self._outputs: list[graph.Value] | None = None

    def definegraph(self) -> Any:
        """Connect the nodes, and return the results of the pipeline."""
        raise NotImplementedError(
            f"{type(self).__name__} has no definegraph. Define it to return the results."
        )

    def getBatchSize(self) -> int:
        """Return the number of images of a batch."""
        return self._batch_size

    def getDevice(self) -> Any:
        """Return the device of the batches."""
        return self._device

    def build(self) -> None:
        """Connect the nodes. A second call does nothing."""
        if self._outputs is None:
            outputs = self.definegraph()
            self._outputs = list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]

    def reader(self) -> ReadImageDatasetFromDir:
        """Return the reader among the pipeline's attributes.

        Raises:
            RuntimeError: the pipeline does not have exactly one reader.
        """
        readers = [
            attribute for attribute in vars(self).values() if isinstance(attribute, ReadImageDatasetFromDir)
        ]
        if len(readers) != 1:
            raise RuntimeError(
                f"{self._name} has {len(readers)} readers as attributes, but a pipeline needs exactly one"
            )
        return readers[0]

    def batches(self) -> Iterator[list[Any]]:
        """Compute the batches of an epoch as NumPy arrays."""
        self.build()
        assert self._outputs is not None
        reader = self.reader()
        reader.start()
        for _ in range(reader.batches(self._batch_size)):
            reader.advance(self._batch_size)
            yield graph.evaluate(self._outputs)
