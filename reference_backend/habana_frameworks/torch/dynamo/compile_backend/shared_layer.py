"""Public import path of `compile_backend.recipe_support`, whose module object replaces this module.

Programs assign to ``shared_layer.hpu_fallback_op_list``, so both paths must be the same module.
"""

from __future__ import annotations

import sys

from . import recipe_support

sys.modules[__name__] = recipe_support
