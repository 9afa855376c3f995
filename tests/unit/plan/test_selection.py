"""``plan.selection`` parses expressions of the option ``-k`` and selects result ids."""

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
def test_selected_results_of_an_expression(expression: str, chosen: str) -> None:
    ids = ["value/add@float32", "value/addmm@float32", "out/add@int64", "value/nn.relu@bool"]
    assert " ".join(filter(selection.parse_selection(expression), ids)) == chosen


@pytest.mark.parametrize("expression", ["", "and", "a b", "(a", "a or", "not", "a)"])
def test_invalid_expressions_are_usage_errors(expression: str) -> None:
    with pytest.raises(UsageError, match="-k "):
        selection.parse_selection(expression)
