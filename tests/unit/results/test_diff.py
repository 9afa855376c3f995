"""``results.diff`` compares two runs and sorts results by how their verdicts changed."""

from __future__ import annotations

from typing import Any

import pytest
from expecttest import assert_expected_inline

from conformance.commands import diff
from conformance.errors import UsageError
from conformance.expectations.aliases import Aliases
from conformance.results import diff as difference
from tests.support.sample_legs import leg


def legs_with_verdicts(mode: str = "eager", **verdicts: str) -> list[dict[str, Any]]:
    """Return a list with one leg of results ``p/NAME@d``. ``verdicts``: NAME -> verdict."""
    rows = [
        {
            "id": f"p/{name}@d",
            "verdict": verdict,
            "seconds": 0.1,
            **({"failures": [{"kind": kind, "message": f"{name} differs"}]} if kind else {}),
        }
        for name, verdict in verdicts.items()
        for kind in [{"fail": "value", "xfail": "value", "crash": "crash"}.get(verdict)]
    ]
    cases = {f"p/{name}": verdict for name, verdict in verdicts.items()}
    return [leg(mode, results=rows, cases=cases, complete=True, exit=0)]


def name_of_change_list(old: str | None, new: str | None) -> str:
    """Return the name of the list of a run comparison that contains a result whose verdict changed from
    ``old`` to ``new``.

    None as a verdict means that the run does not have the result.
    """
    before = legs_with_verdicts(**({"a": old} if old else {}), same="pass")
    after = legs_with_verdicts(**({"a": new} if new else {}), same="pass")
    (pair,) = difference.compare_runs(before, after).pairs
    lists = ("regressed", "changed", "fixed", "excused", "still_failing", "added", "vanished")
    categories = [name for name in lists if getattr(pair, name)]
    assert len(categories) <= 1 and pair.unchanged == 1 + (not categories)
    assert pair.has_worse_results is (categories in (["regressed"], ["changed"], ["vanished"]))
    return categories[0] if categories else "unchanged"


@pytest.mark.parametrize(
    ("old", "new", "expected_change"),
    [
        ("pass", "fail", "regressed"), ("pass", "flaky", "regressed"), ("pass", "xfail", "regressed"),
        ("pass", "unsupported", "regressed"), ("xfail", "fail", "regressed"),
        ("unsupported", "crash", "regressed"), ("unsupported", "xfail", "regressed"),
        ("pass", "vacuous", "regressed"), ("xpass", "error", "regressed"),
        ("fail", "pass", "fixed"), ("xfail", "pass", "fixed"), ("xfail", "xpass", "fixed"),
        ("unsupported", "pass", "fixed"), ("flaky", "pass", "fixed"),
        ("fail", "xfail", "excused"), ("crash", "unsupported", "excused"),
        ("xfail", "unsupported", "excused"), ("fail", "crash", "changed"), ("fail", "fail", "still_failing"),
        ("flaky", "fail", "still_failing"), ("fail", "flaky", "still_failing"),
        ("pass", "pass", "unchanged"), ("xfail", "xfail", "unchanged"), ("pass", "xpass", "unchanged"),
        (None, "pass", "added"), (None, "fail", "added"),
        ("pass", None, "vanished"), ("fail", None, "vanished"),
    ],
)  # fmt: skip
def test_the_list_of_each_change_of_verdict(old: str | None, new: str | None, expected_change: str) -> None:
    assert name_of_change_list(old, new) == expected_change


def legs_with_one_failure(
    verdict: str = "fail", samples: tuple[int, ...] = (), **messages: str
) -> list[dict[str, Any]]:
    """Return a list with one leg of two results. ``p/a@d`` has one failure per failure kind in ``messages``,
    and ``samples`` are its failing samples. ``p/same@d`` passes.
    """
    (failing_leg,) = legs_with_verdicts(a=verdict, same="pass")
    failing_leg["results"][0] |= {
        "failures": [{"kind": kind, "message": message} for kind, message in messages.items()],
        "failed_samples": list(samples),
    }
    return [failing_leg]


