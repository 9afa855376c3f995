"""Registry of all properties.

The modules of a subject kind are imported when the kind is first requested.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

from conformance.framework.property import REGISTRY, Property

_FOLDERS = {
    "operator": "operators",
    "overload": "overloads",
    "module": "modules",
    "optimizer": "optimizers",
    "device": "device",
    "api": "api",
    "collective": "collectives",
    "world": "multi_rank",
}


def load_properties(subject_kind: str) -> None:
    """Import the modules of ``conformance.properties`` that register properties of a subject kind.

    A kind without a folder is registered by an extra module when that module is imported.
    """
    folder = _FOLDERS.get(subject_kind)
    if folder is None:
        return
    package = importlib.import_module(f"conformance.properties.{folder}")
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)


def properties(subject_kind: str) -> Iterator[Property]:
    """Yield all registered properties of a subject kind, sorted by name."""
    load_properties(subject_kind)
    for key in sorted(REGISTRY):
        if key[0] == subject_kind:
            yield REGISTRY[key]


def find_property(subject_kind: str, name: str) -> Property:
    """Return the property with a name. If it does not exist, raise LookupError with the registered names."""
    load_properties(subject_kind)
    try:
        return REGISTRY[(subject_kind, name)]
    except KeyError:
        names = ", ".join(n for k, n in sorted(REGISTRY) if k == subject_kind)
        raise LookupError(f"{subject_kind} has no property {name!r}. Its properties are: {names}") from None
