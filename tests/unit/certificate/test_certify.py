"""Issued certificates contain no paths, host names or unlisted variables. Equal results give equal bytes."""

from __future__ import annotations

import json
import platform
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conformance import cli
from conformance.certificate import certify
from conformance.model.vocabulary import LEVELS
from conformance.plan.levels.mutation_score import LevelScore, MutationScores
from tests.support import sample_passing_leg


def test_a_bundle_contains_no_host_name_path_or_unlisted_variable(tmp_path: Path) -> None:
    secrets = ["/home/jane", "myhost", platform.node(), "SECRET", "hunter2", "6.1.0", "/opt/lib"]
    leg = sample_passing_leg.leg()
    leg["facts"]["environment"] |= {"SECRET_TOKEN": "hunter2", "PYTHONHASHSEED": "/opt/lib"}
    leg["facts"]["cwd"] = "/home/jane/run"
    leg["facts"]["torch"]["path"] = "/opt/lib/torch"
    leg["problems"] = [f"2 damaged lines in /home/jane/journal.jsonl on {platform.node()}"]
    leg["results"][0]["notes"] = [f"read /home/jane/x.py on {platform.node()}"]
    out, bundle = sample_passing_leg.write_output_folder(tmp_path / "out", leg), tmp_path / "b.zip"
    assert cli.main(["certify", str(out), "-o", str(bundle)]) == 0
    with zipfile.ZipFile(bundle) as file:
        bundle_text = "".join(file.read(name).decode() for name in file.namelist())
    searched_text = json.dumps(json.loads(bundle_text[: bundle_text.index("\n")])) + bundle_text
    assert [secret for secret in secrets if _is_whole_word_in(secret, searched_text)] == []
    assert "OMP_NUM_THREADS" in bundle_text and "<path>" in bundle_text and "<host>" in bundle_text


def _is_whole_word_in(secret: str, text: str) -> bool:
    """Return whether the secret occurs in the text as a whole word. A short host name such as ``vm`` may be a
    part of other words.
    """
    return re.search(rf"(?<!\w){re.escape(secret)}(?!\w)", text) is not None


def test_the_same_results_give_the_same_bytes(tmp_path: Path) -> None:
    out = sample_passing_leg.write_output_folder(tmp_path / "out", sample_passing_leg.leg())
    for name in ("one.zip", "two.zip"):
        assert cli.main(["certify", str(out), "-o", str(tmp_path / name)]) == 0
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()


def test_scrubbing_a_scrubbed_leg_changes_nothing() -> None:
    once = certify.scrubbed_document(sample_passing_leg.leg())
    check: Callable[[Any], Any] = certify.scrubbed_document
    assert check(once["legs"][0]) == once


def test_a_certificate_states_the_mutation_score(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = sample_passing_leg.write_output_folder(tmp_path / "out", sample_passing_leg.leg())
    for mode, expected_text in (
        ("eager", "mutation score of the level: 45.0 % of 100 mutants, 88.0 % of the 50"),
        ("graph", "mutation score of the suite: not measured in mode"),
    ):
        figures = MutationScores(
            "mine", mode, "2.13", "2026-01-02", dict.fromkeys(LEVELS, LevelScore(45, 100, 44, 50))
        )
        monkeypatch.setattr(MutationScores, "read", staticmethod(lambda figures=figures: figures))
        assert cli.main(["certify", str(out), "-o", str(tmp_path / f"{mode}.zip")]) == 0
        assert expected_text in capsys.readouterr().out
