"""Which kinds of subjects exist, with their subjects: torch's own and those of extra modules."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from typing import Protocol

from conformance.errors import UsageError
from conformance.model.vocabulary import KINDS

#: Restricts a process to some kinds (words joined by commas); for the suite's own tests.
KINDS_VARIABLE = "CONFORMANCE_KINDS"


class Subject(Protocol):
    """What the harness needs to know of a subject."""

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> str: ...


_extra: dict[str, list[Subject]] = {}
_smoke: dict[str, set[str]] = {}


def add_subjects(kind: str, subjects: Sequence[Subject], *, smoke: Sequence[str] = ()) -> None:
    """Add a kind of subjects from outside of the suite; ``smoke`` names those that the quick choice takes."""
    if kind in KINDS or kind in _extra:
        raise ValueError(f"subjects of kind {kind!r} exist already; choose another word")
    _extra[kind] = list(subjects)
    _smoke[kind] = set(smoke)


def load_extra(modules: Sequence[str]) -> None:
    """Import modules that register properties and subjects of their own."""
    for module in modules:
        try:
            importlib.import_module(module)
        except Exception as error:
            words = str(error) if isinstance(error, ImportError) else f"{type(error).__name__}: {error}"
            raise UsageError(f"extra module {module!r} cannot be imported: {words}") from error


def kinds() -> list[str]:
    """Every kind of subject that this process knows."""
    chosen = os.environ.get(KINDS_VARIABLE)
    known = [*KINDS, *_extra]
    return [kind for kind in known if chosen is None or kind in chosen.split(",")]


def subjects(kind: str) -> Sequence[Subject]:
    """The subjects of a kind, in a fixed order."""
    if kind in _extra:
        return _extra[kind]
    from conformance.subjects import databases as own

    found: Sequence[Subject] = own.subjects(kind)
    return found


def smoke_subjects(kind: str) -> set[str] | None:
    """Names of the subjects of an extra kind that the level ``smoke`` takes; None for torch's own kinds."""
    return _smoke.get(kind)
