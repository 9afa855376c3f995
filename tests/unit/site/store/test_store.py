"""The site store keeps published runs as deltas. Runs can be added in any order. Only a part of the old
runs is kept. The store can be rebuilt from results.
"""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest

from conformance import cli
from conformance.site.store.series import Series
from conformance.site.store.store import Store
from conformance.site.store.verdict_table import TableDelta, VerdictTable
from tests.support.sample_site_runs import TODAY, failing_leg, matrix_table, provenance_of_night, site_leg
from tests.unit.site.conftest import Put


def run_site_command(*arguments: object) -> int:
    return cli.main(["site", *map(str, arguments), "--today", TODAY, "--our-repository", "o/suite"])


def leg_of_day(number: int, *failing_places: int) -> dict[str, Any]:
    """Return a leg that ran on day ``number`` of January 2026. The results at the indices ``failing_places``
    fail.
    """
    new_leg = site_leg(started=f"2026-01-{number:02}T03:00:00+00:00")
    return failing_leg(new_leg, *failing_places) if failing_places else new_leg


def read_only_series(store: Path) -> Series:
    (line,) = Store.read(store).lines.values()
    return line


def test_a_site_from_the_store_equals_a_site_from_the_results(write_backend_run: Put, tmp_path: Path) -> None:
    write_backend_run("cpu", "r1", leg_of_day(1), site_leg(mode="compile"))
    write_backend_run(
        "cpu",
        "r2",
        leg_of_day(3, 0, 1),
        provenance=provenance_of_night(3),
        table=matrix_table(site_leg(), missing=("graph",)),
    )
    results = write_backend_run("cpu", "r3", leg_of_day(4, 1, 2))
    assert run_site_command(results, "-o", tmp_path / "direct") == 0
    assert run_site_command(results, "--store", tmp_path / "store", "-o", tmp_path / "both") == 0
    assert run_site_command("--store", tmp_path / "store", "-o", tmp_path / "stored") == 0
    pages = [
        path.relative_to(tmp_path / "direct") for path in (tmp_path / "direct").rglob("*") if path.is_file()
    ]
    assert len(pages) > 70
    for page in pages:
        contents = {(tmp_path / site / page).read_bytes() for site in ("direct", "both", "stored")}
        assert len(contents) == 1, page


@pytest.mark.parametrize("order", [(1, 2, 3, 4), (4, 3, 2, 1), (2, 4, 1, 3)])
def test_runs_can_be_added_in_any_order(
    write_backend_run: Put, tmp_path: Path, order: tuple[int, ...]
) -> None:
    legs = {1: leg_of_day(1), 2: leg_of_day(2, 0), 3: leg_of_day(3, 0, 1), 4: leg_of_day(4, 1)}
    for number in order:
        results = write_backend_run("cpu", f"r{number}", legs[number])
        assert run_site_command(results, "--store", tmp_path / "store") == 0
    line = read_only_series(tmp_path / "store")
    assert [night.run for night in line.published_runs] == ["r1", "r2", "r3", "r4"]
    assert [night.compared_with for night in line.published_runs] == [None, "r1", "r2", "r3"]
    assert [night.regressed_count for night in line.published_runs] == [0, 1, 1, 0]
    for number, (_, stored_table) in enumerate(line.tables(), 1):
        whole = VerdictTable.from_rows(legs[number]["results"])
        assert (stored_table.cases, stored_table.details) == (whole.cases, whole.details)


def test_only_changes_are_stored(write_backend_run: Put, tmp_path: Path) -> None:
    for number in range(1, 9):
        results = write_backend_run("cpu", f"r{number}", leg_of_day(number, *([3] if number == 5 else [])))
        assert run_site_command(results, "--store", tmp_path / "store") == 0
    entries = read_only_series(tmp_path / "store").entries
    counts = [len(entry.change.cases) for entry in entries]
    assert counts[0] > 50 and counts[1:] == [0, 0, 0, 1, 1, 0, 0]


def test_the_stored_bytes_of_earlier_runs_do_not_change(write_backend_run: Put, tmp_path: Path) -> None:
    results = write_backend_run("cpu", "r1", leg_of_day(1))
    run_site_command(results, "--store", tmp_path / "store")
    (file,) = (tmp_path / "store" / "cpu").glob("*.jsonl")
    before = file.read_bytes()
    write_backend_run("cpu", "r2", leg_of_day(2, 0))
    run_site_command(results, "--store", tmp_path / "store")
    assert file.read_bytes().startswith(before)


