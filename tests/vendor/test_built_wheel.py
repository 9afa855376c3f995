"""The built wheel of the suite is complete, so its commands work without the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import ROOT

Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def built_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel of the suite, built from a copy of the checkout's files."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    listed = subprocess.run(
        ["git", "ls-files", "conformance", "pyproject.toml", "README.md", "LICENSE"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "-w", str(folder), str(source)], check=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def run_in_installed_environment(built_wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Command:
    """Install the wheel. Return a function that runs Python with the installed wheel in an empty folder."""
    site = tmp_path_factory.mktemp("site")
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-deps",
        "--target",
        str(site),
        str(built_wheel),
    ]
    subprocess.run(command, check=True)
    empty = tmp_path_factory.mktemp("empty")
    environment = {**os.environ, "PYTHONPATH": str(site), "PYTHONSAFEPATH": "1"}

    def run_installed_python(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *arguments], cwd=empty, env=environment, capture_output=True, text=True
        )

    where = run_installed_python("-c", "import conformance; print(conformance.__file__)")
    assert where.stdout.startswith(str(site)), where.stdout + where.stderr
    return run_installed_python


def test_the_wheel_has_every_tracked_file_of_the_suite_and_no_tool(built_wheel: Path) -> None:
    tracked = subprocess.run(
        ["git", "ls-files", "conformance"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.splitlines()
    packed = {name for name in zipfile.ZipFile(built_wheel).namelist() if ".dist-info/" not in name}
    assert packed == {name for name in tracked if (ROOT / name).is_file()}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("run", "--target", "cpu", "--level", "smoke", "-o", "out"), "out/results.json"),
        (("explain", "value/add@float32"), "source: conformance/properties/operators/value.py"),
        (("doctor", "--target", "cpu"), "cpu"),
    ],
    ids=["run", "explain", "doctor"],
)
def test_a_command_of_the_installed_wheel(
    run_in_installed_environment: Command, arguments: tuple[str, ...], text: str
) -> None:
    finished = run_in_installed_environment("-m", "conformance", *arguments)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert text in finished.stdout + finished.stderr
