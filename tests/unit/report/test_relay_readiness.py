"""``report.relay_readiness`` determines whether the runs of a backend fulfil each criterion of the levels L2
and L3 of PyTorch's cross-repository CI.
"""

from __future__ import annotations

import datetime

import pytest

from conformance import cli
from conformance.errors import UsageError
from conformance.report import relay_readiness
from conformance.report.relay_readiness import BackendRun, BackendRuns
from tests.support.sample_passing_leg import fixed_suite_digest, leg, write_output_folder

NOW = datetime.datetime(2026, 9, 30, 12, tzinfo=datetime.timezone.utc)


def run_of_age(days, seconds=600.0, success=True, named=True):
    return BackendRun(NOW - datetime.timedelta(days=days), seconds, success, named)


def backend_with_runs(*runs):
    return BackendRuns("mine", runs, ())


def nightly_runs(number=14, **changes):
    return [run_of_age(day + 0.5, **changes) for day in range(number)]


def test_two_weeks_of_successful_runs_are_ready():
    ready = backend_with_runs(*nightly_runs())
    assert (ready.l2_status(NOW), ready.l3_status(NOW)) == ("yes", "yes, as far as runs show")


@pytest.mark.parametrize(
    ("runs", "lack"),
    [
        (
            [*nightly_runs(13), run_of_age(1, success=False), run_of_age(2, success=False)],
            "success 86.7%, 90% needed",
        ),
        (nightly_runs(seconds=10_800), "median run 3 h 00 min, below 3 h 00 min needed"),
        (
            [*nightly_runs(), run_of_age(1, seconds=20_000)],
            "1 of 15 runs take 3 h 00 min or more, below 1% needed",
        ),
        (nightly_runs(6), "runs of 14 days needed, the first is of 2026-09-25"),
        ([run_of_age(10), run_of_age(12)], "7 days: no run"),
        ([], "no run"),
    ],
)
def test_each_unmet_condition_is_reported(runs, lack):
    assert lack in backend_with_runs(*runs).l3_status(NOW)


def test_shares_at_their_limits():
    nine = [*nightly_runs(9), run_of_age(0.1, success=False)]
    assert relay_readiness.RunStatistics.from_runs(nine).unmet_conditions() == []
    assert relay_readiness.RunStatistics.from_runs(
        [*nightly_runs(8), run_of_age(0.1, success=False)]
    ).unmet_conditions() == ["success 88.9%, 90% needed"]
    assert relay_readiness.RunStatistics.from_runs(nightly_runs(seconds=10_799)).unmet_conditions() == []


def test_level_2_needs_a_recent_run_with_a_recorded_commit():
    assert (
        backend_with_runs(run_of_age(1, named=False)).l2_status(NOW)
        == "no: no run records its commit of PyTorch"
    )
    assert backend_with_runs(run_of_age(8)).l2_status(NOW) == "no: no run in 7 days"


def test_a_run_in_the_future_is_ignored():
    assert backend_with_runs(run_of_age(-1)).runs_within_days(7, NOW) == []


def test_a_folder_of_runs(tmp_path, capsys):
    started = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(hours=5)
    for name in ("mine", "a|b"):
        (tmp_path / name).mkdir()
    with fixed_suite_digest():
        for name, changes in {"1": {}, "2": {"exit": 1}, "3": {"complete": False, "exit": 3}}.items():
            write_output_folder(tmp_path / "mine" / name, leg(started=started.isoformat(), **changes))
        write_output_folder(tmp_path / "a|b" / "1", leg(started="2020-01-01T00:00:00+00:00"))
    (tmp_path / "mine" / "broken").mkdir()
    (tmp_path / "mine" / "broken" / "results.json").write_text("[")
    write_output_folder(tmp_path / "mine" / "when", leg(started="yesterday"))
    write_output_folder(tmp_path / "mine" / "zone", leg(started="2026-01-01T00:00:00"))
    assert cli.main(["readiness", str(tmp_path)]) == 0
    out, err = capsys.readouterr()
    assert (
        "| mine | 3 | 33% | 12 s | 12 s | no: no run records its commit of PyTorch | no: 7 days: success"
        in out
    )
    assert r"| a\|b | 0 | - | - | - | no: no run in 7 days |" in out
    assert [line.split(" is ignored")[0] for line in err.splitlines()] == [
        "note: mine/broken",
        "note: mine/when",
        "note: mine/zone",
    ]
    assert cli.main(["readiness", str(tmp_path), "-o", str(tmp_path / "new" / "table.md")]) == 0
    assert (tmp_path / "new" / "table.md").read_text() == out


@pytest.mark.parametrize("name", ["absent", "empty"])
def test_a_folder_without_runs(name, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="BACKEND/RUN"):
        relay_readiness.read_backends(tmp_path / name)


def test_hidden_folders_are_not_backends(tmp_path) -> None:
    from conformance.results import document
    from tests.support.sample_passing_leg import fixed_suite_digest, leg

    with fixed_suite_digest():
        bringup_leg = leg("bringup")
    for name in ("cpu", ".store", ".git"):
        run_folder = tmp_path / name / "r1"
        run_folder.mkdir(parents=True)
        document.write_results(run_folder / "results.json", document.results_document([bringup_leg]))
    assert [backend.name for backend in relay_readiness.read_backends(tmp_path)] == ["cpu"]
