"""The base class of functions for `fn.MediaFunc`."""

from __future__ import annotations

from typing import Any


class media_function:
    """A user-defined function of a pipeline: constructed once with parameters, called for each batch."""

    def __init__(self, params: dict[str, Any]) -> None:
        """Store the parameters: shape, dtype, seed and user-defined parameters."""
        self.params = params

    def __call__(self, *args: Any) -> Any:
        """Compute an array for a batch."""
        raise NotImplementedError(
            f"{type(self).__name__} has no __call__. Define it to return a NumPy array."
        )
