"""Parse the user's selection of results: the expression of ``-k``, which is matched against result ids."""

from __future__ import annotations

import re
from collections.abc import Callable

from conformance.errors import UsageError

Matcher = Callable[[str], bool]
_TOKEN = re.compile(r"\s*([()]|[^\s()]+)")


def parse_selection(expression: str) -> Matcher:
    """Return a function that returns True for the result ids (``value/add@float32``) that an expression
    selects.

    The expression consists of words, ``and``, ``or``, ``not``, ``(`` and ``)``. A word selects the ids that
    contain it; case is ignored. ``/add@`` therefore selects exactly the operator ``add``. Raise UsageError if
    the expression cannot be parsed.
    """
    tokens = _TOKEN.findall(expression)
    if not tokens:
        raise UsageError("the expression of -k is empty; write words such as 'value and not float16'")
    parser = _Parser(tokens, expression)
    matcher = parser.parse_or()
    if parser.tokens:
        raise parser.error()
    return matcher


class _Parser:
    def __init__(self, tokens: list[str], expression: str) -> None:
        self.tokens = list(tokens)
        self.expression = expression

    def error(self) -> UsageError:
        token = repr(self.tokens[0]) if self.tokens else "the end"
        return UsageError(
            f"-k {self.expression!r} cannot be parsed at {token}; join words with 'and', 'or', 'not', ( )"
        )

    def accept_token(self, token: str) -> bool:
        if self.tokens and self.tokens[0] == token:
            self.tokens.pop(0)
            return True
        return False

    def parse_or(self) -> Matcher:
        left = self.parse_and()
        while self.accept_token("or"):
            left = _match_either(left, self.parse_and())
        return left

    def parse_and(self) -> Matcher:
        left = self.parse_not()
        while self.accept_token("and"):
            left = _match_both(left, self.parse_not())
        return left

    def parse_not(self) -> Matcher:
        if self.accept_token("not"):
            inner = self.parse_not()
            return lambda text: not inner(text)
        if self.accept_token("("):
            inner = self.parse_or()
            if not self.accept_token(")"):
                raise self.error()
            return inner
        if not self.tokens or self.tokens[0] in ("and", "or", ")"):
            raise self.error()
        fragment = self.tokens.pop(0).lower()
        return lambda text: fragment in text.lower()


def _match_either(left: Matcher, right: Matcher) -> Matcher:
    return lambda text: left(text) or right(text)


def _match_both(left: Matcher, right: Matcher) -> Matcher:
    return lambda text: left(text) and right(text)
