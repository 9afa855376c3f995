"""``results.difference`` compares two runs and sorts results by how their verdicts changed."""

from __future__ import annotations

from typing import Any

import pytest
from expecttest import assert_expected_inline

from conformance.commands import diff
from conformance.errors import UsageError
from conformance.expectations.aliases import Aliases
from conformance.results import diff as difference
from tests.support.sample_legs import leg


def run(mode: str = "eager", **verdicts: str) -> list[dict[str, Any]]:
    """Return a list with one leg of results ``p/NAME@d``: name -> verdict."""
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


def changed_list(old: str | None, new: str | None) -> str:
    """Return the name of the list that contains a result whose verdict changed from ``old`` to ``new``.

    None means that the run has no such result.
    """
    before = run(**({"a": old} if old else {}), same="pass")
    after = run(**({"a": new} if new else {}), same="pass")
    (pair,) = difference.compare_runs(before, after).pairs
    lists = ("regressed", "changed", "fixed", "excused", "still_failing", "added", "vanished")
    categories = [name for name in lists if getattr(pair, name)]
    assert len(categories) <= 1 and pair.unchanged == 1 + (not categories)
    assert pair.worse is (categories in (["regressed"], ["changed"], ["vanished"]))
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
def test_every_step_from_one_verdict_to_another(
    old: str | None, new: str | None, expected_change: str
) -> None:
    assert changed_list(old, new) == expected_change


def failing(verdict: str = "fail", samples: tuple[int, ...] = (), **messages: str) -> list[dict[str, Any]]:
    """Return a list with one leg. Its only result fails with one message per failure kind, in the samples."""
    (failing_leg,) = run(a=verdict, same="pass")
    failing_leg["results"][0] |= {
        "failures": [{"kind": kind, "message": message} for kind, message in messages.items()],
        "failed_samples": list(samples),
    }
    return [failing_leg]


@pytest.mark.parametrize(
    ("old", "new", "how"),
    [
        (failing(value="1 of 5"), failing(value="3 of 7"), ""),
        (
            failing(value="1 of 5"),
            failing(value="1 of 5", aliasing="no view"),
            "kinds value → aliasing, value",
        ),
        (failing(value="1 of 5"), failing(value="it has shape []"), "new message: value: it has shape #"),
        (failing(samples=(1, 2)), failing(samples=(1, 2, 9)), "samples that did not fail before: 9"),
        (failing(samples=(1, 2)), failing(samples=(2,)), "samples that do not fail any more: 1"),
        (
            failing("xfail", tuple(range(3)), value="a"),
            failing("xfail", tuple(range(20)), value="a"),
            "samples that did not fail before: 3, 4, 5, 6, 7 and 12 more",
        ),
        (failing("flaky", value="a"), failing("flaky", value="b"), ""),
    ],
)
def test_a_failure_that_changed_is_shown(
    old: list[dict[str, Any]], new: list[dict[str, Any]], how: str
) -> None:
    report = difference.compare_runs(old, new)
    (pair,) = report.pairs
    assert ([change.how for change in pair.changed], report.worse) == ([how] if how else [], bool(how))
    text = "\n".join(diff.comparison_lines(report))
    assert ("failing in another way" in text) is bool(how) and how in text
    rows = difference.to_json(report)["legs"][0]["changed"]
    assert [row["how"] for row in rows] == ([how] if how else [])


@pytest.mark.parametrize(
    ("key", "value"), [("digests", {"suite": "other"}), ("samples", "1"), ("torch", "2.14.0+cpu")]
)
def test_samples_compare_where_both_runs_have_the_same_ones(key: str, value: Any) -> None:
    old, new = failing(samples=(1,), value="a"), failing(samples=(2,), value="a")
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
def test_a_result_that_is_gone_counts_where_it_was_due(change: dict[str, Any], excuse: str) -> None:
    (new,) = run(a="pass")
    new = {**new, **change, "digests": {**new["digests"], **change.get("digests", {})}}
    report = difference.compare_runs(run(a="pass", b="pass"), [new])
    assert (report.pairs[0].excuse, report.worse) == (excuse, not excuse)
    text = "\n".join(diff.comparison_lines(report))
    assert (
        f"  vanished{', not counted as regressions because ' + excuse if excuse else ''}:\n"
        "    p/b@d (pass → absent)" in text
    )


def test_what_was_asked_for_is_told_in_words() -> None:
    (new,) = run(a="pass")
    (pair,) = difference.compare_runs([{**new, "selection": "p/a"}], [{**new, "level": "core"}]).pairs
    assert pair.notes == [f"level {new['level']}, now core", "selection p/a, now the whole level"]


def test_renamed_results_are_the_same_results() -> None:
    aliases = Aliases({"p": "q"}, {"a": "b"})
    new = run(b="fail")
    new[0]["results"][0]["id"] = "q/b@d"
    (pair,) = difference.compare_runs(run(a="pass"), new, aliases).pairs
    assert [change.id for change in pair.regressed] == ["q/b@d"]
    assert not pair.added and not pair.vanished


def test_legs_belong_together_by_mode_and_build() -> None:
    old = [*run("eager", a="pass"), *run("lazy", a="pass"), *run("graph", a="pass")]
    (eager,), (lazy,), (compiled,) = run("eager", a="pass"), run("lazy", a="fail"), run("compile", a="pass")
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
        difference.compare_runs(run("eager"), run("lazy"))


def test_a_comparison_as_a_person_sees_it() -> None:
    old = run(**{f"fft.r{i}": "pass" for i in range(12)}, add="fail", sub="fail", mul="xfail", gone="pass")
    new = run(
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
