"""Patterns over result ids: ``*`` and ``?`` are wildcards, all else is literal and case-sensitive."""

from __future__ import annotations

import fnmatch
import functools
import re


@functools.lru_cache(maxsize=4096)
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Return the regular expression of a pattern, which must match a whole id.

    The matching time does not grow with the number of ways to fill the stars, because patterns may come from
    untrusted files.
    """
    return re.compile(fnmatch.translate(pattern.replace("[", "[[]")))


def matches(pattern: str, text: str) -> bool:
    """Return True if the pattern matches the whole text."""
    return compile_pattern(pattern).fullmatch(text) is not None


def is_literal(pattern: str) -> bool:
    """Return True if the pattern matches one text only."""
    return "*" not in pattern and "?" not in pattern
