"""Parse queries such as ``op:topk dtype:bfloat16,float16 -kind:value`` into predicates over results.

* Adjacent terms must all match. ``or``, ``not`` (or ``-``) and brackets combine terms.
* ``key:value`` compares the whole value. ``*`` matches any characters. A comma separates alternative values.
* A word without a key matches a part of the id or of a message.
* Upper and lower case are equal.

``query.js`` implements the same language. ``tests/unit/query/vectors.json`` tests both implementations.
"""

from __future__ import annotations

import dataclasses
import difflib
import operator
import re
from collections.abc import Callable, Iterable, Sequence

from conformance.errors import UsageError
from conformance.query.fields import ALIASES, CLOSED, KEYS, ResultFields

Predicate = Callable[[ResultFields], bool]

_TOKEN = re.compile(r'\s*(?:([()])|((?:"[^"]*"|[^\s()"])+)|(")|$)')
_VALUE = re.compile(r'(?:"[^"]*"|[^",])*')
_WORDS = ("and", "or", "not")
_NUMBER = re.compile(r"(>=|<=|>|<)(\d+(?:\.\d*)?|\.\d+)")
_COMPARE = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}
#: The maximum nesting of brackets and negations.
_DEPTH = 100
#: The maximum number of characters of a query.
LONGEST = 2000


class QueryError(UsageError):
    """A syntax error in a query. ``at`` is the offset of the error in the text, starting at 0."""

    def __init__(self, description: str, at: int, remedy: str) -> None:
        super().__init__(f"the query has {description} at character {at + 1}; {remedy}")
        self.at = at


@dataclasses.dataclass(frozen=True)
class _Token:
    text: str
    at: int

    @property
    def bracket(self) -> bool:
        return self.text in ("(", ")")


def parse_query(text: str) -> Predicate:
    """Return the predicate of a query. An empty query matches every result.

    Raise QueryError for the first syntax error.
    """
    if len(text) > LONGEST:
        raise QueryError(f"{len(text)} characters", LONGEST, f"shorten it to at most {LONGEST}")
    tokens = _tokenize(text)
    if not tokens:
        return lambda result: True
    reader = _QueryParser(tokens, len(text))
    predicate = reader.parse_or(0)
    if (extra_token := reader.next()) is not None:
        raise QueryError(
            f"'{extra_token.text}' without its opening bracket", extra_token.at, "add or remove a bracket"
        )
    return predicate


def _tokenize(text: str) -> list[_Token]:
    tokens = []
    position = 0
    while (match := _TOKEN.match(text, position)) is not None and match.end() > position:
        bracket, term, quote = match.groups()
        if quote:
            raise QueryError("a quotation mark without its end", match.start(3), "close it")
        if token_text := bracket or term:
            tokens.append(_Token(token_text, match.start(1) if bracket else match.start(2)))
        position = match.end()
    return tokens


class _QueryParser:
    def __init__(self, tokens: list[_Token], end: int) -> None:
        self._tokens = tokens
        self._place = 0
        self._end = end

    def next(self) -> _Token | None:
        return self._tokens[self._place] if self._place < len(self._tokens) else None

    def _accept_keyword(self, *keywords: str) -> _Token | None:
        token = self.next()
        if token is None or token.text.lower() not in keywords:
            return None
        self._place += 1
        return token

    def parse_or(self, depth: int) -> Predicate:
        parts = [self._parse_and(depth)]
        while self._accept_keyword("or"):
            parts.append(self._parse_and(depth))
        return parts[0] if len(parts) == 1 else lambda result: any(part(result) for part in parts)

    def _parse_and(self, depth: int) -> Predicate:
        parts = [self._parse_not(depth)]
        while (token := self.next()) is not None and token.text != ")" and token.text.lower() != "or":
            self._accept_keyword("and")
            parts.append(self._parse_not(depth))
        return parts[0] if len(parts) == 1 else lambda result: all(part(result) for part in parts)

    def _parse_not(self, depth: int) -> Predicate:
        token = self.next()
        if token is None:
            raise QueryError("nothing", self._end, "write a word or key:value there")
        if depth > _DEPTH:
            raise QueryError(f"more than {_DEPTH} brackets and negations", token.at, "simplify the query")
        if self._accept_keyword("not"):
            return _match_not(self._parse_not(depth + 1))
        if self._accept_keyword("("):
            inner = self.parse_or(depth + 1)
            if not self._accept_keyword(")"):
                raise QueryError("an open bracket", token.at, "close it")
            return inner
        if token.bracket or token.text.lower() in _WORDS:
            raise QueryError(
                f"'{token.text}' without a term before it", token.at, "write a word or key:value"
            )
        self._place += 1
        if token.text.startswith("-") and len(token.text) > 1:
            return _match_not(_parse_term(token.text[1:], token.at + 1))
        return _parse_term(token.text, token.at)


