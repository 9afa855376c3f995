"""``conformance diff`` of two runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.cli_process import Run

Cli = Callable[..., Run]


@pytest.mark.nightly("starts several runs; unit tests check the text")
def test_diff_from_the_command_line(cli: Cli, tmp_path: Path) -> None:
    names = {"old": "good,fails_once,half", "new": "good,fails_once,half,fail"}
    for name, subjects in names.items():
        cli("run", "-n", "1", "--level", "core", subjects=subjects).folder.rename(tmp_path / name)
    same = cli("diff", "old", "old")
    assert (same.code, same.out.splitlines()[-1]) == (0, "no regressions: exit 0")
    better = cli("diff", "old", "new")
    assert (better.code, ": 2 fixed, 1 still failing, 2 new (2 failing), 3 unchanged" in better.out) == (
        0,
        True,
    )
    worse = cli("diff", "new", "old")
    assert (worse.code, "2 regressed, 1 still failing, 2 vanished" in worse.out) == (1, True)
    difference = json.loads(cli("diff", "new", "old", "--json").out)
    assert difference["exit"] == 1
    assert [row["id"] for row in difference["legs"][0]["vanished"]] == [
        "acts/fail0@float32",
        "acts/fail0@int64",
    ]
    assert difference["legs"][0]["regressed"][0] == {
        "id": "acts/fails_once0@float32",
        "old": "pass",
        "new": "fail",
    }
    assert cli("diff", "old", "gone").code == 2
