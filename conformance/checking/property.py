"""What a property is, and the registry of all of them."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from conformance.plan.needs import CAPABILITIES
from conformance.target.file import MODES

if TYPE_CHECKING:
    from conformance.checking.recorder import Recorder
    from conformance.target.target import Target

#: From narrow to broad. ``smoke`` stands beside them: a fixed quick choice, never certifiable.
LEVELS = ("bringup", "core", "training", "full")

#: Modes of a property that names none: what holds of a call holds of a call in a lazy graph.
CALLS = ("eager", "lazy")

#: Word used where a result does not vary with the dtype.
ANY_DTYPE = "any"

Check = Callable[["Target", Any, "Recorder"], None]
Applies = Callable[["Target", Any], Sequence[str]]


@dataclasses.dataclass(frozen=True)
class Property:
    """One statement that must hold for a subject.

    ``check(target, subject, recorder)`` is called once per dtype; ``recorder.id.dtype`` is the dtype's name
    (``float32``) or ``any``. ``applies(target, subject)`` returns the dtype names for which a result exists,
    without touching the device; an empty sequence means that there is no such case. ``modes`` are the modes
    in which it is checked. ``runs`` says that the subject's kernels run in every result of it, so that a
    result without any is vacuous in a mode that counts them. ``capabilities`` are the words of
    :mod:`conformance.plan.needs` that a target must declare to be held to it.
    """

    name: str
    subject_kind: str
    statement: str
    level: str
    check: Check
    applies: Applies
    about_emptiness: bool = False
    smoke: bool = False
    modes: tuple[str, ...] = CALLS
    runs: bool = True
    capabilities: tuple[str, ...] = ()


_REGISTRY: dict[tuple[str, str], Property] = {}


def register(
    name: str,
    *,
    subject_kind: str,
    statement: str,
    level: str,
    applies: Applies,
    about_emptiness: bool = False,
    smoke: bool = False,
    modes: Sequence[str] = CALLS,
    runs: bool = True,
    capabilities: Sequence[str] = (),
) -> Callable[[Check], Check]:
    """Decorator that registers a plain check function as a property."""
    if level not in LEVELS:
        raise ValueError(f"property {name!r} names level {level!r}; use one of {', '.join(LEVELS)}")
    for mode in modes:
        if mode not in MODES:
            raise ValueError(f"property {name!r} names mode {mode!r}; use some of {', '.join(MODES)}")
    for word in capabilities:
        if word not in CAPABILITIES:
            raise ValueError(f"property {name!r} names capability {word!r}; see conformance/plan/needs.py")

    def wrap(check: Check) -> Check:
        key = (subject_kind, name)
        if key in _REGISTRY:
            raise ValueError(
                f"property {name!r} of {subject_kind} is registered twice; give one of them another name"
            )
        _REGISTRY[key] = Property(
            name,
            subject_kind,
            statement,
            level,
            check,
            applies,
            about_emptiness,
            smoke,
            tuple(modes),
            runs,
            tuple(capabilities),
        )
        return check

    return wrap


_FOLDERS = {
    "operator": "operators",
    "module": "modules",
    "optimizer": "optimizers",
    "device": "device",
    "api": "api",
    "collective": "collective",
    "world": "world",
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
    """All registered properties of a kind of subject, in order of name."""
    load(subject_kind)
    for key in sorted(_REGISTRY):
        if key[0] == subject_kind:
            yield _REGISTRY[key]


def find(subject_kind: str, name: str) -> Property:
    """The property of that name; LookupError names the known ones."""
    load(subject_kind)
    try:
        return _REGISTRY[(subject_kind, name)]
    except KeyError:
        known = ", ".join(n for k, n in sorted(_REGISTRY) if k == subject_kind)
        raise LookupError(f"no property {name!r} for {subject_kind}; known are: {known}") from None
