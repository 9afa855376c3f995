"""The type of a property, and the decorator that registers one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from conformance.model.vocabulary import CALLS, CAPABILITIES, LEVELS, MODES

if TYPE_CHECKING:
    from conformance.framework.recorder import Recorder
    from conformance.target.target import Target

Check = Callable[["Target", Any, "Recorder"], None]
Applies = Callable[["Target", Any], Sequence[str]]


@dataclasses.dataclass(frozen=True)
class Property:
    """One statement that must hold for a subject.

    ``check(target, subject, recorder)`` is called once per dtype; ``recorder.id.dtype`` is the dtype's name
    (``float32``) or ``any``. ``applies(target, subject)`` returns the dtype names for which a result exists,
    without touching the device; an empty sequence means that there is no such case. ``modes`` are the modes
    in which it is checked. ``runs`` says that the subject's kernels run in every result of it, so that a
    result without any is vacuous in a mode that counts them. ``capabilities`` are words of
    :data:`conformance.model.vocabulary.CAPABILITIES`; a target that does not declare all of them may refuse.
    ``documentation`` is the page of PyTorch's documentation that the statement rests on, as a path below
    :data:`conformance.model.documentation.ROOT`, or the whole address of another one.
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


#: Registered properties by kind of subject and name.
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
) -> Callable[[Check], Check]:
    """Return a decorator that registers a plain check function as a property.

    Raises ValueError for an unknown level, mode or capability, and for a name that is registered already.
    """
    if level not in LEVELS:
        raise ValueError(f"property {name!r} names level {level!r}; use one of {', '.join(LEVELS)}")
    for mode in modes:
        if mode not in MODES:
            raise ValueError(f"property {name!r} names mode {mode!r}; use some of {', '.join(MODES)}")
    for word in capabilities:
        if word not in CAPABILITIES:
            raise ValueError(
                f"property {name!r} names capability {word!r}; see conformance/model/vocabulary.py"
            )

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
        )
        return check

    return wrap
