"""List the kinds of subjects and the subjects of each kind, including the subjects of extra modules."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from typing import Protocol

from conformance.errors import UsageError
from conformance.model.vocabulary import KINDS

#: Environment variable for the suite's own tests: a comma-separated list of the kinds of subjects to which
#: this process is limited.
KINDS_VARIABLE = "CONFORMANCE_KINDS"


class Subject(Protocol):
    """The attributes of a subject that the runner and the workers use."""

    @property
    def name(self) -> str:
        """The subject's name, unique within its kind."""

    @property
    def kind(self) -> str:
        """The kind of the subject, one of :func:`kinds`."""


_extra: dict[str, list[Subject]] = {}
_smoke: dict[str, set[str]] = {}


def add_subjects(kind: str, subjects: Sequence[Subject], *, smoke: Sequence[str] = ()) -> None:
    """Add a new kind of subjects, for an extra module. ``smoke`` names the subjects of level ``smoke``.

    Raise ValueError if the kind exists already.
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
    """Return all kinds of subjects in this process, including kinds that extra modules added."""
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
    """Return the names of the subjects of a kind in level ``smoke``, if an extra module added the kind;
    return None for other kinds.
    """
    return _smoke.get(kind)
