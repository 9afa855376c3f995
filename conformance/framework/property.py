"""The type of a property, and the decorator that registers a property."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from conformance.model.verdicts import Basis
from conformance.model.vocabulary import CALLS, CAPABILITIES, LEVELS, MODES

if TYPE_CHECKING:
    from conformance.framework.recorder import Recorder
    from conformance.target.target import Target

Check = Callable[["Target", Any, "Recorder"], None]
Applies = Callable[["Target", Any], Sequence[str]]


@dataclasses.dataclass(frozen=True)
class Property:
    """A requirement on every subject of one kind, and the check that verifies it.

    ``check(target, subject, recorder)`` is called once per dtype; ``recorder.id.dtype`` is the name of the
    dtype (``float32``) or ``any``. ``applies(target, subject)`` returns the names of the dtypes in which the
    subject is checked, without using the device. If the sequence is empty, the case does not exist.

    ``modes`` are the modes in which the property is checked. If ``runs`` is true, every result must run the
    subject's kernels. Mode lazy counts kernel calls, and a result without kernel calls is vacuous.
    ``capabilities`` are keys of :data:`conformance.model.vocabulary.CAPABILITIES`. A target that does not
    declare all of these capabilities may refuse the calls of the check.

    ``documentation`` is the page of PyTorch's documentation that states the requirement: a path below
    :data:`conformance.model.documentation.ROOT`, or the full address of a different page.

    ``basis`` is the basis of deviations, unless the check gives a deviation a basis of its own. ``ground`` is
    a sentence that explains a basis: the answers of the device that must be consistent, or the detail that no
    page states.
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
    documentation: str = ""
    basis: Basis = Basis.DOCUMENTED
    ground: str = ""


def requirement_of(function: Callable[..., Any]) -> str:
    """Return the requirement that the docstring of a function states: its first paragraph as plain text."""
    paragraph = (inspect.getdoc(function) or "").partition("\n\n")[0]
    return " ".join(paragraph.replace("``", "").split())


#: Registered properties by subject kind and name.
REGISTRY: dict[tuple[str, str], Property] = {}


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
    documentation: str = "",
    basis: str = "documented",
    ground: str = "",
) -> Callable[[Check], Check]:
    """Return a decorator that registers a check function as a property.

    Raise ValueError for an unknown level, mode, capability or basis, for a basis other than ``documented``
    without a ground, and for a name that is already registered.
    """
    if level not in LEVELS:
        raise ValueError(f"property {name!r} names level {level!r}; use one of {', '.join(LEVELS)}")
    for mode in modes:
        if mode not in MODES:
            raise ValueError(f"property {name!r} names mode {mode!r}; use some of {', '.join(MODES)}")
    for capability in capabilities:
        if capability not in CAPABILITIES:
            raise ValueError(
                f"property {name!r} names capability {capability!r}; see conformance/model/vocabulary.py"
            )

    if basis not in list(Basis):
        raise ValueError(
            f"property {name!r} has basis {basis!r}; use one of {', '.join(item.value for item in Basis)}"
        )
    if basis != Basis.DOCUMENTED.value and not ground:
        raise ValueError(f"property {name!r} has basis {basis}; give its ground, a sentence")

    def wrap(check: Check) -> Check:
        key = (subject_kind, name)
        if key in REGISTRY:
            raise ValueError(
                f"property {name!r} of {subject_kind} is registered twice; give one of them another name"
            )
        REGISTRY[key] = Property(
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
            documentation,
            Basis(basis),
            ground,
        )
        return check

    return wrap
