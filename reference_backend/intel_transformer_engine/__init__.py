"""Alias of the package `habana_frameworks.torch.hpex.experimental.transformer_engine`.

Both names give the same module objects, so that classes such as `recipe.Format` are identical.
"""

from __future__ import annotations

import sys
from types import ModuleType

from habana_frameworks.torch.hpex.experimental import transformer_engine
from habana_frameworks.torch.hpex.experimental.transformer_engine import *  # noqa: F403

__all__ = transformer_engine.__all__

for _name in __all__:
    _value = getattr(transformer_engine, _name)
    if isinstance(_value, ModuleType):
        sys.modules[f"{__name__}.{_name}"] = _value
