"""``oracle.recheck`` recomputes reference values without the backend and reports differences."""

from __future__ import annotations

from typing import Any

from conformance.oracle import recheck


def test_recheck_reports_differing_and_missing_reference_values() -> None:
    events: list[dict[str, Any]] = [
        {"operator": name, "dtype": "float32", "index": 1, "digest": "same"} for name in ("add", "mul", "sub")
    ]

    def digest(operator: str, dtype: str, index: int) -> str:
        if operator == "sub":
            raise LookupError("sub")
        return "same" if operator == "add" else "other"

    assert recheck.digest_differences(events, digest) == [
        "reference value of mul@float32, sample 1 differs without the backend: other instead of same",
        "reference value of sub@float32, sample 1 cannot be computed without the backend: LookupError: sub",
    ]
