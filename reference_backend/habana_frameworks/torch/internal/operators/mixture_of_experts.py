"""Mixture of experts (the block of Mixtral): each token passes through the experts that a router selected."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch.nn import functional

from .low_precision_rounding import to_compute_dtype

_ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "gelu": functional.gelu,
    "relu": functional.relu,
    "silu": functional.silu,
}


def mixture_of_experts(
    hidden_states: torch.Tensor,
    expert_routing_table: torch.Tensor,
    router_weights: torch.Tensor,
    w1: Sequence[torch.Tensor],
    w2: Sequence[torch.Tensor],
    w3: Sequence[torch.Tensor],
    permuted_weights: bool,
    activation: str,
    experts_min: int,
    experts_max: int,
) -> torch.Tensor:
    """Return the sum over the selected experts of weight * (activation(x w1) * (x w2)) w3.

    All experts compute all tokens, so shapes do not depend on the router.

    Args:
        hidden_states: [tokens, features].
        expert_routing_table: selected experts of each token, integers [tokens, choices].
        router_weights: weights of the selected experts, [tokens, choices].
        w1: one matrix [features, inner] for each expert, or its transpose with ``permuted_weights``.
        w2: as ``w1``.
        w3: as ``w1``, [inner, features].
        permuted_weights: matrices are transposed, as in `torch.nn.Linear`.
        activation: "gelu", "relu" or "silu".
        experts_min: number of the first expert of the lists.
        experts_max: number of the last expert. Tokens that the router sends to other experts are omitted.

    Raises:
        RuntimeError: the activation is unknown, or the lists have a wrong length.
    """
    return _run_experts(
        hidden_states, expert_routing_table, router_weights, list(zip(w1, w2, w3, strict=True)),
        permuted_weights, activation, experts_min, experts_max,
    )[0]  # fmt: skip


def mixture_of_experts_fused_weights(
    hidden_states: torch.Tensor,
    expert_routing_table: torch.Tensor,
    router_weights: torch.Tensor,
    w12: Sequence[torch.Tensor],
    w3: Sequence[torch.Tensor],
    permuted_weights: bool,
    activation: str,
    experts_min: int,
    experts_max: int,
) -> torch.Tensor:
    """Do the same as `mixture_of_experts`, with w1 and w2 of an expert concatenated in one matrix."""
    return _run_experts(
        hidden_states, expert_routing_table, router_weights, _split_fused_weights(w12, w3, permuted_weights),
        permuted_weights, activation, experts_min, experts_max,
    )[0]  # fmt: skip


def mixture_of_experts_fp8_measurement(
    hidden_states: torch.Tensor,
    expert_routing_table: torch.Tensor,
    router_weights: torch.Tensor,
    w1: Sequence[torch.Tensor],
    w2: Sequence[torch.Tensor],
    w3: Sequence[torch.Tensor],
    permuted_weights: bool,
    activation: str,
    experts_min: int,
    experts_max: int,
    measurement_mode: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the result of `mixture_of_experts`, and the maximum input of each expert's w3.

    The maxima are float32[experts]. A maximum covers all tokens, also tokens of other experts, and is not
    an absolute value.
    """
    return _run_experts(
        hidden_states, expert_routing_table, router_weights, list(zip(w1, w2, w3, strict=True)),
        permuted_weights, activation, experts_min, experts_max,
    )  # fmt: skip


def mixture_of_experts_fp8_measurement_fused_weights(
    hidden_states: torch.Tensor,
    expert_routing_table: torch.Tensor,
    router_weights: torch.Tensor,
    w12: Sequence[torch.Tensor],
    w3: Sequence[torch.Tensor],
    permuted_weights: bool,
    activation: str,
    experts_min: int,
    experts_max: int,
    measurement_mode: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Do the same as `mixture_of_experts_fp8_measurement`, with w1 and w2 concatenated in one matrix."""
    return _run_experts(
        hidden_states, expert_routing_table, router_weights, _split_fused_weights(w12, w3, permuted_weights),
        permuted_weights, activation, experts_min, experts_max,
    )  # fmt: skip


_Expert = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def _split_fused_weights(
    w12: Sequence[torch.Tensor], w3: Sequence[torch.Tensor], permuted: bool
) -> list[_Expert]:
    halves = (both.chunk(2, 0 if permuted else 1) for both in w12)
    return [(first, second, last) for (first, second), last in zip(halves, w3, strict=True)]


def _run_experts(
    hidden: torch.Tensor,
    table: torch.Tensor,
    weights: torch.Tensor,
    experts: Sequence[_Expert],
    permuted: bool,
    activation: str,
    first: int,
    last: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    if activation not in _ACTIVATIONS:
        raise RuntimeError(
            f"mixture_of_experts supports the activations {', '.join(_ACTIVATIONS)}, but activation is "
            f"{activation!r}"
        )
    if len(experts) != last - first + 1:
        raise RuntimeError(
            f"experts {first} to {last} are {last - first + 1} experts, but weights of {len(experts)} "
            "experts were passed"
        )
    function = _ACTIVATIONS[activation]
    total = torch.zeros_like(hidden, dtype=to_compute_dtype(hidden).dtype)
    largest = []
    for number, matrices in enumerate(experts, first):
        first_matrix, two, three = (matrix.t() if permuted else matrix for matrix in matrices)
        inner = function(hidden @ first_matrix) * (hidden @ two)
        largest.append(inner.detach().float().amax())
        chosen = (table == number).any(-1, keepdim=True)
        # The values of tokens that belong to other experts may overflow. Zeros replace them.
        inner = torch.where(chosen, inner, torch.zeros_like(inner))
        share = torch.where(table == number, to_compute_dtype(weights), 0.0).sum(-1, keepdim=True)
        total = total + to_compute_dtype(inner @ three) * share
    return total.to(hidden.dtype), torch.stack(largest)