def _match_not(inner: Predicate) -> Predicate:
    return lambda result: not inner(result)


def _parse_term(text: str, at: int) -> Predicate:
    quoted = text.startswith('"')
    head, colon, rest = text.partition(":")
    if quoted or not colon:
        return _match_word(text.replace('"', "").lower())
    key = ALIASES.get(head.lower(), head.lower())
    if key not in KEYS:
        key_names = [*KEYS, *ALIASES]
        raise QueryError(
            f"the unknown key '{head}'", at, f"{_suggestion(head, key_names)}; or quote the word"
        )
    value_start = at + len(head) + 1
    if not rest:
        raise QueryError(f"no value for '{key}'", value_start, f"write one, e.g. {key}:{_example(key)}")
    if key == "seconds":
        return _parse_seconds(rest, value_start)
    values = _parse_values(key, rest, value_start)
    if key == "message":
        return lambda result: any(value in text.lower() for text in result.texts for value in values)
    patterns = [value.split("*") for value in values]
    return lambda result: any(
        _matches_star_pattern(parts, value.lower()) for value in result.values(key) for parts in patterns
    )


def _match_word(needle: str) -> Predicate:
    return lambda result: needle in result.id.lower() or any(needle in text.lower() for text in result.texts)


def _parse_values(key: str, rest: str, at: int) -> list[str]:
    """Return the comma-separated values in lower case. A quoted comma is part of its value."""
    values = []
    position = 0
    while True:
        match = _VALUE.match(rest, position)
        value = "" if match is None else match.group().replace('"', "").lower()
        if not value:
            raise QueryError("an empty value", at + position, "write a value, or remove the comma")
        if key in CLOSED and "*" not in value and value not in CLOSED[key]:
            raise QueryError(f"the unknown {key} '{value}'", at + position, _suggestion(value, CLOSED[key]))
        values.append(value)
        position = rest.find(",", match.end()) + 1 if match is not None else 0
        if not position:
            return values


def _matches_star_pattern(parts: Sequence[str], value: str) -> bool:
    """Return True if a value matches a pattern, given as its ``parts`` between stars.

    A regular expression is not used, because its time grows exponentially with the number of stars.
    """
    first, *rest = parts
    if not rest:
        return value == first
    *middle, last = rest
    if not value.startswith(first):
        return False
    position = len(first)
    for part in middle:
        index = value.find(part, position)
        if index < 0:
            return False
        position = index + len(part)
    return len(value) - len(last) >= position and value.endswith(last)


def _parse_seconds(rest: str, at: int) -> Predicate:
    match = _NUMBER.fullmatch(rest)
    if match is None:
        raise QueryError(f"'{rest}' for seconds", at, "write a comparison, e.g. seconds:>2")
    compare, limit = _COMPARE[match.group(1)], float(match.group(2))
    return lambda result: bool(compare(result.seconds, limit))


def _suggestion(text: str, candidates: Iterable[str]) -> str:
    similar = difflib.get_close_matches(text.lower(), candidates, n=1)
    return f"did you mean '{similar[0]}'?" if similar else f"use one of {', '.join(candidates)}"


def _example(key: str) -> str:
    if key in CLOSED:
        return CLOSED[key][0]
    return {"seconds": ">2", "dtype": "float32", "torch": "2.13*", "family": "fft"}.get(key, "add")
