"""``tools.generate.ineffective_options`` lists options that change the result of no call."""

from typing import Any

from tools.generate.ineffective_options import ineffective_options


def _overload_options_row(id: str, *quiet: str, verdict: str = "pass") -> dict[str, Any]:
    return {"id": id, "verdict": verdict, "notes": [f"no sample shows an effect of {name}" for name in quiet]}


def test_an_option_without_effect_in_any_dtype_is_listed() -> None:
    results = [
        _overload_options_row("overload-options/mm@int64", "one", "two"),
        _overload_options_row("overload-options/mm@float32", "two"),
        _overload_options_row("overload-options/mm@bool", verdict="fail"),
        _overload_options_row("overload-options/add.Tensor@bool"),
        _overload_options_row("overload-values/add.Tensor@bool", "one"),
    ]
    assert ineffective_options(results) == {"mm": ["two"]}
