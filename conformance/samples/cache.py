"""Values kept for the subjects used last."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")

#: Subjects whose values stay in memory; cases come ordered by subject.
KEPT = 3


class SubjectCache(collections.OrderedDict[str, dict[Key, Value]]):
    """Values by subject and key, for the :data:`KEPT` subjects used last.

    ``evicted`` is called with each value that goes because its subject does.
    """

    def __init__(self, evicted: Callable[[Value], None] | None = None) -> None:
        super().__init__()
        self._evicted = evicted

    def of(self, subject: str) -> dict[Key, Value]:
        """Return the values of a subject by key, and make it the one used last."""
        values = self.pop(subject, None)
        if values is None:
            values = {}
            while len(self) >= KEPT:
                _, gone = self.popitem(last=False)
                if self._evicted is not None:
                    for value in gone.values():
                        self._evicted(value)
        self[subject] = values
        return values

    def value(self, subject: str, key: Key, make: Callable[[], Value]) -> Value:
        """Return the value of (subject, key); ``make`` computes it the first time."""
        values = self.of(subject)
        if key not in values:
            values[key] = make()
        return values[key]
