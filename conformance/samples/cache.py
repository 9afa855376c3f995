"""A cache of values by subject, with the values of the most recently used subjects only."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")

#: The number of subjects in the cache. The suite checks all properties of one subject after another, so a few
#: subjects suffice.
CACHED_SUBJECTS = 3


class SubjectCache(collections.OrderedDict[str, dict[Key, Value]]):
    """Values by subject and key, for the :data:`CACHED_SUBJECTS` most recently used subjects.

    ``evicted`` is called with each value of a subject that leaves the cache.
    """

    def __init__(self, evicted: Callable[[Value], None] | None = None) -> None:
        super().__init__()
        self._evicted = evicted

    def values_of(self, subject: str) -> dict[Key, Value]:
        """Return the cached values of a subject by key, and mark the subject as most recently used."""
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
        """Return the cached value of (subject, key). If the cache does not contain it, call ``make`` and
        cache the result.
        """
        values = self.values_of(subject)
        if key not in values:
            values[key] = make()
        return values[key]
