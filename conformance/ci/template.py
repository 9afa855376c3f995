"""The workflow that a vendor copies into its own repository, with this project pinned by commit."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import jinja2

from conformance.errors import UsageError
from conformance.model.vocabulary import MODES
from conformance.plan import levels
from conformance.target import file as target_file

FILE = Path(__file__).parent / "templates" / "hardware.yml"
# Values are between << and >>, since GitHub uses {{ }}. No one escaping fits every place of a value in YAML:
# 'render' lets only plain words through, and the list and the text that may be empty go in as JSON.
_TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(FILE.parent),
    variable_start_string="<<",
    variable_end_string=">>",
    undefined=jinja2.StrictUndefined,
    keep_trailing_newline=True,
)
_SUITE = re.compile(r"([A-Za-z0-9_.-]{1,100}/[A-Za-z0-9_.-]{1,100})@([0-9a-f]{40})")
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_PATH = re.compile(r"[A-Za-z0-9_./-]{1,200}")


def render_workflow(
    *, suite: str, target: str, runner: Sequence[str], python: str, modes: str, level: str, package: str = ""
) -> str:
    """Fill in the template. UsageError if a value is not of its plain form: no other gets into YAML."""
    pinned = _SUITE.fullmatch(suite)
    if pinned is None:
        raise UsageError(
            f"--suite {suite!r} is not OWNER/NAME@COMMIT with all 40 digits of the commit; a branch or tag "
            "can be moved"
        )
    for option, value, pattern in (
        ("--target", target, _PATH),
        ("--python", python, _PATH),
        *(("--runner", label, _WORD) for label in runner),
    ):
        if not pattern.fullmatch(value):
            raise UsageError(f"{option} {value!r} is not of letters, digits, dots, dashes; give another one")
    chosen = re.split(r"[,\s]+", modes.strip())
    levels.check_level(level)
    if not target.endswith(".toml"):
        target_file.load(target)  # a known one, or an error that names them
    elif target.startswith(("/", "../")) or "/../" in target:
        raise UsageError(f"--target {target} is not within the repository; give the path from its top")
    if wrong := [mode for mode in chosen if mode not in MODES or chosen.count(mode) > 1]:
        raise UsageError(f"--modes {wrong[0]!r} is unknown or appears twice; known are {','.join(MODES)}")
    if package and not package.isidentifier():
        raise UsageError(f"--package {package!r} is not the name of a top-level package; give one")
    return _TEMPLATES.get_template(FILE.name).render(
        suite=pinned[1],
        commit=pinned[2],
        target=target,
        runner=list(runner),
        python=python,
        modes=",".join(chosen),
        level=level,
        package=package,
    )
