"""Test that fp8 scales follow the largest magnitude on all ranks, or on the ranks of a group."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from habana_frameworks.torch.hpex.experimental import transformer_engine as te
from habana_frameworks.torch.hpex.experimental.transformer_engine.recipe import DelayedScaling


def scales_after_steps(
    rank: int, recipe: DelayedScaling, group: dist.ProcessGroup | None = None
) -> list[float]:
    """Return the scales of the input and of the output gradient after two steps on rank-dependent numbers."""
    torch.manual_seed(1)
    module = te.Linear(8, 4)
    for _ in range(2):
        with te.fp8_autocast(enabled=True, fp8_recipe=recipe, fp8_group=group):
            x = torch.full((2, 8), rank + 1.0, device="hpu")
            (module(x) * (rank + 1)).sum().backward()
    return [module.fp8_meta[name].scale[0].item() for name in ("scaling_fwd", "scaling_bwd")]


def check_amax_reduction_of_scales(rank: int, size: int) -> None:
    largest = te.fp8.get_fp8_max(DelayedScaling())
    of_gradients = te.fp8.get_fp8_max(DelayedScaling(), fprop_tensor=False)
    shared = scales_after_steps(rank, DelayedScaling(reduce_amax=True))
    assert shared == pytest.approx([largest / size, of_gradients / size])
    own = scales_after_steps(rank, DelayedScaling(reduce_amax=False))
    assert own == pytest.approx([largest / (rank + 1), of_gradients / (rank + 1)])
    groups = [dist.new_group([member]) for member in range(size)]
    alone = scales_after_steps(rank, DelayedScaling(reduce_amax=True), groups[rank])
    assert alone == pytest.approx(own)


def test_ranks_share_magnitudes(on_ranks) -> None:
    on_ranks(check_amax_reduction_of_scales)