@pytest.mark.parametrize(
    ("old", "new", "how"),
    [
        (legs_with_one_failure(value="1 of 5"), legs_with_one_failure(value="3 of 7"), ""),
        (
            legs_with_one_failure(value="1 of 5"),
            legs_with_one_failure(value="1 of 5", aliasing="no view"),
            "kinds value → aliasing, value",
        ),
        (
            legs_with_one_failure(value="1 of 5"),
            legs_with_one_failure(value="it has shape []"),
            "new message: value: it has shape #",
        ),
        (
            legs_with_one_failure(samples=(1, 2)),
            legs_with_one_failure(samples=(1, 2, 9)),
            "samples that did not fail before: 9",
        ),
        (
            legs_with_one_failure(samples=(1, 2)),
            legs_with_one_failure(samples=(2,)),
            "samples that do not fail any more: 1",
        ),
        (
            legs_with_one_failure("xfail", tuple(range(3)), value="a"),
            legs_with_one_failure("xfail", tuple(range(20)), value="a"),
            "samples that did not fail before: 3, 4, 5, 6, 7 and 12 more",
        ),
        (legs_with_one_failure("flaky", value="a"), legs_with_one_failure("flaky", value="b"), ""),
    ],
)
def test_a_changed_failure_is_reported_with_its_difference(
    old: list[dict[str, Any]], new: list[dict[str, Any]], how: str
) -> None:
    report = difference.compare_runs(old, new)
    (pair,) = report.pairs
    assert ([change.how for change in pair.changed], report.has_worse_results) == (
        [how] if how else [],
        bool(how),
    )
    text = "\n".join(diff.comparison_lines(report))
    assert ("failing in another way" in text) is bool(how) and how in text
    rows = difference.to_json(report)["legs"][0]["changed"]
    assert [row["how"] for row in rows] == ([how] if how else [])


@pytest.mark.parametrize(
    ("key", "value"),
    [("digests", {"suite": "other"}), ("samples", "1"), ("torch", "2.14.0+cpu"), ("seed", 7)],
)
def test_failing_samples_are_compared_only_if_both_runs_have_the_same_samples(key: str, value: Any) -> None:
    old, new = legs_with_one_failure(samples=(1,), value="a"), legs_with_one_failure(samples=(2,), value="a")
    new[0][key] = {**new[0]["digests"], **value} if isinstance(value, dict) else value
    assert not difference.compare_runs(old, new).pairs[0].changed
    new[0]["results"][0]["failures"] = [{"kind": "aliasing", "message": "a"}]
    assert difference.compare_runs(old, new).pairs[0].changed


@pytest.mark.parametrize(
    ("change", "excuse"),
    [
        ({}, ""),
        ({"digests": {"target": "other"}}, ""),
        ({"digests": {"suite": "other"}}, "the suite has changed"),
        ({"torch": "2.14.0+cpu", "name": "2.14.0+cpu-eager"}, "torch is a different minor version"),
        ({"torch": "2.13.1+cpu", "name": "2.13.1+cpu-eager"}, ""),
        ({"level": "core"}, "level differ"),
        ({"selection": "add", "samples": "1"}, "selection and samples differ"),
        ({"complete": False, "digests": {"suite": "other"}}, ""),
    ],
)
def test_a_vanished_result_counts_only_if_the_run_should_have_it(change: dict[str, Any], excuse: str) -> None:
    (new,) = legs_with_verdicts(a="pass")
    new = {**new, **change, "digests": {**new["digests"], **change.get("digests", {})}}
    report = difference.compare_runs(legs_with_verdicts(a="pass", b="pass"), [new])
    assert (report.pairs[0].excuse, report.has_worse_results) == (excuse, not excuse)
    text = "\n".join(diff.comparison_lines(report))
    assert (
        f"  vanished{', not counted as regressions because ' + excuse if excuse else ''}:\n"
        "    p/b@d (pass → absent)" in text
    )


def test_changed_options_of_the_run_are_noted() -> None:
    (new,) = legs_with_verdicts(a="pass")
    (pair,) = difference.compare_runs([{**new, "selection": "p/a"}], [{**new, "level": "core"}]).pairs
    assert pair.notes == [f"level {new['level']}, now core", "selection p/a, now the whole level"]


