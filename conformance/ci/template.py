"""Render the workflow that a vendor copies into its repository. The workflow uses this project at a fixed
commit.
"""

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
# Placeholders are between << and >>, because GitHub uses {{ }}. The positions of a placeholder in the YAML
# file need different escaping. Therefore ``render_workflow`` accepts only plain words, and writes the list
# and the optional text as JSON.
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
    """Return the rendered workflow.

    Raise UsageError if a value contains characters that YAML could interpret.
    """
    pinned = _SUITE.fullmatch(suite)
    if pinned is None:
        raise UsageError(
            f"--suite {suite!r} is not OWNER/NAME@COMMIT with all 40 digits of the commit; do not use a "
            "branch or tag, which can be moved"
        )
    for option, value, pattern in (
        ("--target", target, _PATH),
        ("--python", python, _PATH),
        *(("--runner", label, _WORD) for label in runner),
    ):
        if not pattern.fullmatch(value):
            raise UsageError(
                f"{option} {value!r} may contain only letters, digits, dots and dashes; change it"
            )
    chosen = re.split(r"[,\s]+", modes.strip())
    levels.check_level(level)
    if not target.endswith(".toml"):
        target_file.load(target)  # raises an error that lists the known targets
    elif target.startswith(("/", "../")) or "/../" in target:
        raise UsageError(f"--target {target} is outside the repository; give a path relative to its root")
    if wrong := [mode for mode in chosen if mode not in MODES or chosen.count(mode) > 1]:
        raise UsageError(f"--modes {wrong[0]!r} is unknown or appears twice; known are {','.join(MODES)}")
    if package and not package.isidentifier():
        raise UsageError(
            f"--package {package!r} is not the name of a top-level package; give an importable name"
        )
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
