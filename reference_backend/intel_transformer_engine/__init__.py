"""`habana_frameworks.torch.hpex.experimental.transformer_engine` under the name by which programs import it.

Its modules are the same objects: `intel_transformer_engine.recipe.Format` is that of `hpex`.
"""

from __future__ import annotations

import sys

from habana_frameworks.torch.hpex.experimental.transformer_engine import (
    FusedAttention,
    Linear,
    cpp_extensions,
    distributed,
    fp8,
    fp8_autocast,
    recipe,
    utils,
)

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

for _module in (cpp_extensions, distributed, fp8, recipe, utils):
    sys.modules[f"{__name__}.{_module.__name__.rpartition('.')[2]}"] = _module
