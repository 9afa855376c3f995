"""Expectations that do not rot: scopes, judgement, proposals and what is written."""

from __future__ import annotations

import dataclasses
import datetime
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from expecttest import assert_expected_inline
from suite_process import Run, bare_target
from test_merge import leg
from test_verdicts import DAY, HEADER, expected, row

from conformance.errors import UsageError
from conformance.expectations import check, edit, entries, judge, propose
from conformance.expectations.covering import minimal
from conformance.expectations.entries import Book, Expectation
from conformance.expectations.index import Index
from conformance.model.patterns import matches
from conformance.model.torch_range import TorchScope, between
from conformance.plan.plan import Case, Plan
from conformance.results import document
from conformance.results.ledger import Ledger
from conformance.results.merge import merge
from conformance.results.outcome import decide

Cli = Callable[..., Run]


@pytest.mark.parametrize(
    ("scope", "inside", "outside"),
    [
        ("<2.14", ["2.13.1+cpu", "1.9.0"], ["2.14.0a0+git1", "3.0.0"]),
        (">=2.10, <2.14", ["2.10.0", "2.13.9"], ["2.9.1", "2.14.0"]),
        ("==2.13", ["2.13.0", "2.13.1+hpu"], ["2.12.9", "2.1.0"]),
    ],
)
def test_scopes_of_versions(scope: str, inside: list[str], outside: list[str]) -> None:
    found = TorchScope.parse(scope)
    assert all(map(found.holds, inside)) and not any(map(found.holds, outside))
    assert str(found) == scope


@pytest.mark.parametrize(
    "text", ["2.13", "<2", ">2.13", "", "<2.14,", ">=2.14, <2.10", "==2.1, ==2.2", "soon"]
)
def test_scopes_that_make_no_sense(text: str) -> None:
    with pytest.raises(ValueError, match=r"no scope of versions|holds of no version"):
        TorchScope.parse(text)


def test_the_scope_between_versions_that_fail_and_others() -> None:
    assert str(between({(2, 6), (2, 9)}, {(2, 13)})) == "<2.13"
    assert str(between({(2, 13)}, {(2, 6), (2, 9)})) == ">=2.13"
    assert between({(2, 9)}, {(2, 6), (2, 13)}) is None
    assert between({(2, 9)}, {(2, 9)}) is None


