"""The commands of the vendor guide work if they are executed in the order of the guide."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.vendor import harness


@dataclass
class CodeBlock:
    """Commands of the guide, the expected exit code of the last command, and lines that the output must
    contain.
    """

    commands: str
    code: int
    prints: list[str]


def code_blocks_of(text: str) -> list[CodeBlock]:
    """Return a block for each ``sh`` fence of a Markdown text. A ``text`` fence after the ``sh`` fence
    contains the expected output.
    """
    found_blocks: list[CodeBlock] = []
    for info, body in re.findall(r"^```([^\n`]+)\n(.*?)^```$", text, re.M | re.S):
        language, *options_text = info.split()
        if language == "sh":
            options = dict(option.split("=") for option in options_text)
            found_blocks.append(CodeBlock(body, int(options.pop("exit", "0")), []))
            assert not options, f"unknown words after sh: {options}"
        elif language == "text":
            found_blocks[-1].prints += body.splitlines()
        else:
            assert language == "console", f"a fence of language {language!r} is neither run nor compared"
    return found_blocks


def test_blocks_of_a_markdown_text() -> None:
    (first, two) = code_blocks_of("```sh exit=3\na\n```\ntext\n```sh\nb\n```\n```text\nx\ny\n```\n")
    assert first == CodeBlock("a\n", 3, [])
    assert two == CodeBlock("b\n", 0, ["x", "y"])


def test_a_command_with_different_output_fails(tmp_path: Path) -> None:
    """``run_blocks`` fails on a different exit code, and on a missing line of output."""
    run_blocks(tmp_path, [CodeBlock("echo one; echo two; exit 3\n", 3, ["one", "two"])])
    for wrong in (
        CodeBlock("echo one\n", 1, []),
        CodeBlock("echo one\n", 0, ["two"]),
        CodeBlock("false; echo\n", 0, []),
    ):
        try:
            run_blocks(tmp_path, [wrong])
        except AssertionError:
            continue
        raise AssertionError(f"run_blocks accepted the wrong block {wrong}")


def test_the_commands_of_the_guide(tmp_path: Path) -> None:
    text = harness.GUIDE.read_text()
    guide_blocks = code_blocks_of(text)
    assert [stage for stage in "1234" if f"TINY_STAGE={stage}" in text] == list("1234")
    run_blocks(tmp_path, guide_blocks)
    assert (tmp_path / "bringup.zip").is_file()


def run_blocks(folder: Path, guide_blocks: list[CodeBlock]) -> None:
    """Run the blocks in order, with the variables that earlier blocks export. Assert exit codes
    and output.
    """
    tools = folder / "tools"
    tools.mkdir(exist_ok=True)
    for name, command in (("conformance", "-m conformance"), ("python", "")):
        (tools / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {command} "$@"\n')
        (tools / name).chmod(0o755)
    environment = dict(harness.environment_with_device())
    environment["PATH"] = f"{tools}{os.pathsep}{environment['PATH']}"
    environment["CHECKOUT"] = str(harness.ROOT)
    exported: list[str] = []
    for block in guide_blocks:
        script = "\n".join([*exported, "set -e", block.commands])
        done = subprocess.run(
            ["sh", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, timeout=600
        )
        transcript = f"{block.commands}{done.stdout[-6000:]}{done.stderr[-3000:]}"
        assert done.returncode == block.code, f"ended with {done.returncode}:\n{transcript}"
        for line in block.prints:
            assert line in done.stdout, f"does not print {line!r}:\n{transcript}"
        exported += re.findall(r"^export .*$", block.commands, re.M)
