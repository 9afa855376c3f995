"""Verifying a bundle imports nothing of it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conformance import cli
from tests.support import ROOT, sample_passing_leg

Json = dict[str, Any]


@pytest.fixture(scope="module", autouse=True)
def _settled() -> Iterator[None]:
    """See `sample_passing_leg.settled`: processes of these tests have the real digest, which is another one."""
    with sample_passing_leg.settled():
        yield


@pytest.fixture(scope="module")
def issued(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sound bundle of level core."""
    folder = tmp_path_factory.mktemp("issued")
    out = sample_passing_leg.folder(folder / "out", sample_passing_leg.leg("core"))
    assert cli.main(["certify", str(out), "-o", str(folder / "core.zip")]) == 0
    return folder / "core.zip"


def test_nothing_of_a_bundle_is_imported_and_no_torch_is_needed(issued: Path, tmp_path: Path) -> None:
    """Modules that a bundle names are importable, and raise if they are imported."""
    for name in ("mydev", "mine", "torch"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported')\n")

    def change(certificate: Json, results: Json) -> None:
        results["legs"][0]["facts"]["extra"] = ["mine"]

    other = sample_passing_leg.rewritten(issued, tmp_path / "other.zip", change)
    # The suite of that process has its real digest, which is another than that of the made-up results.
    for path, words in ((issued, "another copy of the suite"), (other, "extra modules (mine)")):
        done = subprocess.run(
            [sys.executable, "-m", "conformance", "certify", "--verify", str(path)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert (done.returncode, done.stderr) == (3, "") and words in done.stdout
