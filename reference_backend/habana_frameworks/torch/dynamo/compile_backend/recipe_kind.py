"""Choose the kind of the recipes of a graph: fused, interpreted, or no recipes.

Recipes are fused if a C++ compiler exists, otherwise interpreted. If hardware limits are active, recipes are
interpreted, because the limits apply to the result of each operator, and fused code combines operators.
"""

from __future__ import annotations

import functools
import warnings
from typing import Any

from habana_frameworks.torch.internal.settings import hardware_limits

from .passes import MAKING_RECIPES, is_disabled


def choose_recipe_kind(settings: dict[str, Any], is_dynamic: bool) -> str:
    """Return ``fused``, ``interpreted`` or ``calls`` (no recipes) for a graph.

    Args:
        settings: the options.
        is_dynamic: the graph has symbolic sizes.

    Raises:
        RuntimeError: the options require fused recipes, but a C++ compiler is missing or hardware limits are
            active.
    """
    if not settings["use_compiled_recipes"] or (is_dynamic and settings["fallback_dynamic_to_eager"]):
        return "calls"
    if any(map(is_disabled, MAKING_RECIPES)):
        return "calls"
    executable = str(settings["executable"])
    if hardware_limits.hardware_limits_name():
        if executable == "fused":
            raise RuntimeError(
                "executable='fused' does not support hardware limits. Use 'auto', or unset "
                "HPU_REFERENCE_PROFILE."
            )
        return "interpreted"
    if executable == "interpreted":
        return executable
    reason = _missing_compiler_reason()
    if not reason:
        return "fused"
    if executable == "fused":
        raise RuntimeError(f"executable='fused' needs a C++ compiler ({reason}). Install g++, or use 'auto'.")
    _warn_once(reason)
    return "interpreted"


@functools.cache
def _missing_compiler_reason() -> str:
    from torch._inductor import cpp_builder

    try:
        compiler = cpp_builder.get_cpp_compiler()
    except Exception as error:  # InvalidCxxCompiler, which each release of torch defines in another module
        return str(error).splitlines()[0] if str(error) else type(error).__name__
    return "" if compiler else "none was found"


@functools.cache
def _warn_once(reason: str) -> None:
    text = f"hpu_backend did not find a C++ compiler ({reason}), so recipes are interpreted. Install g++."
    warnings.warn(text, RuntimeWarning, stacklevel=4)
