"""The base class of user-defined functions for the pipeline operator `fn.MediaFunc`."""

from __future__ import annotations

from typing import Any


class media_function:
    """A user-defined function of a pipeline. `MediaFunc` constructs it once and calls it for each batch."""

    def __init__(self, params: dict[str, Any]) -> None:
        """Store the parameters: shape, dtype and the further arguments of `MediaFunc`."""
        self.params = params

    def __call__(self, *args: Any) -> Any:
        """Return the function's array for a batch. Subclasses must override it."""
        raise NotImplementedError(
            f"{type(self).__name__} does not define __call__. Define it to return a NumPy array."
        )
