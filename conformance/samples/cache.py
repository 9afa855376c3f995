"""A cache of values by subject that keeps the subjects used last."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")

#: The number of subjects in the cache. Cases are ordered by subject, so a few suffice.
CACHED_SUBJECTS = 3


class SubjectCache(collections.OrderedDict[str, dict[Key, Value]]):
    """Values by subject and key, for the :data:`CACHED_SUBJECTS` subjects used last.

    ``evicted`` is called with each value of a subject that leaves the cache.
    """

    def __init__(self, evicted: Callable[[Value], None] | None = None) -> None:
        super().__init__()
        self._evicted = evicted

    def values_of(self, subject: str) -> dict[Key, Value]:
        """Return the values of a subject by key, and mark the subject as the one used last."""
        values = self.pop(subject, None)
        if values is None:
            values = {}
            while len(self) >= CACHED_SUBJECTS:
                _, evicted_values = self.popitem(last=False)
                if self._evicted is not None:
                    for value in evicted_values.values():
                        self._evicted(value)
        self[subject] = values
        return values

    def value(self, subject: str, key: Key, make: Callable[[], Value]) -> Value:
        """Return the value of (subject, key). ``make`` computes it at the first call."""
        values = self.values_of(subject)
        if key not in values:
            values[key] = make()
        return values[key]
