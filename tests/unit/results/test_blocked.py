"""If a result fails only because something more basic fails, its ``blocking_reason`` names the more
basic failure.
"""

from __future__ import annotations

from typing import Any

import pytest

from conformance.results.blocked import mark_blocked

NO_KERNEL = (
    "the operator on (float32[2]) was refused: NotImplementedError: Could not run 'aten::clamp.Tensor_out' "
    "with arguments from the 'tiny' backend."
)
WRONG = "the result is 2.0 at [1], expected 3.0 (allowed difference 0, found 1; 1 of 2 elements are wrong)."
RAISED = "the operator on (float32[{}]) raised IndexError: list index out of range"


def failing_row(name: str, *failures: tuple[str, int | None], verdict: str = "fail") -> dict[str, Any]:
    return {
        "id": name,
        "verdict": verdict,
        "failures": [{"kind": "value", "message": text, "sample": index} for text, index in failures],
        "failed_samples": sorted({index for _, index in failures if index is not None}),
    }


def blocking_reason(row: dict[str, Any], *others: dict[str, Any]) -> str:
    rows: dict[str, Any] = {entry["id"]: entry for entry in (row, *others)}
    mark_blocked(rows)
    return str(row.get("blocked_by", ""))


def test_a_missing_kernel_and_a_prerequisite_are_named() -> None:
    assert (
        blocking_reason(failing_row("value/clamp@float32", (NO_KERNEL, 0))) == "kernel aten::clamp.Tensor_out"
    )
    text = "prerequisite copies: copying to the device raised RuntimeError: no memory"
    assert blocking_reason(failing_row("dtypes/gt@any", (text, None))) == "prerequisite copies"


def test_an_error_about_storages_is_blocked_by_the_undeclared_capability() -> None:
    text = "the operator raised NotImplementedError: Cannot access storage of OpaqueTensorImpl"
    row = failing_row("value/t@float32", (text, 0))
    mark_blocked({row["id"]: row}, ["streams"])  # type: ignore[dict-item]
    assert "blocked_by" not in row
    mark_blocked({row["id"]: row}, ["streams", "storage"])  # type: ignore[dict-item]
    assert row["blocked_by"] == "capability storage"


@pytest.mark.parametrize(
    ("basic", "other", "blocked"),
    [
        ((RAISED.format(2), 0), (RAISED.format(7), 5), True),
        ((RAISED.format(2), 0), (RAISED.replace("list", "tuple").format(7), 5), False),
        ((WRONG, 3), (WRONG, 3), True),
        ((WRONG, 3), (WRONG, 4), False),
        ((WRONG, 3), ("the result has shape [2], expected [3].", 3), False),
        ((RAISED.format(2), 3), (WRONG, 3), False),
    ],
)
def test_the_value_blocks_what_fails_in_the_same_way(
    basic: tuple[str, int], other: tuple[str, int], blocked: bool
) -> None:
    value, layout = failing_row("value/t@float32", basic), failing_row("layout/t@float32", other)
    assert blocking_reason(layout, value) == ("value/t@float32" if blocked else "")
    assert "blocked_by" not in value


def test_every_failure_must_be_explained() -> None:
    value = failing_row("value/t@float32", (WRONG, 3))
    layout = failing_row("layout/t@float32", (WRONG, 3), (RAISED.format(7), 4))
    assert blocking_reason(layout, value) == ""


@pytest.mark.parametrize("name", ["layout/t@float64", "layout/tril@float32"])
def test_another_subject_or_dtype_blocks_nothing(name: str) -> None:
    assert blocking_reason(failing_row(name, (WRONG, 3)), failing_row("value/t@float32", (WRONG, 3))) == ""


def test_only_failures_are_blocked_and_block() -> None:
    passed = failing_row("value/t@float32", (WRONG, 3), verdict="xfail")
    assert blocking_reason(failing_row("layout/t@float32", (WRONG, 3)), passed) == ""
    assert blocking_reason(failing_row("value/add@float32", (NO_KERNEL, 0), verdict="parity")) == ""