def test_an_entry_speaks_of_its_modes_and_versions_only() -> None:
    entry = dataclasses.replace(expected("a/a@a", "value", modes=("lazy",)), torch="<2.10")
    book = Book((entry,), "")
    assert book.active("lazy", DAY, "2.9.1") == [entry]
    assert not book.active("eager", DAY, "2.9.1") and not book.active("lazy", DAY, "2.10.0")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('torch = "2.13"', "torch '2.13' is no scope of versions; write '<2.14'"),
        ('modes = ["fast"]', "unknown mode 'fast'; known are eager"),
        ('modes = "lazy"', "modes is 'lazy'; it must be a list of words"),
        ("detail = 3", "detail is 3; it must be a string"),
    ],
)
def test_mistakes_in_scopes_are_named(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "known.toml"
    path.write_text(f"{edit.HEAD}{edit.render(expected('a/a@a', 'value'))}{line}\n")
    with pytest.raises(UsageError) as error:
        entries.load([path])
    assert message in str(error.value)


def test_an_entry_that_nobody_has_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "new.toml"
    entry = dataclasses.replace(expected("a/b@c", "value"), reason=entries.UNREAD, link="")
    path.write_text(edit.HEAD + edit.render(entry))
    with pytest.raises(
        UsageError, match="entry 1: reason is still 'unread'; look at a/b@c and name one of accu"
    ):
        entries.load([path])
    assert [found.reason for found in entries.load([path], unread=True).entries] == ["unread"]


def test_an_entry_covers_its_kind_in_every_attempt() -> None:
    crash, wrong = row("p/s@d", "crash", "crash"), row("p/s@d", "fail", "value", attempt=2)
    rows = decide({"p/s@d": [crash, wrong]}, [expected("p/s@d", "crash")]).rows
    assert rows["p/s@d"]["verdict"] == "crash", "the wrong value of the second attempt is not excused"
    both = [expected("p/s@d", "crash"), expected("p/s@d", "value")]
    assert decide({"p/s@d": [crash, wrong]}, both).rows["p/s@d"]["verdict"] == "xfail"


def judged(
    entries: list[Expectation], verdicts: dict[str, str], *, missing: int = 0, **header: Any
) -> dict[str, Any]:
    """A leg with results of kind ``value``, made from the events of a run."""
    ledger = Ledger()
    names = [*verdicts, *(f"missing{number}" for number in range(missing))]
    ledger.apply({"event": "run", **HEADER, **header})
    ledger.apply({"event": "plan", **Plan([Case("sham", "p", name, ("d",)) for name in names]).to_json()})
    for name, verdict in verdicts.items():
        kinds = ("value",) if verdict == "fail" else ()
        found = row(f"p/{name}@d", verdict, *kinds)
        ledger.apply({"event": "result", "worker": "w", "result": found})
    ledger.apply({"event": "end", "seconds": 1.0})
    return document.leg(ledger, Book(tuple(entries), ""), today=DAY)


def test_a_whole_run_finds_entries_that_have_rotted() -> None:
    entries = [
        expected("p/good@d", "value"), expected("p/*@d", "value"), expected("p/bad@d", "value", "2029-01-01"),
        expected("p/other@d", "message"), expected("p/bad*@d", "value"),
        dataclasses.replace(expected("q/*@d", "value"), modes=("eager",)), expected("q/*@d", "value"),
    ]  # fmt: skip
    found = judged(entries, {"good": "pass", "bad": "fail", "other": "unsupported"})
    assert_expected_inline(
        "\n".join(found["problems"]),
        """\
expectation p/good@d (value) in file.toml is stale: its result does not fail in that way in mode eager; remove it, or name the modes that need it
expectation p/*@d (value) in file.toml is over-broad: 1 of the 3 results that it matches pass, such as p/good@d; 'conformance expect update' writes narrower ones
expectation p/bad@d (value) in file.toml expired on 2029-01-01 and 1 results still fail so; look at https://example.org and give it a later day, or fix them
expectation p/other@d (message) in file.toml is stale: its result does not fail in that way in mode eager; remove it, or name the modes that need it
expectation q/*@d (value) in file.toml is stale: it matches no result in mode eager; take 'eager' from its modes""",  # noqa: E501
    )
    assert found["exit"] == 1


@pytest.mark.parametrize("entry", ["p/bad*@d", "p/*@d", "p/good@d"])
def test_what_is_wrong_with_entries_makes_a_whole_run_exit_with_1(entry: str) -> None:
    verdicts = {"good": "pass", "bad": "unsupported", "bad2": "pass"}
    entries = [expected(entry, "value")]
    assert judged(entries, verdicts)["exit"] == 1
    assert judged([], verdicts)["exit"] == 0
    assert judged([expected("p/bad@d", "value", "2029-01-01")], verdicts)["exit"] == 1


@pytest.mark.parametrize(
    "part", [{"level": "core"}, {"selection": "bad"}, {"shard": "1/2"}, {"samples": "3"}, {"missing": 1}]
)
def test_a_part_of_a_run_judges_nothing(part: dict[str, Any]) -> None:
    entries = [expected("p/*@d", "value"), expected("p/bad@d", "message")]
    found = judged(entries, {"good": "pass", "bad": "fail"}, **part)
    assert (found["expectations"]["judged"], found["problems"]) == (False, [])
    assert found["exit"] == (3 if "missing" in part else 0)
    assert [entry["fails"] for entry in found["expectations"]["entries"]] == [1, 0]


def test_a_pattern_is_obsolete_only_where_all_of_its_results_ran() -> None:
    entries = [expected("p/*@d", "value")]
    few = judged(entries, {"good": "pass"}, selection="good", reach={"p/*@d": 2})
    assert (few["results"][0]["verdict"], few["exit"]) == ("pass", 0)
    all_of_it = judged(entries, {"good": "pass"}, level="core", reach={"p/*@d": 1})
    assert (all_of_it["results"][0]["verdict"], all_of_it["exit"]) == ("xpass", 1)
    one = judged([expected("p/good@d", "value")], {"good": "pass"}, selection="good")
    assert one["results"][0]["verdict"] == "xpass"
    few_samples = judged([expected("p/good@d", "value")], {"good": "pass"}, samples="1")
    assert few_samples["results"][0]["verdict"] == "pass"


def test_merged_shards_are_judged_as_the_whole_that_they_are() -> None:
    entries = [expected("p/*@d", "value"), expected("p/gone*@d", "value")]
    parts = [
        ("a", judged(entries, {"good": "pass"}, shard="1/2")),
        ("b", judged(entries, {"bad": "fail"}, shard="2/2")),
    ]
    (whole,) = merge(parts)
    assert [problem.partition(" is ")[2][:10] for problem in whole["problems"]] == ["over-broad"]
    assert (whole["exit"], whole["expectations"]["judged"]) == (1, True)
    (part,) = merge(parts[:1])
    assert not part["expectations"]["judged"]


IDS = [f"{name}/{subject}@{dtype}" for name in ("value", "out") for dtype in ("float32", "int64")
       for subject in ("add", "fft.fft", "fft.ifft", "sum")]  # fmt: skip


@pytest.mark.parametrize(
    ("wanted", "patterns"),
    [
        (["value/add@float32"], ["value/add@float32"]),
        (["value/add@float32", "value/add@int64"], ["value/add@*"]),
        ([name for name in IDS if "/fft." in name], ["*/fft.*@*"]),
        ([name for name in IDS if name.startswith("value/fft.")], ["value/fft.*@*"]),
        ([name for name in IDS if name.endswith("int64")], ["*/*@int64"]),
        (["value/add@float32", "out/add@float32", "value/sum@int64"], ["*/add@float32", "value/sum@int64"]),
        (["value/sum@int64", "value/sum@float32", "out/sum@float32"], ["*/sum@float32", "value/sum@int64"]),
    ],
)  # fmt: skip
def test_patterns_are_few_and_never_broader_than_what_failed(wanted: list[str], patterns: list[str]) -> None:
    assert minimal(wanted, IDS) == patterns


def test_patterns_match_what_is_wanted_and_nothing_else_whatever_that_is() -> None:
    source = random.Random(0)
    for _ in range(200):
        wanted = source.sample(IDS, source.randrange(1, len(IDS)))
        patterns = minimal(wanted, IDS)
        assert {name for name in IDS if any(matches(pattern, name) for pattern in patterns)} == set(wanted)
        assert len(patterns) <= len(wanted)


def seen(mode: str = "eager", torch: str = "2.13.0", **verdicts: str) -> propose.Seen:
    """A leg of results ``p/NAME@d``; ``fail_message`` is a failure of another kind."""
    rows = {}
    for name, word in verdicts.items():
        verdict, _, kind = word.partition("_")
        rows[f"p/{name}@d"] = row(f"p/{name}@d", verdict, *([kind or "value"] if verdict != "pass" else []))
    return propose.Seen(mode, torch, rows)


def proposed(
    entries: list[Expectation], *legs: propose.Seen, plans: dict[str, list[str]] | None = None
) -> list[str]:
    """The entries after an update, in short."""
    ids = frozenset(name for each in legs for name in each.rows)
    known = {mode: frozenset(names) for mode, names in (plans or {}).items()} or {"eager": ids}
    found = propose.propose(entries, legs, known, until="2999-01-01", today=DAY)
    left = found.kept + [one for others in found.changed.values() for one in others] + found.new
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
    ], "in lazy mode nobody knows"


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


