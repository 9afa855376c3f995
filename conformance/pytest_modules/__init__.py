"""The test modules for pytest. Each module collects the cases of one subject kind."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Cases:
    """A placeholder for all planned cases of a subject kind.

    ``conformance.plugin`` creates the pytest items of the cases.
    """

    kind: str


def cases(kind: str) -> Cases:
    """Return a placeholder for all cases of a subject kind.

    Assign it to a module-level name that starts with ``test_``.
    """
    return Cases(kind)
