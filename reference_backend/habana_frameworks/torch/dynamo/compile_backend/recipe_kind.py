"""The choice of the form of recipes: fused if there is a C++ compiler, else interpreted; or no recipes.

With a profile of hardware graphs are interpreted, as its limits hold for each operator's result.
"""

from __future__ import annotations

import functools
import warnings
from typing import Any

from habana_frameworks.torch.internal.settings import hardware_limits

from .passes import MAKING_RECIPES, is_disabled


def choose(settings: dict[str, Any], is_dynamic: bool) -> str:
    """Choose ``fused``, ``interpreted`` or ``calls`` (no recipes) for a graph.

    Args:
        settings: the options.
        is_dynamic: the graph has symbolic sizes.

    Raises:
        RuntimeError: the options require fused recipes and there is no C++ compiler, or a profile.
    """
    if not settings["use_compiled_recipes"] or (is_dynamic and settings["fallback_dynamic_to_eager"]):
        return "calls"
    if any(map(is_disabled, MAKING_RECIPES)):
        return "calls"
    executable = str(settings["executable"])
    if hardware_limits.name():
        if executable == "fused":
            raise RuntimeError(
                "executable='fused' has no limits of a profile: use 'auto', or unset HPU_REFERENCE_PROFILE"
            )
        return "interpreted"
    if executable == "interpreted":
        return executable
    reason = _why_no_compiler()
    if not reason:
        return "fused"
    if executable == "fused":
        raise RuntimeError(f"executable='fused' needs a C++ compiler ({reason}): install g++, or use 'auto'")
    _warn_once(reason)
    return "interpreted"


@functools.cache
def _why_no_compiler() -> str:
    from torch._inductor import cpp_builder

    try:
        compiler = cpp_builder.get_cpp_compiler()
    except Exception as error:  # an InvalidCxxCompiler, which releases define in different modules
        return str(error).splitlines()[0] if str(error) else type(error).__name__
    return "" if compiler else "none was found"


@functools.cache
def _warn_once(reason: str) -> None:
    text = f"hpu_backend found no C++ compiler ({reason}), so that graphs run as calls: install g++"
    warnings.warn(text, RuntimeWarning, stacklevel=4)
