"""Tests of ``conformance merge`` for shards and for runs, and of runs in several modes."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from conformance.report import output_files
from tests.support import python_path
from tests.support.cli_process import Run
from tests.support.sample_legs import leg

Cli = Callable[..., Run]


def test_a_merge_without_a_shard_fails_and_names_the_shard(cli: Cli, tmp_path: Path) -> None:
    options = ("-n", "1", "--level", "core", "--shard", "1/2")
    run = cli("run", *options, subjects="good,fail")
    assert (run.code, run.results["complete"]) == (0, True)
    assert re.match(r"bare, eager, torch \S+, shard 1/2: 2 pass in 1 cases", run.out), run.out
    assert "as expected: exit 0" in run.out
    lost = cli("merge", "out", "-o", "all")
    assert lost.code == 3
    assert "incomplete: shard 2/2 is missing; exit 3\n" in lost.out
    assert json.loads((tmp_path / "all" / "results.json").read_text())["complete"] is False
    report = cli("report", "all")
    assert (report.code, "shard 2/2 is missing" in report.out, "resume with" in report.out) == (
        3,
        True,
        False,
    )
    # A shard in OUT/legs/NAME belongs to the run with output folder OUT, if NAME is the name of the shard's
    # leg. The run had only this shard, so none is missing. A shard in any other folder belongs to a run of
    # all shards, of which shard 2/2 is missing.
    part = tmp_path / "nox" / "legs" / run.results["legs"][0]["name"]
    shutil.copytree(run.folder, part)
    assert cli("merge", str(part), "-o", "nox").code == 0
    part_of_other_run = part.with_name("somebody")
    part.rename(part_of_other_run)
    assert cli("merge", str(part_of_other_run), "-o", "nox").code == 3


def test_a_merge_does_not_replace_files_that_no_run_has_written(cli: Cli, tmp_path: Path) -> None:
    files_of = {"a": leg("eager"), "b": leg("lazy")}
    for name, leg_record in files_of.items():
        (tmp_path / name).mkdir()
        output_files.write_reports(tmp_path / name, [leg_record])
    (tmp_path / "f").mkdir()
    for name in ("report.html", "junit.xml", "notes.txt"):
        (tmp_path / "f" / name).write_text("mine")
    refused = cli("merge", "a", "b", "-o", "f")
    assert (refused.code, refused.err) == (
        2,
        "conformance merge: --output f contains junit.xml, report.html, which no earlier run has written; "
        "use a different folder\n",
    )
    assert (tmp_path / "f" / "report.html").read_text() == "mine"
    for name in ("report.html", "junit.xml"):
        (tmp_path / "f" / name).unlink()
    for _ in range(2):
        assert cli("merge", "a", "b", "-o", "f").code == 0, (
            "a merge must replace the output of an earlier merge"
        )
    (tmp_path / "f" / "results.json").write_text("{}")
    assert "contains results.json, junit.xml, report.html, which no" in cli("merge", "a", "b", "-o", "f").err
    (tmp_path / "a" / "results.json").write_text("{}")
    assert "do not follow the schema: key 'schema' is missing\n" in cli("merge", "a", "-o", "g").err


def write_two_mode_target(folder: Path) -> str:
    (folder / "mine.toml").write_text(
        'schema = 1\nname = "mine"\ndevice = "cpu"\nmodes = ["eager", "lazy"]\n'
        '[environment.lazy]\nARTIFICIAL_SUBJECTS = "good,fail"\n'
    )
    return "mine.toml"


@pytest.mark.nightly("starts several runs; test_a_merge_without_a_shard does so every day")
def test_runs_are_merged_from_the_command_line(cli: Cli, tmp_path: Path) -> None:
    mine = write_two_mode_target(tmp_path)
    for mode in ("eager", "lazy"):
        run = cli("run", "--target", mine, "--mode", mode, "-n", "1", "--level", "core")
        assert run.code == {"eager": 0, "lazy": 1}[mode]
        run.folder.rename(tmp_path / mode)
    done = cli("merge", "eager", "lazy", "-o", "both")
    assert done.code == 1
    assert "  fail0: 2 fail in lazy\n" in done.out
    assert "conformance repro acts/fail0@float32 --target mine.toml --mode lazy\n" in done.out
    document = json.loads((tmp_path / "both" / "results.json").read_text())
    assert [(part["mode"], part["exit"]) for part in document["legs"]] == [("eager", 0), ("lazy", 1)]
    assert {path.name for path in (tmp_path / "both").iterdir()} == {
        "results.json",
        "junit.xml",
        "report.html",
    }
    assert cli("merge", "both", "eager", "-o", "all").err.startswith("conformance merge: shard 1/1 of leg ")
    assert "is one of the folders to merge" in cli("merge", "eager", "lazy", "-o", "eager").err
    assert "contains no results; give the output folder of a run" in cli("merge", "none", "-o", "all").err


def test_modes_run_one_after_the_other_into_legs(cli: Cli, tmp_path: Path) -> None:
    run = cli("run", "--target", write_two_mode_target(tmp_path), "-n", "1", "--level", "core")
    legs = run.results["legs"]
    assert [(part["mode"], part["exit"], part["planned"]) for part in legs] == [
        ("eager", 0, 2),
        ("lazy", 1, 4),
    ]
    assert run.code == 1
    assert re.search(r"^mine, eager, torch \S+: 2 pass in 1 cases", run.out, re.M)
    assert re.search(r"^mine, lazy, torch \S+: 2 pass, 2 fail in 2 cases", run.out, re.M)
    parts = sorted((run.folder / "legs").iterdir())
    assert [part.name for part in parts] == [part["name"] for part in legs]
    for part in parts:
        assert {path.name for path in part.iterdir()} >= {
            "journal.jsonl", "results.json", "junit.xml", "report.html"
        }  # fmt: skip
    shutil.copy(parts[0] / "journal.jsonl", tmp_path)
    (run.folder / "results.json").unlink()
    report = cli("report", str(run.folder))
    assert (report.code, json.loads((run.folder / "results.json").read_text())["legs"]) == (1, legs)


@pytest.mark.nightly("starts two runs; the next test also has a leg that does not start")
def test_a_mode_that_cannot_start_does_not_stop_the_others(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        'schema = 1\nname = "mine"\ndevice = "cpu"\nmodes = ["lazy", "eager"]\n'
        '[environment.lazy]\nCONFORMANCE_KINDS = "nothing"\nARTIFICIAL_SUBJECTS = "none"\n'
    )
    run = cli("run", "--target", "mine.toml", "-n", "1", "--level", "core")
    assert run.code == 0
    assert "mode lazy is omitted: target 'mine' has no case at level 'core' in mode lazy" in run.err
    (tmp_path / "broken.py").write_text("import os\nif os.environ.get('BROKEN'): raise ValueError('no')\n")
    (tmp_path / "mine.toml").write_text(
        'schema = 1\nname = "mine"\ndevice = "cpu"\nmodule = "broken"\nmodes = ["lazy", "eager"]\n'
        '[environment.lazy]\nBROKEN = "1"\n'
    )
    run = cli("run", "--target", "mine.toml", "-n", "1", "--level", "core", PYTHONPATH=python_path(tmp_path))
    assert (run.code, run.results["exit"], run.results["complete"]) == (2, 2, False)
    assert [(part["mode"], part["exit"]) for part in run.results["legs"]] == [("lazy", 2), ("eager", 0)]
    assert "module 'broken' of target 'mine' cannot be imported (ValueError: no)" in run.out


@pytest.mark.nightly("starts five runs; tests/unit/results/test_merge.py merges such parts")
def test_the_results_of_a_part_contain_the_reason_why_it_did_not_start(cli: Cli, tmp_path: Path) -> None:
    assert cli("run", "-k", "nothing_is_called_so").code == 2
    empty = cli("run", "-k", "nothing_is_called_so", "--part")
    assert (empty.code, empty.folder.exists()) == (0, False)
    (tmp_path / "mine.toml").write_text('schema = 1\nname = "mine"\ndevice = "cpu"\nmodule = "gone"\n')
    assert cli("run", "--target", "mine.toml").code == 2
    assert not (tmp_path / "out").exists()
    run = cli("run", "--target", "mine.toml", "--part")
    assert (run.code, run.results["exit"], run.results["complete"]) == (2, 2, False)
    assert "problem: module 'gone' of target 'mine' cannot be imported" in run.out
    assert cli("merge", "out", "-o", "all").code == 2
    assert cli("run", "--target", "mine.toml", "--part").code == 2, (
        "a second run replaces the first run's output"
    )
