"""An index of result ids by property, for fast pattern matching and for suggestions."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator

from conformance.model.id_patterns import compile_pattern, is_literal


class ResultIdIndex:
    """A set of result ids that finds the ids that a pattern matches."""

    def __init__(self, ids: Iterable[str]) -> None:
        self._ids: dict[str, list[str]] = {}
        self._all: set[str] = set()
        for text in ids:
            if text not in self._all:
                self._ids.setdefault(text.partition("/")[0], []).append(text)
                self._all.add(text)

    def __contains__(self, result_id: str) -> bool:
        return result_id in self._all

    def ids_matching(self, pattern: str) -> list[str]:
        """Return all ids that a pattern matches."""
        return list(self._ids_matching(pattern))

    def matches_any_id(self, pattern: str) -> bool:
        """Return True if a pattern matches at least one id."""
        return next(self._ids_matching(pattern), None) is not None

    def _ids_matching(self, pattern: str) -> Iterator[str]:
        if is_literal(pattern):
            return iter([pattern] if pattern in self._all else [])
        name = pattern.partition("/")[0]
        lists = [self._ids.get(name, [])] if is_literal(name) else list(self._ids.values())
        expression = compile_pattern(pattern)
        return (text for ids in lists for text in ids if expression.fullmatch(text))

    def nearest_ids(self, pattern: str, count: int = 3) -> list[str]:
        """Return suggestions for a pattern that does not match any id: similar ids or patterns, the most
        similar first.
        """
        parts = _id_parts(pattern)
        existing_parts = [
            sorted({_id_parts(text)[part_index] for text in self._all}) for part_index in range(3)
        ]
        choices = [
            _existing_or_similar(part, existing) for part, existing in zip(parts, existing_parts, strict=True)
        ]
        suggestions = [text for text in _joined_ids(choices) if self.ids_matching(text)]
        if not suggestions:
            # Every part of the pattern exists, but no id combines them: suggest other results of the subject.
            subjects = choices[1]
            wider_patterns = [f"{name}/{subject}@*" for subject in subjects for name in choices[0]]
            wider_patterns += [f"*/{subject}@*" for subject in subjects]
            suggestions = [text for wider in wider_patterns for text in self.ids_matching(wider)]
        return list(dict.fromkeys(suggestions))[:count]


def _id_parts(text: str) -> tuple[str, str, str]:
    name, _, rest = text.partition("/")
    subject, _, dtype = rest.rpartition("@")
    return name, subject, dtype


def _existing_or_similar(part: str, existing: list[str]) -> list[str]:
    """Return ``[part]`` if ``part`` equals or, as a pattern, matches an existing part. Otherwise return the
    most similar existing parts.
    """
    if part in existing:
        return [part]
    if not is_literal(part):
        expression = compile_pattern(part)
        if any(expression.fullmatch(text) for text in existing):
            return [part]
        part = part.strip("*?")
    return difflib.get_close_matches(part, existing, n=3, cutoff=0.5)


def _joined_ids(choices: list[list[str]]) -> Iterator[str]:
    return (
        f"{name}/{subject}@{dtype}" for subject in choices[1] for name in choices[0] for dtype in choices[2]
    )
