"""Patterns over result ids: ``*`` and ``?``, everything else literal, upper and lower case told apart."""

from __future__ import annotations

import fnmatch
import functools
import re


@functools.lru_cache(maxsize=4096)
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """The regular expression that a pattern stands for; it must match a whole id.

    In time that does not grow with the number of ways in which stars could be filled: patterns may be a
    stranger's.
    """
    return re.compile(fnmatch.translate(pattern.replace("[", "[[]")))


def matches(pattern: str, text: str) -> bool:
    """Return True if the pattern matches the whole text."""
    return compile_pattern(pattern).fullmatch(text) is not None


def is_literal(pattern: str) -> bool:
    """Return True if the pattern matches one text only."""
    return "*" not in pattern and "?" not in pattern