def test_files_change_only_where_they_must() -> None:
    text = (
        "# The head of the file.\nschema = 1\n\n# About the first.\n"
        + edit.render(expected("p/a@d", "value"))
        + "\n# About the second.\n"
        + edit.render(expected("p/*@d", "value")).replace("id =", "id   =")
        + "\n"
        + edit.render(expected("p/c@d", "message"))
    )
    path = Path("known.toml")
    narrow = [expected("p/b@d", "value"), expected("p/d@d", "value", modes=("lazy",))]
    found = edit.edited(path, text, {0: [], 1: narrow})
    assert_expected_inline(
        found,
        """\
# The head of the file.
schema = 1

# About the second.
[[expect]]
id = "p/b@d"
kind = "value"
reason = "accuracy"
link = "https://example.org"
until = "2999-01-01"

[[expect]]
id = "p/d@d"
kind = "value"
reason = "accuracy"
link = "https://example.org"
until = "2999-01-01"
modes = ["lazy"]

[[expect]]
id = "p/c@d"
kind = "message"
reason = "accuracy"
link = "https://example.org"
until = "2999-01-01"
""",
    )
    assert edit.edited(path, text, {}) == text
    with pytest.raises(UsageError, match="cannot be changed; write each entry as a table"):
        edit.edited(path, 'schema = 1\nexpect = [{id = "a/b@c", kind = "value", reason = "accuracy", '
                    'link = "docs/x", until = "torch 2.99"}]\n', {0: []})  # fmt: skip


