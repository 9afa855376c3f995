"""``conformance certify --verify`` imports neither torch nor the modules that a certificate bundle names."""

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
def _fixed_suite_digest() -> Iterator[None]:
    """Replace the suite digest by a constant in this process. The child processes that the tests start
    compute the real digest.
    """
    with sample_passing_leg.fixed_suite_digest():
        yield


@pytest.fixture(scope="module")
def certificate_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the path of a valid certificate bundle for level core."""
    folder = tmp_path_factory.mktemp("issued")
    out = sample_passing_leg.write_output_folder(folder / "out", sample_passing_leg.leg("core"))
    assert cli.main(["certify", str(out), "-o", str(folder / "core.zip")]) == 0
    return folder / "core.zip"


def test_verify_imports_neither_modules_of_the_bundle_nor_torch(
    certificate_bundle: Path, tmp_path: Path
) -> None:
    """PYTHONPATH contains modules with the names in the bundle, and a module torch. Each exits the process if
    it is imported.
    """
    for name in ("mydev", "mine", "torch"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported')\n")

    def change(certificate: Json, results: Json) -> None:
        results["legs"][0]["facts"]["extra"] = ["mine"]

    altered = sample_passing_leg.rewrite_bundle(certificate_bundle, tmp_path / "other.zip", change)
    # The verifying process computes the real suite digest, which differs from the digest in the bundle.
    for path, message in (
        (certificate_bundle, "a different copy of the suite"),
        (altered, "extra modules (mine)"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "conformance", "certify", "--verify", str(path)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert (done.returncode, done.stderr) == (3, "") and message in done.stdout
