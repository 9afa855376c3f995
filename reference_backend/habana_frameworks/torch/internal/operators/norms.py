"""Root-mean-square normalisation (Zhang and Sennrich, 2019) and its gradients."""

from __future__ import annotations

import torch

from .low_precision_rounding import to_compute_dtype


def rms_norm(data_in: torch.Tensor, gamma: torch.Tensor, epsilon: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return data_in * gamma / sqrt(mean of squares + epsilon) over the last dimension.

    Returns:
        the result in the dtype of ``data_in``, and 1 / root mean square, [..., 1] in float32.
    """
    values = to_compute_dtype(data_in)
    inverse = torch.rsqrt(values.square().mean(-1, keepdim=True) + epsilon)
    return (values * inverse * to_compute_dtype(gamma)).to(data_in.dtype), inverse


def rms_norm_backward(
    grad_in: torch.Tensor,
    data_in: torch.Tensor,
    gamma: torch.Tensor,
    inverse_rms: torch.Tensor,
    use_stages: bool,
    bwd_mode: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the gradients of `rms_norm` with respect to data and gamma.

    ``use_stages`` and ``bwd_mode`` select how hardware divides the work. The gradients are the same.

    Raises:
        RuntimeError: the mode is not 0 or 1.
    """
    if bwd_mode not in (0, 1):
        raise RuntimeError(f"rms_norm_backward supports the modes 0 and 1, but bwd_mode is {bwd_mode}")
    gradient, values, inverse = (
        to_compute_dtype(grad_in),
        to_compute_dtype(data_in),
        to_compute_dtype(inverse_rms),
    )
    scaled = gradient * to_compute_dtype(gamma)
    along = (scaled * values).mean(-1, keepdim=True)
    of_data = inverse * scaled - values * inverse.pow(3) * along
    of_gamma = (gradient * values * inverse).reshape(-1, values.size(-1)).sum(0)
    return of_data.to(data_in.dtype), of_gamma.to(gamma.dtype)


#: The ``fast`` operators are less exact on hardware. On this device they are the normal operators.
rms_norm_fast = rms_norm
rms_norm_fast_backward = rms_norm_backward
