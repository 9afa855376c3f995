"""The kinds of subjects and the subjects of each kind: torch's own and those of extra modules."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from typing import Protocol

from conformance.errors import UsageError
from conformance.model.vocabulary import KINDS

#: Restricts a process to some kinds (separated by commas); for the suite's own tests.
KINDS_VARIABLE = "CONFORMANCE_KINDS"


class Subject(Protocol):
    """The part of a subject that the harness uses."""

    @property
    def name(self) -> str:
        """The subject's name, unique within its kind."""

    @property
    def kind(self) -> str:
        """The kind of the subject, one of :func:`kinds`."""


_extra: dict[str, list[Subject]] = {}
_smoke: dict[str, set[str]] = {}


def add_subjects(kind: str, subjects: Sequence[Subject], *, smoke: Sequence[str] = ()) -> None:
    """Add a kind of subjects from outside the suite; ``smoke`` names the subjects of level ``smoke``.

    Raises ValueError if the kind exists already.
    """
    if kind in KINDS or kind in _extra:
        raise ValueError(f"subjects of kind {kind!r} exist already; choose another word")
    _extra[kind] = list(subjects)
    _smoke[kind] = set(smoke)


def load_extra(modules: Sequence[str]) -> None:
    """Import modules that register their own properties and subjects; raise UsageError if an import fails."""
    for module in modules:
        try:
            importlib.import_module(module)
        except Exception as error:
            reason = str(error) if isinstance(error, ImportError) else f"{type(error).__name__}: {error}"
            raise UsageError(f"extra module {module!r} cannot be imported: {reason}") from error


def kinds() -> list[str]:
    """Return every kind of subject in this process."""
    selected = os.environ.get(KINDS_VARIABLE)
    all_kinds = [*KINDS, *_extra]
    return [kind for kind in all_kinds if selected is None or kind in selected.split(",")]


def subjects(kind: str) -> Sequence[Subject]:
    """Return the subjects of a kind, in a fixed order."""
    if kind in _extra:
        return _extra[kind]
    from conformance.subjects import torch_databases

    listed: Sequence[Subject] = torch_databases.subjects(kind)
    return listed


def smoke_subjects(kind: str) -> set[str] | None:
    """Return the names of an extra kind's subjects in level ``smoke``; None for torch's own kinds."""
    return _smoke.get(kind)
