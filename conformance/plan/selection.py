"""The user's own selection: ``-k EXPR`` over the names of properties, subjects and dtypes."""

from __future__ import annotations

import re
from collections.abc import Callable

from conformance.errors import UsageError

Matcher = Callable[[str], bool]
_TOKEN = re.compile(r"\s*([()]|[^\s()]+)")


def parse_selection(expression: str) -> Matcher:
    """Return a matcher over result ids (``value/add@float32``) for an expression with ``and``, ``or``,
    ``not``, ``( )``.

    A word matches if it is a substring of the id; case is ignored. ``/add@`` therefore selects exactly the
    operator ``add``. Raise UsageError for the token that cannot be parsed.
    """
    tokens = _TOKEN.findall(expression)
    if not tokens:
        raise UsageError("the expression of -k is empty; write words such as 'value and not float16'")
    parser = _Parser(tokens, expression)
    matcher = parser.either()
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

    def take(self, token: str) -> bool:
        if self.tokens and self.tokens[0] == token:
            self.tokens.pop(0)
            return True
        return False

    def either(self) -> Matcher:
        left = self.both()
        while self.take("or"):
            left = _any_of(left, self.both())
        return left

    def both(self) -> Matcher:
        left = self.negated()
        while self.take("and"):
            left = _all_of(left, self.negated())
        return left

    def negated(self) -> Matcher:
        if self.take("not"):
            inner = self.negated()
            return lambda text: not inner(text)
        if self.take("("):
            inner = self.either()
            if not self.take(")"):
                raise self.error()
            return inner
        if not self.tokens or self.tokens[0] in ("and", "or", ")"):
            raise self.error()
        fragment = self.tokens.pop(0).lower()
        return lambda text: fragment in text.lower()


def _any_of(left: Matcher, right: Matcher) -> Matcher:
    return lambda text: left(text) or right(text)


def _all_of(left: Matcher, right: Matcher) -> Matcher:
    return lambda text: left(text) and right(text)
