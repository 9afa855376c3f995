"""The backend of ``torch.compile(backend="hpu_backend")``.

::

    Dynamo -> AOTAutograd -> FX graph of aten operators on fake hpu tensors       backends, compilers
      -> passes: simplify, place each node, partition into clusters               passes, recipe_support
      -> a recipe for each cluster: fused (Inductor's C++) or interpreted         fused, interpreted
      -> one boxed callable that runs the recipes and the calls between them      schedule

The right column lists the modules for each step. Importing this package does not import Dynamo or Inductor.
The modules are imported at the first compilation.
"""

from __future__ import annotations

import importlib
from types import ModuleType

_MODULES = ("backends", "config", "passes", "recipe_support", "shared_layer")


def __getattr__(name: str) -> ModuleType:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
