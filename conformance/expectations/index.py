"""Result ids by property, so that a pattern is held against few of them; and names near to a wrong one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator

from conformance.model.id_patterns import compile_pattern, is_literal


class Index:
    """Result ids by property."""

    def __init__(self, ids: Iterable[str]) -> None:
        self._ids: dict[str, list[str]] = {}
        self._all: set[str] = set()
        for text in ids:
            if text not in self._all:
                self._ids.setdefault(text.partition("/")[0], []).append(text)
                self._all.add(text)

    def __contains__(self, result_id: str) -> bool:
        return result_id in self._all

    def matching(self, pattern: str) -> list[str]:
        """All ids that a pattern matches."""
        return list(self._matching(pattern))

    def matches(self, pattern: str) -> bool:
        """Return True if a pattern matches any id; stops at the first."""
        return next(self._matching(pattern), None) is not None

    def _matching(self, pattern: str) -> Iterator[str]:
        if is_literal(pattern):
            return iter([pattern] if pattern in self._all else [])
        name = pattern.partition("/")[0]
        lists = [self._ids.get(name, [])] if is_literal(name) else list(self._ids.values())
        expression = compile_pattern(pattern)
        return (text for ids in lists for text in ids if expression.fullmatch(text))

    def nearest(self, pattern: str, count: int = 3) -> list[str]:
        """Ids or patterns that a pattern which matches nothing may have meant, the likeliest first."""
        parts = _parts(pattern)
        known = [sorted({_parts(text)[place] for text in self._all}) for place in range(3)]
        choices = [_choices(part, words) for part, words in zip(parts, known, strict=True)]
        near = [text for text in _joined(choices) if self.matching(text)]
        if not near:
            # Every word exists, but not together: show what the subject has.
            subjects = choices[1]
            wide = [f"{name}/{subject}@*" for subject in subjects for name in choices[0]]
            wide += [f"*/{subject}@*" for subject in subjects]
            near = [text for wider in wide for text in self.matching(wider)]
        return list(dict.fromkeys(near))[:count]


def _parts(text: str) -> tuple[str, str, str]:
    name, _, rest = text.partition("/")
    subject, _, dtype = rest.rpartition("@")
    return name, subject, dtype


def _choices(part: str, words: list[str]) -> list[str]:
    """A word as it is where it exists or is a pattern that matches, else those near to it."""
    if part in words:
        return [part]
    if not is_literal(part):
        expression = compile_pattern(part)
        if any(expression.fullmatch(word) for word in words):
            return [part]
        part = part.strip("*?")
    return difflib.get_close_matches(part, words, n=3, cutoff=0.5)


def _joined(choices: list[list[str]]) -> Iterator[str]:
    return (
        f"{name}/{subject}@{dtype}" for subject in choices[1] for name in choices[0] for dtype in choices[2]
    )
