"""Folding of batch norms into the convolutions before them."""

from __future__ import annotations

import torch


def fuse(model: torch.nn.Module) -> torch.nn.Module:
    """Fold each batch norm of a model into the convolution before it.

    Args:
        model: in evaluation mode, on the CPU, traceable by `torch.fx`. Otherwise it stays unchanged and a
            line of output gives the reason.

    Returns:
        A new model with the same results up to rounding, or `model` itself.
    """
    obstacle = _obstacle(model)
    if obstacle is None:
        # Importing the tracer takes time, and only this function needs it.
        from torch.fx.experimental.optimization import fuse as fold

        try:
            return fold(model)
        except Exception as error:
            obstacle = f"it cannot be traced ({error})"
    print(f"batch norms of {type(model).__name__} are not folded into its convolutions: {obstacle}")
    return model


def _obstacle(model: torch.nn.Module) -> str | None:
    if model.training:
        return "it is in training mode, call eval() first"
    elsewhere = {str(tensor.device) for tensor in model.parameters() if tensor.device.type != "cpu"}
    if elsewhere:
        return f"it is on {', '.join(sorted(elsewhere))}, fold it before it leaves the CPU"
    return None
