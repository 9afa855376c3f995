"""Proposals: entries that a run makes necessary, narrower or superfluous."""

from __future__ import annotations

import dataclasses

from conformance.expectations import propose
from conformance.expectations.entries import Expectation
from tests.support.sample_legs import DAY, expected, row


def seen(mode: str = "eager", torch: str = "2.13.0", **verdicts: str) -> propose.LegRows:
    """A leg of results ``p/NAME@d``; ``fail_message`` is a failure of another kind."""
    rows = {}
    for name, word in verdicts.items():
        verdict, _, kind = word.partition("_")
        rows[f"p/{name}@d"] = row(f"p/{name}@d", verdict, *([kind or "value"] if verdict != "pass" else []))
    return propose.LegRows(mode, torch, rows)


def proposed(
    entries: list[Expectation], *legs: propose.LegRows, plans: dict[str, list[str]] | None = None
) -> list[str]:
    """The entries after an update, in short."""
    ids = frozenset(name for each in legs for name in each.rows)
    known = {mode: frozenset(names) for mode, names in (plans or {}).items()} or {"eager": ids}
    found = propose.propose_expectations(entries, legs, known, until="2999-01-01", today=DAY)
    left = found.unchanged + [one for others in found.changed.values() for one in others] + found.new
    return (
        sorted(
            " ".join(filter(None, (one.id, one.kind.value, one.reason, ",".join(one.modes), one.torch)))
            for one in left
        )
        + found.notes
    )


def test_new_entries_are_one_per_kind_and_wait_to_be_read() -> None:
    found = proposed([], seen(a="fail", b="fail", c="fail_message", d="pass", e="crash_crash"))
    assert found == ["p/a@d value unread", "p/b@d value unread", "p/c@d message unread", "p/e@d crash unread"]
    assert proposed([], seen(a="fail", b="fail")) == ["p/*@d value unread"]


def test_what_is_waived_for_every_backend_needs_no_entry() -> None:
    leg = dataclasses.replace(
        seen(a="fail", b="fail", c="xfail_message"), waived={"p/a@d": {"value"}, "p/c@d": {"value"}}
    )
    assert proposed([], leg) == ["p/b@d value unread", "p/c@d message unread"]


def test_entries_that_are_true_stay_and_wrong_ones_go_or_are_narrowed() -> None:
    leg = seen(a="xfail", b="xfail", c="pass", d="pass")
    assert proposed([expected("p/a@d", "value"), expected("p/b@d", "value")], leg) == [
        "p/a@d value accuracy", "p/b@d value accuracy"
    ]  # fmt: skip
    assert proposed([expected("p/*@d", "value")], leg) == ["p/a@d value accuracy", "p/b@d value accuracy"]
    assert proposed([expected("p/c@d", "value"), expected("q/a@d", "value")], leg) == [
        "p/a@d value unread", "p/b@d value unread"
    ]  # fmt: skip


def test_what_did_not_run_is_no_reason_to_forget() -> None:
    plans = {"eager": ["p/a@d", "p/b@d", "p/c@d"], "lazy": ["p/a@d"]}
    assert proposed([expected("p/*@d", "value")], seen(a="xfail", b="pass"), plans=plans) == [
        "p/a@d value accuracy", "p/c@d value accuracy"
    ]  # fmt: skip
    assert proposed([expected("p/c@d", "value")], seen(b="pass"), plans=plans) == ["p/c@d value accuracy"]
    assert proposed([expected("p/a@d", "value")], seen(a="pass"), plans=plans) == [
        "p/a@d value accuracy lazy"
    ], "in lazy mode it is unknown"


def test_modes_and_versions_are_named_where_they_tell_results_apart() -> None:
    plans = {"eager": ["p/a@d"], "lazy": ["p/a@d"]}
    legs = seen("eager", a="fail"), seen("lazy", a="pass")
    assert proposed([], *legs, plans=plans) == ["p/a@d value unread eager"]
    assert proposed([expected("p/a@d", "value")], *legs, plans=plans) == ["p/a@d value accuracy eager"]
    assert proposed([], seen("eager", a="fail"), plans=plans) == ["p/a@d value unread eager"]
    both = seen("eager", a="fail"), seen("lazy", a="fail")
    assert proposed([], *both, plans=plans) == ["p/a@d value unread"]
    builds = seen(torch="2.6.0", a="fail"), seen(torch="2.13.0", a="pass")
    assert proposed([], *builds) == ["p/a@d value unread <2.13"]
    assert proposed([expected("p/a@d", "value")], *builds) == ["p/a@d value accuracy <2.13"]
    same = seen(torch="2.13.0+cpu", a="fail"), seen(torch="2.13.0+git1", a="pass")
    (note,) = proposed([], *same)
    assert "p/a@d (value) fails in some legs and not in others of the same mode" in note


def test_what_no_entry_may_excuse_is_noted() -> None:
    (entry, *notes) = proposed([], seen(a="fail", b="flaky", c="vacuous_vacuous", d="error_harness"))
    assert entry == "p/a@d value unread"
    assert [note.partition(",")[0] for note in notes] == [
        "1 flaky cannot be expected", "1 vacuous cannot be expected", "1 error cannot be expected"
    ]  # fmt: skip
