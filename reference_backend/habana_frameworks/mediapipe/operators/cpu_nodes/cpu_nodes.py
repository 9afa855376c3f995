"""The base of functions for `fn.MediaFunc`."""

from __future__ import annotations

from typing import Any


class media_function:
    """A function of a pipeline: made once from the node's parameters, called for each batch."""

    def __init__(self, params: dict[str, Any]) -> None:
        """Take the parameters: shape, dtype, seed and those of a program's own."""
        self.params = params

    def __call__(self, *args: Any) -> Any:
        """Compute an array for a batch."""
        raise NotImplementedError(
            f"{type(self).__name__} has no __call__: define it, it returns a NumPy array"
        )
