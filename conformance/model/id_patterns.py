"""Patterns of result ids: ``*`` and ``?`` are wildcards, all other characters are literal and
case-sensitive.
"""

from __future__ import annotations

import fnmatch
import functools
import re


@functools.lru_cache(maxsize=4096)
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Return the regular expression of a pattern, which must match a whole id.

    ``fnmatch.translate`` returns an expression that does not backtrack over several ``*``. Patterns may come
    from untrusted files, which must not make matching slow.
    """
    return re.compile(fnmatch.translate(pattern.replace("[", "[[]")))


def matches(pattern: str, text: str) -> bool:
    """Return True if the pattern matches the whole text."""
    return compile_pattern(pattern).fullmatch(text) is not None


def is_literal(pattern: str) -> bool:
    """Return True if the pattern has no wildcard."""
    return "*" not in pattern and "?" not in pattern
