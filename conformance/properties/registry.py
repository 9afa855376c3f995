"""All registered properties: their modules are imported when a kind of subject is first asked for."""

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


def load(subject_kind: str) -> None:
    """Import the modules of ``conformance.properties`` that register properties of a kind of subject.

    A kind without a folder of its own comes from an extra module, which registers when it is imported.
    """
    folder = _FOLDERS.get(subject_kind)
    if folder is None:
        return
    package = importlib.import_module(f"conformance.properties.{folder}")
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)


def properties(subject_kind: str) -> Iterator[Property]:
    """Yield all registered properties of a kind of subject, in order of name."""
    load(subject_kind)
    for key in sorted(REGISTRY):
        if key[0] == subject_kind:
            yield REGISTRY[key]


def find(subject_kind: str, name: str) -> Property:
    """Return the property of that name; LookupError names the known ones."""
    load(subject_kind)
    try:
        return REGISTRY[(subject_kind, name)]
    except KeyError:
        known = ", ".join(n for k, n in sorted(REGISTRY) if k == subject_kind)
        raise LookupError(f"no property {name!r} for {subject_kind}; known are: {known}") from None
