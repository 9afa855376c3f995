"""Scripts beside results: which one belongs to a failure, and what is read from a folder of anybody."""

from __future__ import annotations

import copy
import os
from pathlib import Path
from typing import Any

import pytest

from conformance.commands import run_snippets
from conformance.report import snippet_files
from tests.support.sample_legs import leg


def failed() -> tuple[Any, Any]:
    made = leg("eager", "fail")
    row = made["results"][0]
    row["failures"] = [{"kind": "value", "message": "1 of 3 differ"}]
    return made, row


def put(folder: Path, made: Any, row: Any, text: str = "print(1)") -> Path:
    file = snippet_files.snippet_path(folder, made, row)
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    return file


def test_a_script_is_shown_beside_its_own_failure_alone(tmp_path: Path) -> None:
    made, row = failed()
    put(tmp_path, made, row)
    assert snippet_files.read_snippet([tmp_path / "none", tmp_path], made, row) == "print(1)"
    other = copy.deepcopy(row)
    other["failures"][0]["message"] = "2 of 3 differ"
    assert snippet_files.read_snippet([tmp_path], made, other) is None, "it fails in another way"
    assert snippet_files.read_snippet([tmp_path], {**made, "torch": "2.6.0"}, row) is None, "another build"
    assert snippet_files.read_snippet([tmp_path], {**made, "started": "2031"}, row) is None, "another run"


@pytest.mark.parametrize(
    "name", ["../../etc/passwd@d", "p/" + "s" * 5000 + "@d", "p/\ud800@d", "p/\0@d", "-p/s@d"]
)
def test_no_id_leads_out_of_the_folder_or_ends_the_report(tmp_path: Path, name: str) -> None:
    made, row = failed()
    row = {**row, "id": name}
    assert snippet_files.snippet_path(tmp_path, made, row).parent == tmp_path / snippet_files.FOLDER
    put(tmp_path, made, row)
    assert snippet_files.read_snippet([tmp_path], made, row) == "print(1)"


def test_links_pipes_and_large_files_are_not_read(tmp_path: Path) -> None:
    made, row = failed()
    file = put(tmp_path, made, row, "x" * (snippet_files.MOST + 1))
    assert snippet_files.read_snippet([tmp_path], made, row) is None
    file.unlink()
    (tmp_path / "private").write_text("secret")
    file.symlink_to(tmp_path / "private")
    assert snippet_files.read_snippet([tmp_path], made, row) is None
    file.unlink()
    os.mkfifo(file)
    assert snippet_files.read_snippet([tmp_path], made, row) is None


def test_what_no_command_line_takes_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    made, row = failed()
    assert run_snippets.make_snippet({**row, "id": "p/\0@d"}, "cpu", made) is None
    assert run_snippets.make_snippet({**row, "id": "p/" + "s" * 200_000 + "@d"}, "cpu", made) is None
    assert capsys.readouterr().err.count("no snippet: ") == 2


def test_legs_of_another_torch_have_no_scripts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made, _ = failed()
    assert not run_snippets.write_snippets(tmp_path, [{**made, "torch": "1.0"}], 1, "cpu")
    assert "it ran on torch 1.0" in capsys.readouterr().err