def test_whatever_a_message_holds_is_read_back(tmp_path: Path) -> None:
    for text in ('say "no"\\', "tab\tand\nline", "\x00\x1b[0m\u2028", "[[expect]]", "é 字 😀"):
        entry = dataclasses.replace(expected("p/a@d", "value"), detail=text)
        path = tmp_path / "known.toml"
        path.write_text(edit.appended(edit.HEAD, [entry]))
        assert entries.load([path]).entries[0].detail == text


def test_names_near_to_an_unknown_one() -> None:
    index = Index(["value/add@float32", "value/mul@float32", "out/add@float32", "compile_value/add@float32"])
    assert index.nearest("value/ad@float32") == ["value/add@float32"]
    assert index.nearest("valu/add@*") == ["value/add@*"]
    assert index.nearest("out/mul@float32") == ["value/mul@float32"]
    assert index.nearest("value/add@float16")[0] == "value/add@float32"
    assert index.nearest("nothing/like_it@all") == []


def test_a_check_without_a_run_finds_names_modes_days_and_doubles() -> None:
    plans = {"eager": frozenset(["value/add@float32"]), "lazy": frozenset(["value/sub@float32"])}
    entries = (
        expected("value/ad@float32", "value"),
        expected("value/add@float32", "value", modes=("lazy", "graph")),
        expected("value/add@*", "value", "2029-01-01"), expected("value/add@*", "value"),
    )  # fmt: skip
    found = check.static(Book(entries, ""), plans, DAY, ["2.13.0"])
    assert_expected_inline(
        "\n".join(found),
        """\
expectation value/ad@float32 (value) in file.toml names no result of this target; rename it to value/add@float32, or remove it
expectation value/add@float32 (value) in file.toml matches no result in mode 'lazy'; take the word from its modes
expectation value/add@float32 (value) in file.toml names mode 'graph', which the target lacks; drop it or use eager, lazy
expectation value/add@* (value) in file.toml expired on 2029-01-01; look at https://example.org and give it a later day, or remove it
expectation value/add@* (value) in file.toml also stands in file.toml; remove one of them""",  # noqa: E501
    )


def vendor(folder: Path, entries: str = "") -> None:
    (folder / "mine.toml").write_text(
        'schema = 1\nname = "mine"\ndevice = "cpu"\nmodes = ["eager"]\nexpectations = "known"\n'
    )
    (folder / "known").mkdir(exist_ok=True)
    (folder / "known" / "old.toml").write_text("# Ours.\nschema = 1\n" + entries)


