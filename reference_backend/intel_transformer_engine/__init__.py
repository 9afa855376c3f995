"""`habana_frameworks.torch.hpex.experimental.transformer_engine`, under the name by which programs import it.

Its modules are the same objects: `intel_transformer_engine.recipe.Format` is the class of `hpex`.
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
