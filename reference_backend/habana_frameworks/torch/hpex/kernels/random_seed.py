"""Seeds of random operators."""

from __future__ import annotations

import torch


class RandomSeed:
    """Source of seeds, drawn from the device's random number generator."""

    @staticmethod
    def random_seed(input: torch.Tensor) -> torch.Tensor:
        """Return a new seed as an int32 tensor of shape [1], on the device of ``input``."""
        seed: torch.Tensor = torch.ops.hpu.habana_random_seed(input)
        return seed
