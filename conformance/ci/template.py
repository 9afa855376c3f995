"""The workflow that a vendor copies into its own repository, with this project pinned by commit."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from conformance.errors import UsageError
from conformance.model.vocabulary import MODES
from conformance.plan import levels
from conformance.target import file as target_file

FILE = Path(__file__).parent / "templates" / "hardware.yml"
_SUITE = re.compile(r"([A-Za-z0-9_.-]{1,100}/[A-Za-z0-9_.-]{1,100})@([0-9a-f]{40})")
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_PATH = re.compile(r"[A-Za-z0-9_./-]{1,200}")


def render(
    *, suite: str, target: str, runner: Sequence[str], python: str, modes: str, level: str, package: str = ""
) -> str:
    """The template filled in. UsageError where a value is not of its plain form: no other gets into YAML."""
    found = _SUITE.fullmatch(suite)
    if found is None:
        raise UsageError(
            f"--suite {suite!r} is not OWNER/NAME@COMMIT with all 40 digits of the commit; a branch or tag "
            "can be moved"
        )
    for what, value, pattern in (
        ("--target", target, _PATH),
        ("--python", python, _PATH),
        *(("--runner", label, _WORD) for label in runner),
    ):
        if not pattern.fullmatch(value):
            raise UsageError(f"{what} {value!r} is not of letters, digits, dots, dashes; give another one")
    chosen = re.split(r"[,\s]+", modes.strip())
    levels.check(level)
    if not target.endswith(".toml"):
        target_file.load(target)  # a known one, or an error that names them
    elif target.startswith(("/", "../")) or "/../" in target:
        raise UsageError(f"--target {target} is not within the repository; give the path from its top")
    if wrong := [mode for mode in chosen if mode not in MODES or chosen.count(mode) > 1]:
        raise UsageError(f"--modes {wrong[0]!r} is unknown or there twice; known are {','.join(MODES)}")
    if package and not package.isidentifier():
        raise UsageError(f"--package {package!r} is no name of a top-level package; give one")
    values = {
        "@SUITE@": found[1],
        "@COMMIT@": found[2],
        "@TARGET@": target,
        "@RUNNER@": json.dumps(list(runner)),
        "@PYTHON@": python,
        "@MODES@": ",".join(chosen),
        "@LEVEL@": level,
        "@PACKAGE@": json.dumps(package),
    }
    text = FILE.read_text()
    for mark, value in values.items():
        text = text.replace(mark, value)
    return text
