"""``report.time_profile`` sums the time of a run by phase, property, subject, result and worker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conformance.model.time_phases import PHASES
from conformance.report import time_profile
from conformance.results.journal import Journal
from tests.support.sample_legs import HEADER


def time_event(result_id: str, began: float, seconds: float, worker: str = "gw0", **phases: float) -> Any:
    """Return the journal's ``time`` event of a result that began at ``began`` and took ``seconds``.

    ``phases``: sampled seconds of each phase.
    """
    return {
        "event": "time",
        "worker": worker,
        "id": result_id,
        "kind": "operator",
        "began": began,
        "seconds": seconds,
        "phases": phases,
    }


def profile_of_events(*events: Any) -> time_profile.TimeProfile:
    profile = time_profile.time_profile_of_leg("t-eager", events)
    assert profile is not None
    return profile


def test_seconds_add_up_by_phase_property_and_subject() -> None:
    profile = profile_of_events(
        time_event("value/add@float32", 100.0, 2.0, device=1.0, compare=0.5),
        time_event("value/mul@float32", 102.0, 1.0),
        time_event("grad/add@float32", 103.0, 3.5, oracle=2.0),
    )
    assert profile.seconds == 6.5
    assert profile.total.results == 3 and profile.total.seconds == 6.5
    assert [(entry.name, entry.results, entry.seconds) for entry in profile.properties] == [
        ("operator/grad", 1, 3.5),
        ("operator/value", 2, 3.0),
    ]
    assert [(entry.name, entry.seconds) for entry in profile.subjects] == [
        ("operator/add", 5.5),
        ("operator/mul", 1.0),
    ]
    # The stack samples of all phases cover 3.5 s, but the results took 6.5 s. All phases are multiplied by
    # one factor, so that they add up to 6.5 s.
    scaled = profile.total.estimated_seconds_by_phase()
    assert list(scaled) == list(PHASES)
    assert sum(scaled.values()) == pytest.approx(6.5)
    assert scaled["oracle"] == pytest.approx(6.5 * 2.0 / 3.5)
    assert [event["id"] for event in profile.slowest] == [
        "grad/add@float32", "value/add@float32", "value/mul@float32"
    ]  # fmt: skip


def test_the_bins_of_a_worker_show_phases_and_idle_time() -> None:
    profile = profile_of_events(
        time_event("value/add@float32", 0.0, 60.0, device=1.0, compare=1.0),
        time_event("value/mul@float32", 180.0, 60.0, device=30.0),
        time_event("value/sub@float32", 60.0, 180.0, worker="gw1"),
    )
    first, second = profile.workers
    assert (first.name, second.name) == ("gw0", "gw1")
    busy = [sum(bin_seconds.values()) for bin_seconds in first.bins]
    assert busy == pytest.approx([1.0] * 60 + [0.0] * 120 + [1.0] * 60)
    assert first.bins[0] == {"device": 0.5, "compare": 0.5} and first.bins[239] == {"device": 1.0}
    # A result without stack samples gets the average distribution of its property's samples.
    assert second.bins[100] == pytest.approx({"device": 31 / 32, "compare": 1 / 32}, abs=1e-3)
    assert not second.bins[59]


def test_the_pause_before_a_resumed_run_is_omitted() -> None:
    profile = profile_of_events(
        time_event("value/add@float32", 0.0, 60.0, device=1.0),
        time_event("value/mul@float32", 86_400.0, 60.0, device=1.0),
        time_event("value/sub@float32", 86_460.0, 60.0, device=1.0),
    )
    assert profile.seconds == 180.0
    assert [sum(bin_seconds.values()) for bin_seconds in profile.workers[0].bins] == pytest.approx(
        [1.0] * 240
    )


def test_two_attempts_of_a_result_are_one_result_with_the_sum_of_times() -> None:
    profile = profile_of_events(
        time_event("value/add@float32", 0.0, 2.0, device=1.0),
        time_event("value/add@float32", 9.0, 3.0, worker="gw5", device=1.0),
    )
    assert (profile.total.results, profile.total.seconds) == (1, 5.0)
    assert [worker.spent.results for worker in profile.workers] == [1, 1]


def test_a_run_without_time_events_has_no_profile(tmp_path: Path) -> None:
    assert time_profile.time_profile_of_leg("t", []) is None
    Journal(tmp_path / "journal.jsonl").close()
    assert time_profile.write_profile(tmp_path, [tmp_path / "journal.jsonl"]) == []
    assert not (tmp_path / "conformance-profile.html").exists()


def test_the_page_contains_the_times_of_the_journal_escaped(tmp_path: Path) -> None:
    (tmp_path / "journal.jsonl").write_text(
        "\n".join(
            json.dumps(event, separators=(",", ":"))
            for event in (
                {"event": "run", **HEADER},
                time_event("value/<b>add</b>@float32", 5.0, 1.25, device=1.0),
            )
        )
        + "\n"
        + '{"event":"time","worker'  # a torn line
    )
    page, data = time_profile.write_profile(tmp_path, [tmp_path / "journal.jsonl"])
    text = page.read_text()
    assert "t-eager" in text and "value/&lt;b&gt;add&lt;/b&gt;@float32" in text and "<b>add" not in text
    document = json.loads(data.read_text())
    assert document["schema"] == 1 and list(document["phases"]) == list(PHASES)
    (leg,) = document["legs"]
    assert leg["slowest"] == [{"id": "value/<b>add</b>@float32", "seconds": 1.25}]
    assert leg["total"]["phases"]["device"] == 1.25


def test_the_number_of_results_on_a_page_is_limited(tmp_path: Path) -> None:
    profile = profile_of_events(
        *(time_event(f"value/op{i}@float32", float(i), 0.5, device=0.1) for i in range(2000))
    )
    assert len(profile.slowest) == 100 and len(profile.subjects) == 300 and profile.total.results == 2000
