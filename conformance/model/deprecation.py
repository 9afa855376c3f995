"""Old module names, kept for one release: their attributes come from where they are now, with a warning."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Sequence
from typing import Any


def moved(old: str, places: Sequence[str], names: Sequence[str] | None = None) -> Callable[[str], Any]:
    """Return a module's ``__getattr__`` that finds names in ``places``, the first that has one.

    ``names`` restricts it to some: a package must not import one of its modules to look for another. Each
    access warns with a DeprecationWarning that names the new place; a name that no place has raises
    AttributeError.
    """

    def find(name: str) -> Any:
        if not name.startswith("__") and (names is None or name in names):
            for place in places:
                module = importlib.import_module(place)
                if hasattr(module, name):
                    warnings.warn(
                        f"{old}.{name} has moved to {place}; import it from conformance.extension",
                        DeprecationWarning,
                        stacklevel=2,
                    )
                    return getattr(module, name)
        raise AttributeError(f"module {old!r} has no attribute {name!r}")

    return find
