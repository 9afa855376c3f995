"""``tools.generate.ineffective_options`` lists options that change the result of no call."""

from typing import Any

from tools.generate.ineffective_options import ineffective_options


def _result(id: str, *quiet: str, verdict: str = "pass") -> dict[str, Any]:
    return {"id": id, "verdict": verdict, "notes": [f"no sample shows an effect of {name}" for name in quiet]}


def test_a_hole_is_an_option_that_shows_in_no_dtype() -> None:
    results = [
        _result("overload-options/mm@int64", "one", "two"),
        _result("overload-options/mm@float32", "two"),
        _result("overload-options/mm@bool", verdict="fail"),
        _result("overload-options/add.Tensor@bool"),
        _result("overload-values/add.Tensor@bool", "one"),
    ]
    assert ineffective_options(results) == {"mm": ["two"]}
