"""``report.snippet_lookup`` finds the snippet of a failure in an output folder, which may be hostile."""

from __future__ import annotations

import copy
import os
from pathlib import Path
from typing import Any

import pytest

from conformance.commands import run_snippets
from conformance.report import snippet_lookup
from tests.support.sample_legs import leg


def leg_and_failing_row() -> tuple[Any, Any]:
    failed_leg = leg("eager", "fail")
    row = failed_leg["results"][0]
    row["failures"] = [{"kind": "value", "message": "1 of 3 differ"}]
    return failed_leg, row


def write_snippet(folder: Path, leg_record: Any, row: Any, text: str = "print(1)") -> Path:
    file = snippet_lookup.snippet_path(folder, leg_record, row)
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    return file


def test_a_snippet_belongs_to_one_failure_of_one_run(tmp_path: Path) -> None:
    failed_leg, row = leg_and_failing_row()
    write_snippet(tmp_path, failed_leg, row)
    assert snippet_lookup.read_snippet([tmp_path / "none", tmp_path], failed_leg, row) == "print(1)"
    different_row = copy.deepcopy(row)
    different_row["failures"][0]["message"] = "2 of 3 differ"
    assert snippet_lookup.read_snippet([tmp_path], failed_leg, different_row) is None, (
        "the snippet belongs to a different failure"
    )
    assert snippet_lookup.read_snippet([tmp_path], {**failed_leg, "torch": "2.6.0"}, row) is None, (
        "the snippet belongs to a different build"
    )
    assert snippet_lookup.read_snippet([tmp_path], {**failed_leg, "started": "2031"}, row) is None, (
        "the snippet belongs to a different run"
    )


@pytest.mark.parametrize(
    "name", ["../../etc/passwd@d", "p/" + "s" * 5000 + "@d", "p/\ud800@d", "p/\0@d", "-p/s@d"]
)
def test_a_hostile_id_cannot_leave_the_folder(tmp_path: Path, name: str) -> None:
    failed_leg, row = leg_and_failing_row()
    row = {**row, "id": name}
    assert snippet_lookup.snippet_path(tmp_path, failed_leg, row).parent == tmp_path / snippet_lookup.FOLDER
    write_snippet(tmp_path, failed_leg, row)
    assert snippet_lookup.read_snippet([tmp_path], failed_leg, row) == "print(1)"


def test_symbolic_links_pipes_and_large_files_are_not_read(tmp_path: Path) -> None:
    failed_leg, row = leg_and_failing_row()
    file = write_snippet(tmp_path, failed_leg, row, "x" * (snippet_lookup.MOST + 1))
    assert snippet_lookup.read_snippet([tmp_path], failed_leg, row) is None
    file.unlink()
    (tmp_path / "private").write_text("secret")
    file.symlink_to(tmp_path / "private")
    assert snippet_lookup.read_snippet([tmp_path], failed_leg, row) is None
    file.unlink()
    os.mkfifo(file)
    assert snippet_lookup.read_snippet([tmp_path], failed_leg, row) is None


def test_an_id_that_is_not_valid_on_a_command_line_is_reported_in_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    failed_leg, row = leg_and_failing_row()
    assert run_snippets.make_snippet_in_child_process({**row, "id": "p/\0@d"}, "cpu", failed_leg) is None
    assert (
        run_snippets.make_snippet_in_child_process(
            {**row, "id": "p/" + "s" * 200_000 + "@d"}, "cpu", failed_leg
        )
        is None
    )
    assert capsys.readouterr().err.count("no snippet: ") == 2


def test_no_snippets_are_written_for_a_leg_of_a_different_torch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    failed_leg, _ = leg_and_failing_row()
    assert not run_snippets.write_snippets(tmp_path, [{**failed_leg, "torch": "1.0"}], 1, "cpu")
    assert "it ran on torch 1.0" in capsys.readouterr().err
