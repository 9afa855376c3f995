"""Seeds of random operators."""

from __future__ import annotations

import torch


class RandomSeed:
    """Draws seeds from the device's generator."""

    @staticmethod
    def random_seed(input: torch.Tensor) -> torch.Tensor:
        """Return a seed, int32[1] on the device of ``input``."""
        seed: torch.Tensor = torch.ops.hpu.habana_random_seed(input)
        return seed
