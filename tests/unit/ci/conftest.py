"""Fixtures: the fake ``gh`` program, and the output file of a workflow step."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.support import fake_gh


@pytest.fixture
def fake_github_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install the fake ``gh`` program, and act as workflow run 7 of repository owner/name. Return the folder
    with the program's state.
    """
    programs = fake_gh.install_fake_gh(tmp_path / "programs")
    state = tmp_path / "github"
    state.mkdir()
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_GH", str(state))
    monkeypatch.setenv("GH_TOKEN", "token")
    monkeypatch.setenv("GITHUB_REPOSITORY", "owner/name")
    monkeypatch.setenv("GITHUB_RUN_ID", "7")
    monkeypatch.setenv("GITHUB_SERVER_URL", "https://github.com")
    return state


@pytest.fixture
def step_outputs_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file that receives the outputs of a workflow step."""
    file = tmp_path / "outputs"
    monkeypatch.setenv("GITHUB_OUTPUT", str(file))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    return file


def issues(state: Path) -> list[dict]:
    file = state / "issues.json"
    return json.loads(file.read_text()) if file.exists() else []
