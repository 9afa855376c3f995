"""``expectations.propose`` proposes new expectations for failures of a run, and narrows or removes existing
expectations.
"""

from __future__ import annotations

import dataclasses

from conformance.expectations import propose
from conformance.expectations.entries import Expectation
from tests.support.sample_legs import DAY, expectation, row


def leg_rows(mode: str = "eager", torch: str = "2.13.0", **verdicts: str) -> propose.LegRows:
    """Return the rows of a leg with results ``p/NAME@d``. ``verdicts``: NAME -> a verdict, or a verdict with
    a failure kind, such as ``fail_message``. Without a kind, a failure has kind ``value``.
    """
    rows = {}
    for name, verdict_and_kind in verdicts.items():
        verdict, _, kind = verdict_and_kind.partition("_")
        rows[f"p/{name}@d"] = row(f"p/{name}@d", verdict, *([kind or "value"] if verdict != "pass" else []))
    return propose.LegRows(mode, torch, rows)


def lines_after_update(
    entries: list[Expectation], *legs: propose.LegRows, plans: dict[str, list[str]] | None = None
) -> list[str]:
    """Return the expectations after an update, as sorted lines "ID KIND REASON MODES TORCH", followed by the
    notes.
    """
    ids = frozenset(name for each in legs for name in each.rows)
    planned = {mode: frozenset(names) for mode, names in (plans or {}).items()} or {"eager": ids}
    proposal = propose.propose_expectations(entries, legs, planned, until="2999-01-01", today=DAY)
    all_entries = (
        proposal.unchanged
        + [entry for entry_group in proposal.changed.values() for entry in entry_group]
        + proposal.new
    )
    return (
        sorted(
            " ".join(
                filter(None, (entry.id, entry.kind.value, entry.reason, ",".join(entry.modes), entry.torch))
            )
            for entry in all_entries
        )
        + proposal.notes
    )


def test_a_new_entry_per_failure_kind_has_reason_unread() -> None:
    proposals = lines_after_update(
        [], leg_rows(a="fail", b="fail", c="fail_message", d="pass", e="crash_crash")
    )
    assert proposals == [
        "p/a@d value unread",
        "p/b@d value unread",
        "p/c@d message unread",
        "p/e@d crash unread",
    ]
    assert lines_after_update([], leg_rows(a="fail", b="fail")) == ["p/*@d value unread"]


def test_a_waived_failure_needs_no_entry() -> None:
    leg = dataclasses.replace(
        leg_rows(a="fail", b="fail", c="xfail_message"), waived={"p/a@d": {"value"}, "p/c@d": {"value"}}
    )
    assert lines_after_update([], leg) == ["p/b@d value unread", "p/c@d message unread"]


def test_confirmed_entries_stay_and_wrong_entries_are_removed_or_narrowed() -> None:
    leg = leg_rows(a="xfail", b="xfail", c="pass", d="pass")
    assert lines_after_update([expectation("p/a@d", "value"), expectation("p/b@d", "value")], leg) == [
        "p/a@d value accuracy", "p/b@d value accuracy"
    ]  # fmt: skip
    assert lines_after_update([expectation("p/*@d", "value")], leg) == [
        "p/a@d value accuracy",
        "p/b@d value accuracy",
    ]
    assert lines_after_update([expectation("p/c@d", "value"), expectation("q/a@d", "value")], leg) == [
        "p/a@d value unread", "p/b@d value unread"
    ]  # fmt: skip


def test_entries_of_results_that_did_not_run_stay() -> None:
    plans = {"eager": ["p/a@d", "p/b@d", "p/c@d"], "lazy": ["p/a@d"]}
    ran = leg_rows(a="xfail", b="pass")
    assert lines_after_update([expectation("p/*@d", "value")], ran, plans=plans) == [
        "p/a@d value accuracy", "p/c@d value accuracy"
    ]  # fmt: skip
    assert lines_after_update([expectation("p/c@d", "value")], leg_rows(b="pass"), plans=plans) == [
        "p/c@d value accuracy"
    ]
    assert lines_after_update([expectation("p/a@d", "value")], leg_rows(a="pass"), plans=plans) == [
        "p/a@d value accuracy lazy"
    ], "the entry must stay for mode lazy, which did not run"


def test_entries_name_modes_and_torch_versions_if_results_differ() -> None:
    plans = {"eager": ["p/a@d"], "lazy": ["p/a@d"]}
    legs = leg_rows("eager", a="fail"), leg_rows("lazy", a="pass")
    assert lines_after_update([], *legs, plans=plans) == ["p/a@d value unread eager"]
    assert lines_after_update([expectation("p/a@d", "value")], *legs, plans=plans) == [
        "p/a@d value accuracy eager"
    ]
    assert lines_after_update([], leg_rows("eager", a="fail"), plans=plans) == ["p/a@d value unread eager"]
    both = leg_rows("eager", a="fail"), leg_rows("lazy", a="fail")
    assert lines_after_update([], *both, plans=plans) == ["p/a@d value unread"]
    builds = leg_rows(torch="2.6.0", a="fail"), leg_rows(torch="2.13.0", a="pass")
    assert lines_after_update([], *builds) == ["p/a@d value unread <2.13"]
    assert lines_after_update([expectation("p/a@d", "value")], *builds) == ["p/a@d value accuracy <2.13"]
    same = leg_rows(torch="2.13.0+cpu", a="fail"), leg_rows(torch="2.13.0+git1", a="pass")
    (note,) = lines_after_update([], *same)
    assert "p/a@d (value) fails in some legs and not in others of the same mode" in note


def test_results_that_no_entry_may_excuse_are_noted() -> None:
    (entry, *notes) = lines_after_update(
        [], leg_rows(a="fail", b="flaky", c="vacuous_vacuous", d="error_harness")
    )
    assert entry == "p/a@d value unread"
    assert [note.partition(",")[0] for note in notes] == [
        "1 flaky cannot be expected", "1 vacuous cannot be expected", "1 error cannot be expected"
    ]  # fmt: skip
