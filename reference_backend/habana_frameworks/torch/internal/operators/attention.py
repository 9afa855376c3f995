"""Scaled dot product attention (Vaswani et al., 2017), and its gradients.

There are two variants. `sdpa_fwd` saves the attention matrix for the backward pass. `sdpa_recomp_fwd` saves
row maxima and sums, and the backward pass recomputes the matrix.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from . import seeded_random
from .low_precision_rounding import to_compute_dtype

_SOFTMAX_MODES = ("None", "fast", "fp32")
_PADDING = ("left", "right")


class AttentionMasks(NamedTuple):
    """Masks that hide keys from queries."""

    attention_mask: torch.Tensor | None
    is_causal: bool
    valid_seq_len: torch.Tensor | None = None
    seq_padding_type: str = "left"


def sdpa_fwd(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    attention_mask: torch.Tensor | None,
    p: float,
    scale: float,
    is_causal: bool,
    softmax_mode: str,
    valid_seq_len: torch.Tensor | None,
    seq_padding_type: str,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return attention, its matrix before dropout, and the dropout mask (empty without dropout).

    Args:
        q: [..., T, D].
        k: [..., S, D].
        v: [..., S, E].
        attention_mask: broadcasts with [..., T, S]; added to the scores, or a bool mask that is True for
            visible keys.
        p: probability of dropout.
        scale: factor of the scores, which are the product of q and the transposed k.
        is_causal: query i sees only keys 0 to i.
        softmax_mode: "None", "fast" or "fp32". "fast" is less exact on hardware, but not on this device.
        valid_seq_len: number of valid keys of each batch element.
        seq_padding_type: the side of the padding keys, "left" or "right".

    Raises:
        RuntimeError: the mode or the side is unknown.
    """
    if p > 0:
        return sdpa_fwd_dropout_seed(
            seeded_random.draw_seeds(1, q.device), q, k, v, attention_mask, p, scale, is_causal, softmax_mode,
            valid_seq_len, seq_padding_type,
        )  # fmt: skip
    masks = AttentionMasks(attention_mask, is_causal, valid_seq_len, seq_padding_type)
    matrix = torch.softmax(masked_scores(q, k, scale, masks, softmax_mode), -1)
    out = torch.matmul(matrix, to_compute_dtype(v)).to(q.dtype)
    return out, matrix.to(q.dtype), torch.empty(0, dtype=torch.bool, device=q.device)


#: Operator names of two hardware variants. `sdpa_fwd` computes both.
sdpa_fwd_dropout = sdpa_fwd_non_dropout = sdpa_fwd