def test_renamed_results_are_the_same_results() -> None:
    aliases = Aliases({"p": "q"}, {"a": "b"})
    new = legs_with_verdicts(b="fail")
    new[0]["results"][0]["id"] = "q/b@d"
    (pair,) = difference.compare_runs(legs_with_verdicts(a="pass"), new, aliases).pairs
    assert [change.id for change in pair.regressed] == ["q/b@d"]
    assert not pair.added and not pair.vanished


def test_legs_are_paired_by_mode_and_build() -> None:
    old = [
        *legs_with_verdicts("eager", a="pass"),
        *legs_with_verdicts("lazy", a="pass"),
        *legs_with_verdicts("graph", a="pass"),
    ]
    (eager,), (lazy,), (compiled,) = (
        legs_with_verdicts("eager", a="pass"),
        legs_with_verdicts("lazy", a="fail"),
        legs_with_verdicts("compile", a="pass"),
    )
    eager |= {"torch": "2.14.0", "name": "2.14.0-eager"}
    report = difference.compare_runs(old, [lazy, eager, compiled])
    assert [(pair.old["name"], pair.new["name"]) for pair in report.pairs] == [
        ("2.13.0+cpu-lazy", "2.13.0+cpu-lazy"), ("2.13.0+cpu-eager", "2.14.0-eager")
    ]  # fmt: skip
    assert report.notes == [
        "leg 2.13.0+cpu-graph of cpu is only in the old run and is not compared",
        "leg 2.13.0+cpu-compile of cpu is only in the new run and is not compared",
    ]
    assert report.pairs[1].notes == ["torch 2.13.0+cpu, now 2.14.0"]
    with pytest.raises(UsageError, match=r"no leg in common \(the old one has eager, the new one lazy\)"):
        difference.compare_runs(legs_with_verdicts("eager"), legs_with_verdicts("lazy"))


@pytest.mark.parametrize(
    ("missing", "verdict", "code"),
    [((0, 0), "pass", 0), ((0, 7), "pass", 3), ((5, 0), "pass", 3), ((5, 7), "pass", 3), ((5, 7), "fail", 1)],
)
def test_a_comparison_of_incomplete_runs_is_incomplete(
    missing: tuple[int, int], verdict: str, code: int
) -> None:
    runs = [legs_with_verdicts(a="pass"), legs_with_verdicts(a=verdict)]
    for legs, count in zip(runs, missing, strict=True):
        legs[0]["missing"] = {"count": count, "first": []}
        legs[0]["complete"] = not count
    report = difference.compare_runs(*runs)
    assert report.exit_code == code
    assert difference.to_json(report)["exit"] == code
    last_line = list(diff.comparison_lines(report))[-1]
    assert (f"incomplete: OLD lacks {missing[0]} of its planned results" in last_line) == (code == 3)


def test_the_printed_text_of_a_comparison() -> None:
    old = legs_with_verdicts(
        **{f"fft.r{i}": "pass" for i in range(12)}, add="fail", sub="fail", mul="xfail", gone="pass"
    )
    new = legs_with_verdicts(
        **{f"fft.r{i}": "fail" for i in range(12)}, add="pass", sub="fail", mul="fail", div="fail", dot="pass"
    )
    new[0]["digests"]["backend"] = "b" * 64
    assert_expected_inline(
        "\n".join(diff.comparison_lines(difference.compare_runs(old, new))),
        """\
cpu, eager, torch 2.13.0+cpu: 13 regressed, 1 fixed, 1 still failing, 2 new (1 failing), 1 vanished
  note: the backend is a different build
  regressed, by cause (largest first):
    fft, 12 subjects: 12 results, such as p/fft.r0@d (pass → fail)
      value: fft.r0 differs
      conformance repro p/fft.r0@d --target cpu --mode eager
    mul: 1 result, such as p/mul@d (xfail → fail)
      value: mul differs
      conformance repro p/mul@d --target cpu --mode eager
  vanished:
    p/gone@d (pass → absent)
  new and failing, by cause (largest first):
    div: 1 result, such as p/div@d (absent → fail)
      value: div differs
      conformance repro p/div@d --target cpu --mode eager
  fixed:
    p/add@d (fail → pass)
worse: exit 1""",
    )
