"""The suite for pytest: thin modules, each of which collects the cases of one kind of subject."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Cases:
    """All planned cases of a kind, as a placeholder in a test module; ``conformance.plugin`` makes its
    items.
    """

    kind: str


def cases(kind: str) -> Cases:
    """Return all cases of a kind of subject; assign them to a module-level name that starts with
    ``test_``.
    """
    return Cases(kind)
