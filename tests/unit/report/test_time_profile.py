"""The profile of a run: sums by phase, property and subject, the slowest results, workers over time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conformance.model.time_phases import PHASES
from conformance.report import time_profile
from conformance.results.journal import Journal
from tests.support.sample_legs import HEADER


def time_of(result_id: str, began: float, seconds: float, worker: str = "gw0", **phases: float) -> Any:
    """The event of a result."""
    return {
        "event": "time",
        "worker": worker,
        "id": result_id,
        "kind": "operator",
        "began": began,
        "seconds": seconds,
        "phases": phases,
    }


def found(*events: Any) -> time_profile.TimeProfile:
    made = time_profile.profile_of("t-eager", events)
    assert made is not None
    return made


def test_seconds_add_up_by_phase_property_and_subject() -> None:
    made = found(
        time_of("value/add@float32", 100.0, 2.0, device=1.0, compare=0.5),
        time_of("value/mul@float32", 102.0, 1.0),
        time_of("grad/add@float32", 103.0, 3.5, oracle=2.0),
    )
    assert made.seconds == 6.5
    assert made.total.results == 3 and made.total.seconds == 6.5
    assert [(one.name, one.results, one.seconds) for one in made.properties] == [
        ("operator/grad", 1, 3.5),
        ("operator/value", 2, 3.0),
    ]
    assert [(one.name, one.seconds) for one in made.subjects] == [
        ("operator/add", 5.5),
        ("operator/mul", 1.0),
    ]
    # 3.5 s were sampled of 6.5: each phase is scaled alike, so that they make the whole.
    scaled = made.total.scaled()
    assert list(scaled) == list(PHASES)
    assert sum(scaled.values()) == pytest.approx(6.5)
    assert scaled["oracle"] == pytest.approx(6.5 * 2.0 / 3.5)
    assert [event["id"] for event in made.slowest] == [
        "grad/add@float32", "value/add@float32", "value/mul@float32"
    ]  # fmt: skip


def test_a_workers_bins_show_what_it_did_and_when_it_waited() -> None:
    made = found(
        time_of("value/add@float32", 0.0, 60.0, device=1.0, compare=1.0),
        time_of("value/mul@float32", 180.0, 60.0, device=30.0),
        time_of("value/sub@float32", 60.0, 180.0, worker="gw1"),
    )
    first, second = made.workers
    assert (first.name, second.name) == ("gw0", "gw1")
    busy = [sum(one.values()) for one in first.bins]
    assert busy == pytest.approx([1.0] * 60 + [0.0] * 120 + [1.0] * 60)
    assert first.bins[0] == {"device": 0.5, "compare": 0.5} and first.bins[239] == {"device": 1.0}
    # Never sampled: as its property's results are together.
    assert second.bins[100] == pytest.approx({"device": 31 / 32, "compare": 1 / 32}, abs=1e-3)
    assert not second.bins[59]


def test_a_pause_between_a_run_and_its_resumption_is_left_out() -> None:
    made = found(
        time_of("value/add@float32", 0.0, 60.0, device=1.0),
        time_of("value/mul@float32", 86_400.0, 60.0, device=1.0),
        time_of("value/sub@float32", 86_460.0, 60.0, device=1.0),
    )
    assert made.seconds == 180.0
    assert [sum(one.values()) for one in made.workers[0].bins] == pytest.approx([1.0] * 240)


def test_a_result_that_ran_twice_counts_once_with_both_times() -> None:
    made = found(
        time_of("value/add@float32", 0.0, 2.0, device=1.0),
        time_of("value/add@float32", 9.0, 3.0, worker="gw5", device=1.0),
    )
    assert (made.total.results, made.total.seconds) == (1, 5.0)
    assert [worker.spent.results for worker in made.workers] == [1, 1]


def test_no_times_no_profile(tmp_path: Path) -> None:
    assert time_profile.profile_of("t", []) is None
    Journal(tmp_path / "journal.jsonl").close()
    assert time_profile.write_profile(tmp_path, [tmp_path / "journal.jsonl"]) == []
    assert not (tmp_path / "conformance-profile.html").exists()


def test_pages_hold_what_the_journal_has_and_escape_it(tmp_path: Path) -> None:
    (tmp_path / "journal.jsonl").write_text(
        "\n".join(
            json.dumps(event, separators=(",", ":"))
            for event in (
                {"event": "run", **HEADER},
                time_of("value/<b>add</b>@float32", 5.0, 1.25, device=1.0),
            )
        )
        + "\n"
        + '{"event":"time","worker'  # torn
    )
    page, data = time_profile.write_profile(tmp_path, [tmp_path / "journal.jsonl"])
    text = page.read_text()
    assert "t-eager" in text and "value/&lt;b&gt;add&lt;/b&gt;@float32" in text and "<b>add" not in text
    document = json.loads(data.read_text())
    assert document["schema"] == 1 and list(document["phases"]) == list(PHASES)
    (leg,) = document["legs"]
    assert leg["slowest"] == [{"id": "value/<b>add</b>@float32", "seconds": 1.25}]
    assert leg["total"]["phases"]["device"] == 1.25


def test_many_results_are_cut_to_what_a_page_can_show(tmp_path: Path) -> None:
    made = found(*(time_of(f"value/op{i}@float32", float(i), 0.5, device=0.1) for i in range(2000)))
    assert len(made.slowest) == 100 and len(made.subjects) == 300 and made.total.results == 2000
