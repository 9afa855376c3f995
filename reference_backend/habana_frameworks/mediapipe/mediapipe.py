"""The base class of image pipelines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from . import graph
from .fn import ReadImageDatasetFromDir


class MediaPipe:
    """An image pipeline.

    A subclass creates operators of `fn` and overrides `definegraph`, which connects the operators.
    """

    def __init__(
        self, device: Any = None, prefetch_depth: int = 1, batch_size: int = 1, pipe_name: str = "MediaPipe",
        **unused_options: Any,
    ) -> None:  # fmt: skip
        """Create a pipeline.

        Args:
            device: device to which iterators copy the batches; None for hpu.
            prefetch_depth: accepted, not used: each batch is computed when an iterator requests it.
            batch_size: number of images per batch.
            pipe_name: name of the pipeline in error messages.
            unused_options: hardware arguments, not used.
        """
        self._device, self._batch_size, self._name = device or "hpu", batch_size, pipe_name
        self._outputs: list[graph.NodeOutput] | None = None

    def definegraph(self) -> Any:
        """Connect the operators, and return the results of the pipeline. Subclasses must override it."""
        raise NotImplementedError(
            f"{type(self).__name__} does not define definegraph. Define it to return the pipeline's results."
        )

    def getBatchSize(self) -> int:
        """Return the number of images of a batch."""
        return self._batch_size

    def getDevice(self) -> Any:
        """Return the device to which iterators copy the batches."""
        return self._device

    def build(self) -> None:
        """Connect the operators of the pipeline. A second call does nothing."""
        if self._outputs is None:
            outputs = self.definegraph()
            self._outputs = list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]

    def reader(self) -> ReadImageDatasetFromDir:
        """Return the reader, which must be the only `ReadImageDatasetFromDir` among the attributes.

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
        """Yield the batches of an epoch, each as a list of NumPy arrays."""
        self.build()
        assert self._outputs is not None
        reader = self.reader()
        reader.start_epoch()
        for _ in range(reader.batch_count(self._batch_size)):
            reader.select_next_batch(self._batch_size)
            yield graph.evaluate(self._outputs)