def sdpa_fwd_dropout_seed(
    seed: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    attention_mask: torch.Tensor | None,
    p: float,
    scale: float,
    is_causal: bool,
    softmax_mode: str,
    valid_seq_len: torch.Tensor | None,
    seq_padding_type: str,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Do the same as `sdpa_fwd`, with a given dropout seed."""
    masks = AttentionMasks(attention_mask, is_causal, valid_seq_len, seq_padding_type)
    matrix = torch.softmax(masked_scores(q, k, scale, masks, softmax_mode), -1)
    dropout_mask = seeded_random.uniform(seed, matrix.shape) >= p
    out = torch.matmul(apply_dropout(matrix, dropout_mask, p), to_compute_dtype(v)).to(q.dtype)
    return out, matrix.to(q.dtype), dropout_mask


def sdpa_bwd(
    grad: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    P: torch.Tensor,
    dm: torch.Tensor | None,
    is_causal: bool,
    p: float,
    scale: float,
    fwd_out: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the gradients of `sdpa_fwd` with respect to q, k and v."""
    return attention_gradients(
        grad, q, k, v, to_compute_dtype(P), dm if dm is not None and dm.numel() else None, p, scale
    )


def sdpa_recomp_fwd(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    attention_mask: torch.Tensor | None,
    p: float,
    scale: float,
    is_causal: bool,
    requires_backward: bool,
    softmax_mode: str,
    valid_seq_len: torch.Tensor | None,
    seq_padding_type: str,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return four tensors: attention, row maxima, reciprocal row sums, and the dropout seed.

    Maxima and sums are float32[..., T, 1], or empty without ``requires_backward``. The seed is int32[1].
    Arguments are as for `sdpa_fwd`.
    """
    seed = (
        seeded_random.draw_seeds(1, q.device) if p > 0 else torch.zeros(1, dtype=torch.int32, device=q.device)
    )
    return sdpa_recomp_fwd_dropout_seed(
        seed, q, k, v, attention_mask, p, scale, is_causal, requires_backward, softmax_mode, valid_seq_len,
        seq_padding_type,
    )  # fmt: skip


sdpa_recomp_fwd_dropout = sdpa_recomp_fwd_non_dropout = sdpa_recomp_fwd


def sdpa_recomp_fwd_dropout_seed(
    seed: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    attention_mask: torch.Tensor | None,
    p: float,
    scale: float,
    is_causal: bool,
    requires_backward: bool,
    softmax_mode: str,
    valid_seq_len: torch.Tensor | None,
    seq_padding_type: str,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Do the same as `sdpa_recomp_fwd`, with a given dropout seed."""
    masks = AttentionMasks(attention_mask, is_causal, valid_seq_len, seq_padding_type)
    matrix, most, reciprocal = _softmax(masked_scores(q, k, scale, masks, softmax_mode))
    dropout_mask = seeded_random.uniform(seed, matrix.shape) >= p if p > 0 else None
    out = torch.matmul(apply_dropout(matrix, dropout_mask, p), to_compute_dtype(v)).to(q.dtype)
    if not requires_backward:
        most, reciprocal = (torch.empty(0, device=q.device) for _ in range(2))
    return out, most, reciprocal, seed.clone()


def sdpa_recomp_bwd(
    grad: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    attention_mask: torch.Tensor | None,
    m: torch.Tensor,
    linv: torch.Tensor,
    seed: torch.Tensor | None,
    is_causal: bool,
    p: float,
    scale: float,
    softmax_mode: str,
    fwd_out: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the gradients of `sdpa_recomp_fwd` with respect to q, k and v. The matrix is recomputed."""
    masks = AttentionMasks(attention_mask, is_causal)
    matrix = torch.exp(
        masked_scores(q, k, scale, masks, softmax_mode) - to_compute_dtype(m)
    ) * to_compute_dtype(linv)
    dropout_mask = None
    if p > 0:
        if seed is None:
            raise RuntimeError("sdpa_recomp_bwd with dropout needs the seed that sdpa_recomp_fwd returned")
        dropout_mask = seeded_random.uniform(seed, matrix.shape) >= p
    return attention_gradients(grad, q, k, v, matrix, dropout_mask, p, scale)


def masked_scores(
    q: torch.Tensor, k: torch.Tensor, scale: float, masks: AttentionMasks, softmax_mode: str
) -> torch.Tensor:
    """Return scale * (q times transposed k), with the smallest finite number at keys hidden from a query."""
    if softmax_mode not in _SOFTMAX_MODES or masks.seq_padding_type not in _PADDING:
        raise RuntimeError(
            f"attention supports the softmax modes {', '.join(_SOFTMAX_MODES)} and padding left or right, "
            f"but got {softmax_mode!r} and {masks.seq_padding_type!r}"
        )
    values = torch.matmul(to_compute_dtype(q), to_compute_dtype(k).transpose(-2, -1)) * scale
    closed = torch.finfo(values.dtype).min
    if masks.attention_mask is not None:
        if masks.attention_mask.dtype == torch.bool:
            values = values.masked_fill(~masks.attention_mask, closed)
        else:
            # If the mask is minus infinity in a whole row, the softmax of the row must not be NaN.
            values = (values + to_compute_dtype(masks.attention_mask)).clamp(min=closed)
    columns = torch.arange(k.size(-2), device=q.device)
    if masks.is_causal:
        rows = torch.arange(q.size(-2), device=q.device).unsqueeze(-1)
        values = values.masked_fill(columns > rows, closed)
    if masks.valid_seq_len is not None:
        length = masks.valid_seq_len.reshape([-1] + [1] * (values.dim() - 1))
        outside = columns >= length if masks.seq_padding_type == "right" else columns < k.size(-2) - length
        values = values.masked_fill(outside, closed)
    return values


def apply_dropout(matrix: torch.Tensor, dropout_mask: torch.Tensor | None, p: float) -> torch.Tensor:
    """Return the matrix after dropout with probability ``p``, or the matrix itself if the mask is None."""
    if dropout_mask is None:
        return matrix
    return matrix * dropout_mask * (1 / (1 - p) if p < 1 else 0.0)


def attention_gradients(
    grad: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    matrix: torch.Tensor,
    dropout_mask: torch.Tensor | None,
    p: float,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the gradients of attention with respect to q, k and v, computed from the attention matrix."""
    gradient = to_compute_dtype(grad)
    of_v = torch.matmul(apply_dropout(matrix, dropout_mask, p).transpose(-2, -1), gradient)
    of_matrix = apply_dropout(torch.matmul(gradient, to_compute_dtype(v).transpose(-2, -1)), dropout_mask, p)
    of_scores = matrix * (of_matrix - (of_matrix * matrix).sum(-1, keepdim=True)) * scale
    of_q = torch.matmul(of_scores, to_compute_dtype(k))
    of_k = torch.matmul(of_scores.transpose(-2, -1), to_compute_dtype(q))
    return _sum_to_shape(of_q, q), _sum_to_shape(of_k, k), _sum_to_shape(of_v, v)


def _softmax(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    most = values.amax(-1, keepdim=True)
    exponentials = torch.exp(values - most)
    reciprocal = exponentials.sum(-1, keepdim=True).reciprocal()
    return exponentials * reciprocal, most, reciprocal


def _sum_to_shape(gradient: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """Return the gradient, summed over the broadcast dimensions of the tensor."""
    return gradient.sum_to_size(tensor.shape).to(tensor.dtype)
