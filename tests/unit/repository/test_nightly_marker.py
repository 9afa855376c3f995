"""The marker ``nightly`` skips a test outside the nightly run and prints the reason. The tests of the
suite and the tests of the reference device use the marker.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT, python_path

TESTS = """
import pytest
@pytest.mark.nightly("it takes an hour")
def test_slow(): pass
def test_fast(): pass
"""


def output_of_pytest(folder: Path, text: str, nightly: str) -> str:
    (folder / "test_it.py").write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-p", "tests.support.nightly", "-p", "no:cacheprovider", "-rs"]
    variables = {**os.environ, "PYTHONPATH": python_path(), "CONFORMANCE_NIGHTLY": nightly}
    done = subprocess.run([*command, "-q", str(folder)], env=variables, capture_output=True, text=True)
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    ("nightly", "expected_text"),
    [("", "1 passed, 1 skipped"), ("0", "1 passed, 1 skipped"), ("1", "2 passed")],
)
def test_a_marked_test_runs_only_in_the_nightly_run(tmp_path: Path, nightly: str, expected_text: str) -> None:
    output = output_of_pytest(tmp_path, TESTS, nightly)
    assert expected_text in output, output
    assert ("nightly: it takes an hour" in output) == (nightly != "1")


SAMPLED = """
import pytest
@pytest.mark.nightly("it takes an hour", every=2)
@pytest.mark.parametrize("row", range(5))
def test_rows(row): pass
"""


@pytest.mark.parametrize(("nightly", "expected_text"), [("", "3 passed, 2 skipped"), ("1", "5 passed")])
def test_a_part_of_the_parameter_sets_runs_outside_the_nightly_run(
    tmp_path: Path, nightly: str, expected_text: str
) -> None:
    output = output_of_pytest(tmp_path, SAMPLED, nightly)
    assert expected_text in output, output


@pytest.mark.parametrize("option", ["every=1", "every='2'", "each=2"])
def test_a_wrong_option_is_an_error(tmp_path: Path, option: str) -> None:
    output = output_of_pytest(tmp_path, SAMPLED.replace("every=2", option), "")
    assert "its only option is every=N, with an integer N above 1" in output


def test_a_marker_without_a_reason_is_an_error(tmp_path: Path) -> None:
    output = output_of_pytest(tmp_path, TESTS.replace('("it takes an hour")', ""), "1")
    assert "the marker nightly needs one argument, the reason" in output


def test_both_folders_use_the_marker_and_the_nightly_workflow_sets_the_variable() -> None:
    for folder in ("tests", "reference_backend/tests"):
        assert (
            "pytest_collection_modifyitems, pytest_configure" in (ROOT / folder / "conftest.py").read_text()
        )
    workflow = (ROOT / ".github" / "workflows" / "nightly.yml").read_text()
    job = re.search(r"\n  tests:\n.*?\n\n", workflow, re.S)
    assert job is not None
    assert 'CONFORMANCE_NIGHTLY: "1"' in job.group() and "session: [tests, vendor]" in job.group()