def test_a_run_is_appended_once_and_may_then_be_removed(
    write_backend_run: Put, tmp_path: Path, capsys: Any
) -> None:
    results = write_backend_run("cpu", "r1", leg_of_day(1))
    run_site_command(results, "--store", tmp_path / "store")
    run_site_command(results, "--store", tmp_path / "store")
    assert "0 runs added, 1 lines" in capsys.readouterr().out
    (results / "cpu" / "r1" / "results.json").unlink()
    (results / "cpu" / "r1").rmdir()
    assert run_site_command(results, "--store", tmp_path / "store", "-o", tmp_path / "site") == 0
    data = json.loads((tmp_path / "site" / "data.json").read_text())
    assert [
        len(backend_entry["cells"]) for backend_entry in data["backends"] if backend_entry["id"] == "cpu"
    ] == [1]


def test_a_refused_run_is_reported_each_time_and_fails_once(
    write_backend_run: Put, tmp_path: Path, capsys: Any
) -> None:
    results = write_backend_run("cpu", "r1", site_leg(device="npu"))
    assert run_site_command(results, "--store", tmp_path / "store", "-o", tmp_path / "site") == 1
    assert run_site_command(results, "--store", tmp_path / "store", "-o", tmp_path / "site") == 0
    assert "cpu/r1" in (tmp_path / "site" / "index.html").read_text()


def test_a_store_is_rebuilt_from_the_results(write_backend_run: Put, tmp_path: Path) -> None:
    results = write_backend_run("cpu", "r1", leg_of_day(1))
    write_backend_run("cpu", "r2", leg_of_day(2, 0))
    run_site_command(results, "--store", tmp_path / "store")
    files = sorted((tmp_path / "store").rglob("*.json*"))
    before = [file.read_bytes() for file in files]
    (tmp_path / "store" / "cpu").joinpath("lost@x.jsonl").write_text("{")
    assert run_site_command(results, "--store", tmp_path / "store", "-o", tmp_path / "site") == 2, (
        "a damaged line of the store must be an error"
    )
    assert run_site_command(results, "--store", tmp_path / "store", "--rebuild") == 0
    assert sorted((tmp_path / "store").rglob("*.json*")) == files
    assert [file.read_bytes() for file in files] == before


def test_older_runs_are_thinned_and_the_last_run_is_complete(write_backend_run: Put, tmp_path: Path) -> None:
    today = datetime.date(2026, 1, 10)
    whole = Store()
    from conformance.site import registry

    days = [today - datetime.timedelta(days=number) for number in range(0, 400, 5)]
    for number, when in enumerate(days):
        leg = site_leg(started=f"{when}T03:00:00+00:00")
        results = write_backend_run("cpu", f"r{when}", failing_leg(leg, number % 7))
    whole.add_results(results, registry.load(), today)
    (line,) = whole.lines.values()
    before = {published.run: table.copy() for published, table in line.tables()}
    whole.remove_old_runs(today)
    ages = [(today - published.time_for_order.date()).days for published in line.published_runs]
    assert sorted(ages)[:7] == [0, 5, 10, 15, 20, 25, 30], "a run of the last thirty days was thinned"
    weeks = [
        published.time_for_order.date().isocalendar()[:2]
        for published in line.published_runs
        if 30 < (today - published.time_for_order.date()).days <= 180
    ]
    months = [
        (published.time_for_order.year, published.time_for_order.month)
        for published in line.published_runs
        if (today - published.time_for_order.date()).days > 180
    ]
    assert len(set(weeks)) == len(weeks) > 15 and len(set(months)) == len(months) >= 7
    for published, stored_table in line.tables():
        assert stored_table == before[published.run]
    entry_count = len(line.entries)
    whole.remove_old_runs(today)
    assert len(line.entries) == entry_count


def test_changes_between_two_verdict_tables() -> None:
    old = VerdictTable({"p/a": (("d",), "."), "p/b": (("d", "e"), ".F")}, {}, {"placement/a": "native"})
    new = VerdictTable({"p/b": (("d", "e"), ".."), "p/c": (("d",), "u")}, {}, {"placement/a": "fallback"})
    change = TableDelta.from_json(json.loads(json.dumps(TableDelta.between(old, new).to_json())))
    assert change.cases == {"p/a": None, "p/b": (("d", "e"), ".."), "p/c": (("d",), "u")}
    changed_table = old.copy()
    changed_table.apply_delta(change)
    assert changed_table == new
    third = VerdictTable({"p/a": (("d",), "F")})
    both = TableDelta.between(old, new).combined_with(TableDelta.between(new, third))
    changed_table = old.copy()
    changed_table.apply_delta(both)
    assert changed_table == third


