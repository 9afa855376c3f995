"""``model.id_patterns`` matches ids against patterns with ``*`` and ``?``, in bounded time."""

from __future__ import annotations

import itertools
import subprocess
import sys

import pytest

from conformance.model.id_patterns import matches


def matches_by_definition(pattern: str, text: str) -> bool:
    """Return whether the pattern matches the whole text, computed recursively from the definition of
    patterns.
    """
    if not pattern:
        return not text
    if pattern[0] == "*":
        return any(matches_by_definition(pattern[1:], text[start:]) for start in range(len(text) + 1))
    return bool(text) and pattern[0] in ("?", text[0]) and matches_by_definition(pattern[1:], text[1:])


def test_all_short_patterns_match_by_definition() -> None:
    texts = ["".join(letters) for size in range(4) for letters in itertools.product("ab", repeat=size)]
    patterns = ["".join(letters) for size in range(5) for letters in itertools.product("a*?b", repeat=size)]
    wrong = [(p, t) for p in patterns for t in texts if matches(p, t) != matches_by_definition(p, t)]
    assert not wrong and len(patterns) == 341


@pytest.mark.parametrize("text", ["a[b]c", "a[!b]", "a]b", "[", "a.b", "a\\b", "a+b", "(a|b)", "{1}", "^a$"])
def test_other_characters_match_only_themselves(text) -> None:
    assert matches(text, text) and matches(f"*{text}?", f"x{text}x")
    assert not matches(text, f"{text}x") and not matches("a[b]c", "abc") and not matches("a.b", "axb")


def test_patterns_are_case_sensitive() -> None:
    assert not matches("value/T@*", "value/t@float32")


@pytest.mark.parametrize("pattern", ["?*" * 40 + "x", "*a" * 40 + "z", "*" * 500 + "z", "*?a" * 30 + "z"])
def test_matching_a_hostile_pattern_ends(pattern) -> None:
    """The match runs in a process of its own, because a test cannot interrupt an endless match."""
    code = f"from conformance.model.id_patterns import matches; print(matches({pattern!r}, 'a' * 200))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert done.stdout.strip() == "False", done.stderr


def test_star_and_question_mark_are_the_only_wildcards() -> None:
    assert matches("value/fft_*@float??", "value/fft_rfft2@float16")
    assert not matches("value/add", "value/add@float32")
    assert not matches("value/[ab]@*", "value/a@x")
    assert not matches("value/a.d@*", "value/add@x")
