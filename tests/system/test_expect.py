"""With the commands of ``conformance expect``, a failing run becomes a run without unexpected results."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from expecttest import assert_expected_inline

from conformance.expectations import edit
from tests.support.cli_process import Run, write_bare_target
from tests.support.sample_legs import expectation

Cli = Callable[..., Run]


def write_vendor_target(folder: Path, entries: str = "") -> None:
    (folder / "mine.toml").write_text(
        'schema = 1\nname = "mine"\ndevice = "cpu"\nmodes = ["eager"]\nexpectations = "known"\n'
    )
    (folder / "known").mkdir(exist_ok=True)
    (folder / "known" / "old.toml").write_text("# Ours.\nschema = 1\n" + entries)


def test_proposed_expectations_make_the_next_run_pass(cli: Cli, tmp_path: Path) -> None:
    """A vendor's workflow succeeds: run the suite, inspect the proposed expectations, write and complete
    them, run again.
    """
    wide = edit.entry_toml(expectation("acts/*@*", "value"))
    write_vendor_target(tmp_path, wide + "\n" + edit.entry_toml(expectation("acts/good0@int64", "value")))
    subjects = "good,fail,fails_twice,half"
    more = ("--target", "mine.toml")
    run = cli("run", *more, "-n", "1", subjects=subjects)
    assert run.code == 1
    assert "problem: expectation acts/*@* (value) in old.toml is over-broad: 3 of the 8 results" in run.out
    assert "problem: expectation acts/good0@int64 (value) in old.toml is stale" in run.out
    update = (
        "expect",
        "update",
        "out",
        *more,
        "--extra",
        "tests.support.misbehaving_subjects",
        "--until",
        "2999-01-01",
    )
    proposed = cli(*update, subjects=subjects)
    assert proposed.code == 1
    assert not (tmp_path / "known" / "new.toml").exists()
    assert '+id = "acts/fails_twice0@*"' in proposed.out and '-id = "acts/*@*"' in proposed.out
    assert proposed.out.endswith("0 entries are kept, 1 changed, 1 removed, 1 new\n")
    written = cli(*update, "--write", subjects=subjects)
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
    assert "entry 1: reason is still 'unread'" in cli("run", *more, subjects=subjects).err
    new = tmp_path / "known" / "new.toml"
    new.write_text(new.read_text().replace('"unread"', '"feature"').replace('""', '"docs/x.md"'))
    clean = cli("run", *more, "-n", "1", subjects=subjects)
    assert (clean.code, clean.results["totals"]) == (0, {"xfail": 5, "pass": 11}), clean.out
    checked = cli(
        "expect", "check", "out", *more, "--extra", "tests.support.misbehaving_subjects", subjects=subjects
    )
    assert (checked.code, checked.out.splitlines()[-1]) == (0, "4 entries are confirmed"), checked.out
    part = cli("expect", "check", *more, "--extra", "tests.support.misbehaving_subjects", subjects=subjects)
    assert (part.code, part.out) == (
        0,
        "4 entries: names, modes and expiry are valid; they are not yet verified: run level full, without -k "
        "and with all shards\n",
    )
    assert cli(*update, subjects=subjects).code == 0, "expect still proposes a change"


def test_an_unknown_name_gets_a_similar_name_as_suggestion(cli: Cli, tmp_path: Path) -> None:
    write_vendor_target(tmp_path, edit.entry_toml(expectation("acts/goood0@*", "value")))
    run = cli("run", "--target", "mine.toml")
    assert run.code == 2
    assert "(did you mean acts/good0@*?); remove or rename them" in run.err
    checked = cli("expect", "check", "--target", "mine.toml", "--extra", "tests.support.misbehaving_subjects")
    assert checked.code == 1
    assert "matches no result of this target; rename it to acts/good0@*, or remove it" in checked.out


@pytest.mark.nightly("starts several runs; unit tests check the text")
def test_entries_are_printed_if_the_target_has_no_expectations_key(cli: Cli, tmp_path: Path) -> None:
    target = ("--target", write_bare_target(tmp_path))
    cli("run", *target, "-n", "1", subjects="fail")
    proposed = cli(
        "expect", "update", "out", *target, "--extra", "tests.support.misbehaving_subjects", subjects="fail"
    )
    assert proposed.code == 1, proposed.err
    assert '+id = "acts/fail0@*"' in proposed.out
    lacks = "target file bare.toml has no key 'expectations'; add the line"
    assert f"note: {lacks}" in proposed.out
    written = cli(
        "expect",
        "update",
        "out",
        *target,
        "--extra",
        "tests.support.misbehaving_subjects",
        "--write",
        subjects="fail",
    )
    assert (written.code, lacks in written.err) == (2, True)
    assert not (tmp_path / "expectations").exists()


def test_a_check_rejects_a_run_of_a_different_target(cli: Cli, tmp_path: Path) -> None:
    write_vendor_target(tmp_path)
    cli("run", "-n", "1", "--level", "smoke")
    checked = cli(
        "expect", "check", "out", "--target", "mine.toml", "--extra", "tests.support.misbehaving_subjects"
    )
    assert checked.code == 2
    assert "the run has no results of target 'mine'; choose another run or target" in checked.err


def test_expect_check_needs_a_target_or_a_run(cli: Cli) -> None:
    assert cli("expect", "check").err == (
        "conformance expect: the target of the expectations is not clear; give --target, or the output "
        "folder of a run\n"
    )
