"""What a user does wrong, and the sentence that comes of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from suite_process import bare_target

ADD = "value/add@float32"


def conformance(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "conformance", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)


def shell(folder: Path, line: str) -> subprocess.CompletedProcess[str]:
    command = ["bash", "-c", line.replace("conformance", f"{sys.executable} -m conformance")]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)


def said(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 2, (done.returncode, done.stdout[-500:], done.stderr[-2000:])
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1 and len(lines[0]) < 500, done.stderr[-2000:]
    return lines[0]


@pytest.mark.parametrize(
    ("result_id", "words"),
    [
        ("value/ad@float32", "no operator is called 'ad'; there is add"),
        ("valu/add@float32", "no property is called 'valu'; there is value"),
        ("value/*@float32", "no operator is called '*'"),
    ],
)
def test_repro_of_a_misspelt_id(tmp_path: Path, result_id: str, words: str) -> None:
    assert words in said(conformance(tmp_path, "repro", result_id, "--target", "cpu"))


def test_repro_of_a_sample_that_is_not_there(tmp_path: Path) -> None:
    done = conformance(tmp_path, "repro", ADD, "--target", "cpu", "--sample", "999")
    assert "--sample 999 does not exist" in said(done)


def test_repro_says_why_it_writes_no_snippet(tmp_path: Path) -> None:
    done = conformance(tmp_path, "repro", ADD, "--target", "cpu", "--snippet", "s.py")
    assert done.returncode == 0 and "no snippet is written: the verdict is pass" in done.stdout


def test_repro_refuses_a_place_for_the_snippet_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = conformance(tmp_path, "repro", ADD, "--target", "cpu", "--snippet", "file/s.py")
    assert "--snippet file cannot be written" in said(done)


@pytest.mark.parametrize(
    ("hook", "words"),
    [
        ("torch.cpu:nosuch", "leads nowhere"),
        ("nosuch:f", "leads nowhere"),
        ("torch.version:git_version", "str"),
    ],
)
def test_a_hook_that_is_no_function_is_the_target_files_fault(tmp_path: Path, hook: str, words: str) -> None:
    path = tmp_path / bare_target(tmp_path)
    path.write_text(path.read_text() + f'\n[hooks]\nsynchronize = "{hook}"\n')
    done = conformance(
        tmp_path, "run", "--target", path.name, "--level", "smoke", "-k", "value/add", "-n", "1"
    )
    assert words in said(done)


def test_output_that_nobody_takes_is_no_fault_of_the_suite(tmp_path: Path) -> None:
    assert shell(tmp_path, "conformance targets >&-").returncode == 0
    full = shell(tmp_path, "conformance targets > /dev/full")
    assert full.returncode == 2 and "cannot be written" in full.stderr
    closed = shell(tmp_path, "conformance targets | true; exit ${PIPESTATUS[0]}")
    assert closed.returncode in (0, 141) and not closed.stderr
