"""The runner splits the recheck of reference values into parts. Each value is in exactly one part, and each
difference is reported.
"""

from __future__ import annotations

from typing import Any

import pytest

from conformance.model.records import OracleCheck, OracleValue
from conformance.results.run_state import RunState
from conformance.runner import leg


class RecordingJournal:
    def __init__(self) -> None:
        self.written: list[tuple[str, dict[str, Any]]] = []

    def write(self, event: str, **fields: Any) -> None:
        self.written.append((event, fields))


class FakeRounds:
    """A replacement for the runner's class ``Rounds``. It has only the attributes that the recheck uses."""

    mode = "eager"

    def __init__(self, values: int, processes: int) -> None:
        self.run_state = RunState()
        self.run_state.oracle = {("add", "float32", index): f"digest {index}" for index in range(values)}
        self.journal = RecordingJournal()
        self.options = self
        self._processes = processes

    def process_count(self, mode: str) -> int:
        return self._processes


@pytest.mark.parametrize(
    ("values", "processes", "parts"), [(1001, 2, 2), (1001, 64, 6), (7, 4, 1), (400, 2, 2)]
)
def test_every_value_is_in_one_part(
    monkeypatch: pytest.MonkeyPatch, values: int, processes: int, parts: int
) -> None:
    seen_parts: list[list[OracleValue]] = []

    def recheck(rounds: Any, parts: list[list[OracleValue]]) -> list[OracleCheck]:
        seen_parts.extend(parts)
        wrong = [[event["digest"] for event in part if event["index"] == values - 1] for part in parts]
        return [
            {"checked": len(part), "differences": lines} for part, lines in zip(parts, wrong, strict=True)
        ]

    monkeypatch.setattr(leg, "_recheck_parts", recheck)
    rounds: Any = FakeRounds(values, processes)
    leg.recheck_oracle_values(rounds)
    assert len(seen_parts) == parts
    assert sorted(event["index"] for part in seen_parts for event in part) == list(range(values))
    # The replacement of `_recheck_parts` reports a difference for the last value, which is in the last part.
    fields = {"checked": values, "differences": [f"digest {values - 1}"]}
    assert rounds.journal.written == [("oracle-check", fields)]
