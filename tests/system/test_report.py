"""``conformance report`` of a folder with an empty journal is a usage error."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.support.cli_process import Run

Cli = Callable[..., Run]


def test_an_empty_journal_is_a_usage_error_with_its_name(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "journal.jsonl").write_text("")
    run = cli("report", str(tmp_path))
    assert run.code == 2
    assert "journal.jsonl has no run event; it is not the journal of a run" in run.err