@pytest.mark.parametrize(
    "content", ["", "{", "3\n", '{"schema": 9}\n', '{"schema": 1, "backend": "cpu", "mode": "x"}\n{}\n']
)
def test_an_invalid_series_is_a_usage_error(
    write_backend_run: Put, tmp_path: Path, content: str, capsys: Any
) -> None:
    run_site_command(write_backend_run("cpu", "r1", leg_of_day(1)), "--store", tmp_path / "store")
    (file,) = (tmp_path / "store" / "cpu").glob("*.jsonl")
    file.write_text(content)
    assert run_site_command("--store", tmp_path / "store", "-o", tmp_path / "site") == 2
    error = capsys.readouterr().err
    assert "is not a valid series of the store" in error and error.count("\n") == 1


def test_a_folder_that_is_not_a_store_is_unchanged(write_backend_run: Put, tmp_path: Path) -> None:
    results = write_backend_run("cpu", "r1", leg_of_day(1))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("precious")
    for options in ([], ["--rebuild"]):
        assert run_site_command(results, "--store", tmp_path / "mine", *options) == 2
    assert (tmp_path / "mine" / "file").read_text() == "precious"
    assert run_site_command(results, "--store", results / "store") == 2


@pytest.mark.parametrize("words", [[], ["--store", "x", "--rebuild"], ["results", "--rebuild", "-o", "y"]])
def test_inconsistent_arguments_are_usage_errors(words: list[str], tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_site_command(*words) == 2


def test_a_document_without_legs_is_refused_and_the_others_are_shown(
    write_backend_run: Put, tmp_path: Path
) -> None:
    write_backend_run("cpu", "empty")
    results = write_backend_run("cpu", "r1", leg_of_day(1))
    assert run_site_command(results, "-o", tmp_path / "site") == 1
    assert "it has no legs" in (tmp_path / "site" / "index.html").read_text()
    data = json.loads((tmp_path / "site" / "data.json").read_text())
    assert [
        len(backend_entry["cells"]) for backend_entry in data["backends"] if backend_entry["id"] == "cpu"
    ] == [1]


def test_a_backend_that_is_registered_later_is_accepted(write_backend_run: Put, tmp_path: Path) -> None:
    results = write_backend_run("stranger", "r1", leg_of_day(1))
    assert run_site_command(results, "--store", tmp_path / "store") == 1
    (results / "stranger").rename(results / "cpu")
    assert run_site_command(results, "--store", tmp_path / "store") == 0
    store = Store.read(tmp_path / "store")
    assert store.refused == [] and len(store.lines) == 1


def test_a_renamed_backend_keeps_its_runs(write_backend_run: Put, tmp_path: Path) -> None:
    from conformance.site.registry import Backend

    today = datetime.date.fromisoformat(TODAY)
    before = {"old-dev": Backend("old-dev", "Old", device="cpu")}
    after = {"new-dev": Backend("new-dev", "New", device="cpu", renamed_from=("old-dev",))}
    results = write_backend_run("old-dev", "r1", leg_of_day(1))
    store = Store()
    store.add_results(results, before, today)
    store.write(tmp_path / "store")
    write_backend_run("old-dev", "r2", leg_of_day(2, 0))
    write_backend_run("new-dev", "r3", leg_of_day(3))
    reread_store = Store.read(tmp_path / "store")
    reread_store.add_results(results, after, today)
    reread_store.write(tmp_path / "store")
    last = Store.read(tmp_path / "store")
    ((key, line),) = last.lines.items()
    assert key[0] == "new-dev" and [night.run for night in line.published_runs] == ["r1", "r2", "r3"]
    assert [night.regressed_count for night in line.published_runs] == [0, 1, 0]


def test_a_failed_rebuild_does_not_change_the_store(write_backend_run: Put, tmp_path: Path) -> None:
    results = write_backend_run("cpu", "r1", leg_of_day(1))
    run_site_command(results, "--store", tmp_path / "store")
    assert run_site_command(tmp_path / "nothing", "--store", tmp_path / "store", "--rebuild") == 2
    assert read_only_series(tmp_path / "store").published_runs[0].run == "r1"


def test_an_interrupted_write_does_not_duplicate_runs(
    write_backend_run: Put, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = write_backend_run("cpu", "r1", leg_of_day(1))
    run_site_command(results, "--store", tmp_path / "store")
    head = (tmp_path / "store" / "store.json").read_text()
    write_backend_run("cpu", "r2", leg_of_day(2, 0))
    run_site_command(results, "--store", tmp_path / "store")
    (tmp_path / "store" / "store.json").write_text(head)
    assert run_site_command(results, "--store", tmp_path / "store") == 0
    line = read_only_series(tmp_path / "store")
    assert [(night.run, night.regressed_count) for night in line.published_runs] == [("r1", 0), ("r2", 1)]
    monkeypatch.setattr(Series, "write", lambda line, file: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        Store.read(tmp_path / "new").add_results(results, {}, datetime.date.fromisoformat(TODAY))
        whole = Store.read(tmp_path / "store")
        whole.changed = set(whole.lines)
        whole.write(tmp_path / "new")
    monkeypatch.undo()
    assert run_site_command(results, "--store", tmp_path / "new") == 0, "the interrupted store cannot be read"
    assert len(read_only_series(tmp_path / "new").published_runs) == 2


def test_a_refused_run_is_checked_again(write_backend_run: Put, tmp_path: Path) -> None:
    results = write_backend_run("cpu", "r1", leg_of_day(3), provenance=provenance_of_night(3))
    arguments = ["site", str(results), "--store", str(tmp_path / "store"), "--today", TODAY]
    assert cli.main(arguments) == 1, "without --our-repository the run must be refused"
    assert cli.main([*arguments, "--our-repository", "o/suite"]) == 0
    assert Store.read(tmp_path / "store").refused == []
    assert read_only_series(tmp_path / "store").published_runs[0].run == "r1"


def test_thinning_keeps_own_complete_and_regressed_runs(write_backend_run: Put, tmp_path: Path) -> None:
    from conformance.site import registry

    def on(number: int, *failing_indices: int, **changes: Any) -> dict[str, Any]:
        leg = {**site_leg(started=f"2025-12-{number:02}T03:00:00+00:00"), **changes}
        return failing_leg(leg, *failing_indices) if failing_indices else leg

    ours = {**provenance_of_night(1), "received": "2025-11-11T23:00:00+00:00"}
    write_backend_run("cpu", "r1", {**on(1), "started": "2025-11-11T00:00:00+00:00"}, provenance=ours)
    write_backend_run("cpu", "r2", {**on(1), "started": "2025-11-12T00:00:00+00:00"})
    write_backend_run("cpu", "r3", {**on(1, 0), "started": "2025-11-13T00:00:00+00:00"})
    write_backend_run("cpu", "r4", {**on(1, 0), "started": "2025-11-14T00:00:00+00:00"})
    cut = {**on(1), "started": "2025-11-15T00:00:00+00:00", "complete": False, "exit": 3}
    results = write_backend_run("cpu", "r5", cut)
    store = Store()
    store.add_results(results, registry.load(), datetime.date(2026, 1, 10), "o/suite")
    store.remove_old_runs(datetime.date(2026, 1, 10))
    (line,) = store.lines.values()
    assert [night.run for night in line.published_runs] == ["r1", "r4"], (
        "only the suite's own run and the last complete run of the vendor must stay"
    )
    assert (line.published_runs[1].compared_with, line.published_runs[1].regressed_count) == ("r1", 1)


def test_runs_with_equal_times_are_ordered_by_name(write_backend_run: Put, tmp_path: Path) -> None:
    write_backend_run("cpu", "r1", leg_of_day(1))
    results = write_backend_run("cpu", "r2", leg_of_day(1, 0))
    run_site_command(results, "--store", tmp_path / "store")
    assert [night.run for night in read_only_series(tmp_path / "store").published_runs] == ["r1", "r2"]


def test_a_new_kind_or_sample_of_a_failure_is_a_change(write_backend_run: Put, tmp_path: Path) -> None:
    def leg(number: int, kinds: list[str], samples: int) -> dict[str, Any]:
        failing_leg = leg_of_day(number, 0)
        row = next(row_of_leg for row_of_leg in failing_leg["results"] if row_of_leg["verdict"] == "fail")
        row["failures"] = [{"kind": kind, "message": f"{kind} is wrong"} for kind in kinds]
        row["failed_samples"] = list(range(samples))
        row["failure_count"] = max(samples, len(kinds))
        return failing_leg

    write_backend_run("cpu", "r1", leg(1, ["value"] * 12, 60))
    write_backend_run("cpu", "r2", leg(2, ["value"] * 12 + ["state"], 60))
    results = write_backend_run("cpu", "r3", leg(3, ["value"] * 12 + ["state"], 100))
    assert run_site_command(results, "--store", tmp_path / "store") == 0
    assert [night.regressed_count for night in read_only_series(tmp_path / "store").published_runs] == [
        0,
        1,
        1,
    ]


def test_a_symbolic_link_in_a_store_is_rejected(write_backend_run: Put, tmp_path: Path, capsys: Any) -> None:
    results = write_backend_run("cpu", "r1", leg_of_day(1))
    run_site_command(results, "--store", tmp_path / "store")
    (tmp_path / "store" / "mps").symlink_to(tmp_path)
    assert run_site_command(results, "--store", tmp_path / "store") == 2
    assert "is a link, which a store must not contain" in capsys.readouterr().err
