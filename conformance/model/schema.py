"""Validate documents against the subset of JSON Schema that the suite's own schemas use.

A results file can have hundreds of thousands of rows, for which a general validator takes minutes. This
module compiles a schema to functions, which take a few microseconds per row. A schema with a keyword outside
the subset is rejected.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "schemas"

#: A function that validates a value. It returns None, or the path of the invalid value and the reason.
Check = Callable[[Any], "str | None"]

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}
_SILENT = frozenset({"$schema", "$id", "$defs", "title", "description"})


class SchemaError(ValueError):
    """A document is invalid. The message contains the path of the invalid value."""


class Schema:
    """A compiled schema."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._definitions: dict[str, Any] = document.get("$defs", {})
        self._compiled: dict[str, Check] = {}
        self._check = self._compile(document)

    @staticmethod
    def load(name: str) -> Schema:
        """Return the schema ``NAME.json`` of the suite."""
        return Schema(json.loads((FOLDER / f"{name}.json").read_text()))

    def validate(self, document: Any) -> None:
        """Raise SchemaError with the path of the first invalid value, if the document is invalid."""
        wrong = self._check(document)
        if wrong is not None:
            raise SchemaError(wrong)

    def _compile(self, schema: dict[str, Any]) -> Check:
        checks: list[Check] = []
        for keyword, value in schema.items():
            if keyword in _SILENT:
                continue
            build = getattr(self, "_" + keyword.strip("$"), None)
            if build is None:
                raise SchemaError(
                    f"schema keyword {keyword!r} is not supported; implement it here or remove it"
                )
            check = build(value, schema)
            if check is not None:
                checks.append(check)
        if len(checks) == 1:
            return checks[0]
        may_be_null = "null" in schema.get("type", ())

        def check_all_keywords(value: Any) -> str | None:
            if value is None and may_be_null:
                return None  # the other keywords apply only to objects, strings and numbers
            for check in checks:
                wrong = check(value)
                if wrong is not None:
                    return wrong
            return None

        return check_all_keywords

    def _ref(self, value: str, schema: dict[str, Any]) -> Check:
        name = value.removeprefix("#/$defs/")
        if name not in self._definitions:
            raise SchemaError(f"schema reference {value!r} does not exist; define it in $defs")

        def check_referenced_schema(document: Any) -> str | None:
            if name not in self._compiled:
                self._compiled[name] = self._compile(self._definitions[name])
            return self._compiled[name](document)

        return check_referenced_schema

    def _type(self, value: Any, schema: dict[str, Any]) -> Check:
        names = [value] if isinstance(value, str) else value
        types = tuple(kind for name in names for kind in _TYPES[name])
        boolean = bool in types

        def check(document: Any) -> str | None:
            if not isinstance(document, types) or (isinstance(document, bool) and not boolean):
                return f": {_shorten_repr(document)} is not of type {' or '.join(names)}"
            return None

        return check

    def _enum(self, value: list[Any], schema: dict[str, Any]) -> Check:
        # Compare types too: in Python True equals 1, but a schema that allows 1 does not allow true.
        allowed = frozenset((type(item), item) for item in value)

        def check(document: Any) -> str | None:
            scalar = document is None or isinstance(document, (str, int, float))
            if scalar and (type(document), document) in allowed:
                return None
            return f": {_shorten_repr(document)} is not one of {', '.join(map(str, value))}"

        return check

    def _const(self, value: Any, schema: dict[str, Any]) -> Check:
        return lambda document: (
            None
            if document == value and type(document) is type(value)
            else f": {_shorten_repr(document)} is not {value!r}"
        )

    def _pattern(self, value: str, schema: dict[str, Any]) -> Check:
        expression = re.compile(value)
        return lambda document: (
            None if expression.search(document) else f": {_shorten_repr(document)} does not match {value}"
        )

    def _maxLength(self, value: int, schema: dict[str, Any]) -> Check:
        return lambda document: (
            None if len(document) <= value else f": has {len(document)} of at most {value} characters"
        )

    def _minimum(self, value: float, schema: dict[str, Any]) -> Check:
        return lambda document: None if document >= value else f": {document} is below {value}"

    def _required(self, value: list[str], schema: dict[str, Any]) -> Check:
        def check(document: Any) -> str | None:
            for key in value:
                if key not in document:
                    return f": key {key!r} is missing"
            return None

        return check

    def _properties(self, value: dict[str, Any], schema: dict[str, Any]) -> Check:
        inner = {key: self._compile(sub) for key, sub in value.items()}
        rest = schema.get("additionalProperties", True)
        rest_check: Check | None = self._compile(rest) if isinstance(rest, dict) else None

        def check(document: Any) -> str | None:
            for key, item in document.items():
                test = inner.get(key, rest_check)
                if test is None:
                    if rest is False:
                        return f": key {key!r} is unknown"
                    continue
                wrong = test(item)
                if wrong is not None:
                    return f".{key}{wrong}"
            return None

        return check

    def _additionalProperties(self, value: Any, schema: dict[str, Any]) -> Check | None:
        return None if "properties" in schema else self._properties({}, schema)

    def _items(self, value: dict[str, Any], schema: dict[str, Any]) -> Check:
        inner = self._compile(value)

        def check(document: Any) -> str | None:
            for index, item in enumerate(document):
                wrong = inner(item)
                if wrong is not None:
                    return f"[{index}]{wrong}"
            return None

        return check


def _shorten_repr(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "…"
