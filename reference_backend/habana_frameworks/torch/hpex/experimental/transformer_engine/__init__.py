"""Training in fp8: `Linear` and `FusedAttention` compute in fp8 within `fp8_autocast`.

Scales are delayed (Micikevicius et al., 2022): the fp8 scales of a training step depend on the largest
magnitudes in earlier steps. Under `torch.compile` a module breaks the graph, because its autograd function
changes the scales, which are state of the module.
"""

from __future__ import annotations

from . import cpp_extensions, distributed, fp8, recipe, utils
from .attention import FusedAttention
from .fp8 import fp8_autocast
from .linear import Linear

__all__ = [
    "FusedAttention",
    "Linear",
    "cpp_extensions",
    "distributed",
    "fp8",
    "fp8_autocast",
    "recipe",
    "utils",
]
