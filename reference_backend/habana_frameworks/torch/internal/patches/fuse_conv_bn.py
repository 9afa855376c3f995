"""Fold batch norms into the preceding convolutions."""

from __future__ import annotations

import torch


def fuse(model: torch.nn.Module) -> torch.nn.Module:
    """Fold each batch norm of a model into the preceding convolution.

    Args:
        model: a model in evaluation mode, on the CPU, traceable by `torch.fx`. Otherwise the model stays
            unchanged and the reason is printed.

    Returns:
        A new model with the same results up to rounding, or `model` itself.
    """
    obstacle = _reason_not_fusible(model)
    if obstacle is None:
        # Imported here, because importing the tracer takes time and only this function needs it.
        from torch.fx.experimental.optimization import fuse as fold

        try:
            return fold(model)
        except Exception as error:
            obstacle = f"the model cannot be traced ({error})"
    print(f"The batch norms of {type(model).__name__} were not folded into its convolutions: {obstacle}")
    return model


def _reason_not_fusible(model: torch.nn.Module) -> str | None:
    if model.training:
        return "the model is in training mode, call eval() first"
    elsewhere = {str(tensor.device) for tensor in model.parameters() if tensor.device.type != "cpu"}
    if elsewhere:
        return f"the model is on {', '.join(sorted(elsewhere))}, fold it before moving it from the CPU"
    return None
