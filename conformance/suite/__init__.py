"""The pytest face of the suite: thin modules that hang the cases of a kind of subject into pytest's tree."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Cases:
    """Stands in a test module for all planned cases of a kind; ``conformance.plugin`` turns it into items."""

    kind: str


def cases(kind: str) -> Cases:
    """All cases of a kind of subject; assign it to a module-level name that starts with ``test_``."""
    return Cases(kind)
