"""Expressions of ``-k``."""

from __future__ import annotations

import pytest

from conformance.errors import UsageError
from conformance.plan import selection


@pytest.mark.parametrize(
    ("expression", "chosen"),
    [
        ("add", "value/add@float32 value/addmm@float32 out/add@int64"),
        ("/add@", "value/add@float32 out/add@int64"),
        ("VALUE and not addmm", "value/add@float32 value/nn.relu@bool"),
        ("bool or (out and int64)", "out/add@int64 value/nn.relu@bool"),
        ("not (add or relu)", ""),
        ("not not relu", "value/nn.relu@bool"),
    ],
)
def test_selections(expression: str, chosen: str) -> None:
    ids = ["value/add@float32", "value/addmm@float32", "out/add@int64", "value/nn.relu@bool"]
    assert " ".join(filter(selection.parse_selection(expression), ids)) == chosen


@pytest.mark.parametrize("expression", ["", "and", "a b", "(a", "a or", "not", "a)"])
def test_selections_that_do_not_parse(expression: str) -> None:
    with pytest.raises(UsageError, match="-k "):
        selection.parse_selection(expression)