def test_expectations_from_a_run_to_a_clean_one(cli: Cli, tmp_path: Path) -> None:
    """The way of a vendor: run, see the proposal, write it, fill it in, run again."""
    wide = edit.render(expected("acts/*@*", "value"))
    vendor(tmp_path, wide + "\n" + edit.render(expected("acts/good0@int64", "value")))
    sham = "good,fail,fails_twice,half"
    more = ("--target", "mine.toml")
    run = cli("run", *more, "-n", "1", sham=sham)
    assert run.code == 1
    assert "problem: expectation acts/*@* (value) in old.toml is over-broad: 3 of the 8 results" in run.out
    assert "problem: expectation acts/good0@int64 (value) in old.toml is stale" in run.out
    update = ("expect", "update", "out", *more, "--extra", "sham", "--until", "2999-01-01")
    shown = cli(*update, sham=sham)
    assert shown.code == 1
    assert not (tmp_path / "known" / "new.toml").exists()
    assert '+id = "acts/fails_twice0@*"' in shown.out and '-id = "acts/*@*"' in shown.out
    assert shown.out.endswith("0 entries are kept, 1 changed, 1 removed, 1 new\n")
    written = cli(*update, "--write", sham=sham)
    assert written.code == 0
    assert (tmp_path / "known" / "old.toml").read_text().startswith("# Ours.\nschema = 1\n")
    assert_expected_inline(
        (tmp_path / "known" / "new.toml").read_text(),
        """\
schema = 1

[[expect]]
id = "acts/fails_twice0@*"
kind = "metadata"
reason = "unread"
detail = "strides differ"
link = ""
until = "2999-01-01"
""",
    )
    assert "entry 1: reason is still 'unread'" in cli("run", *more, sham=sham).err
    new = tmp_path / "known" / "new.toml"
    new.write_text(new.read_text().replace('"unread"', '"feature"').replace('""', '"docs/x.md"'))
    clean = cli("run", *more, "-n", "1", sham=sham)
    assert (clean.code, clean.results["totals"]) == (0, {"xfail": 5, "pass": 11}), clean.out
    checked = cli("expect", "check", "out", *more, "--extra", "sham", sham=sham)
    assert (checked.code, checked.out.splitlines()[-1]) == (0, "4 entries are true"), checked.out
    part = cli("expect", "check", *more, "--extra", "sham", sham=sham)
    assert (part.code, part.out) == (
        0,
        "4 entries: names, modes and days are right; whether they are stale only a whole run at the level "
        "full can tell\n",
    )
    assert cli(*update, sham=sham).code == 0, "nothing is left to propose"


def test_a_run_says_what_an_unknown_name_may_have_meant(cli: Cli, tmp_path: Path) -> None:
    vendor(tmp_path, edit.render(expected("acts/goood0@*", "value")))
    run = cli("run", "--target", "mine.toml")
    assert run.code == 2
    assert "(did you mean acts/good0@*?); remove or rename them" in run.err
    found = cli("expect", "check", "--target", "mine.toml", "--extra", "sham")
    assert found.code == 1
    assert "names no result of this target; rename it to acts/good0@*, or remove it" in found.out


def test_entries_are_shown_that_have_no_place_to_be_written_to(cli: Cli, tmp_path: Path) -> None:
    target = ("--target", bare_target(tmp_path))
    cli("run", *target, "-n", "1", sham="fail")
    shown = cli("expect", "update", "out", *target, "--extra", "sham", sham="fail")
    assert shown.code == 1, shown.err
    assert '+id = "acts/fail0@*"' in shown.out
    lacks = 'target file bare.toml names no expectations; add the line expectations = "expectations"'
    assert f"note: {lacks}" in shown.out
    written = cli("expect", "update", "out", *target, "--extra", "sham", "--write", sham="fail")
    assert (written.code, lacks in written.err) == (2, True)
    assert not (tmp_path / "expectations").exists()


def test_a_check_refuses_the_run_of_another_target(cli: Cli, tmp_path: Path) -> None:
    vendor(tmp_path)
    cli("run", "-n", "1", "--level", "smoke")
    found = cli("expect", "check", "out", "--target", "mine.toml", "--extra", "sham")
    assert found.code == 2
    assert "the run has no results of target 'mine'; name another one" in found.err


def test_whose_expectations_are_meant_must_be_clear(cli: Cli) -> None:
    assert cli("expect", "check").err == (
        "conformance expect: it is not clear whose expectations are meant; give --target, or the output "
        "folder of a run\n"
    )


def test_states_of_results() -> None:
    assert judge.state(row("p/a@d", "xfail", "value"), "value") == "fails"
    assert judge.state(row("p/a@d", "fail", "message"), "value") == "other"
    assert judge.state(row("p/a@d", "flaky", "value"), "value") == "unclear"
    assert judge.state(row("p/a@d", "crash", "crash"), "value") == "unclear"
    assert judge.state(row("p/a@d", "xpass"), "value") == "passes"
    assert datetime.date.fromisoformat("2030-01-01") == DAY
    assert leg()["expectations"]["entries"] == []
