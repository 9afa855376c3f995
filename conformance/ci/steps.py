"""What a step of a workflow hands back. Outside GitHub Actions the same is printed."""

from __future__ import annotations

import os
import re
import secrets
from pathlib import Path

#: What a name of an artifact, and a part of one, may hold.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}")
#: GitHub's own limit of a step's summary is 1 MiB.
_SUMMARY = 900_000


def output(**values: str) -> None:
    """Outputs of this step. Whatever they hold, none can write another output."""
    for name, value in values.items():
        key = name.replace("_", "-")
        mark = secrets.token_hex(16)
        _append("GITHUB_OUTPUT", f"{key}<<{mark}\n{value}\n{mark}\n", f"{key}={value}")


def summary(markdown: str) -> None:
    """Text for the summary of the job; whoever calls has escaped what others wrote."""
    cut = markdown.encode(errors="replace")[:_SUMMARY].decode(errors="ignore")
    _append("GITHUB_STEP_SUMMARY", cut + ("\n" if cut == markdown else "\n\nCut here: too long.\n"), None)


def on_path(folder: Path) -> None:
    """Put the programs of a folder before all others, in the steps that follow."""
    _append("GITHUB_PATH", f"{folder}\n", None)


def _append(variable: str, text: str, otherwise: str | None) -> None:
    file = os.environ.get(variable)
    if file:
        with open(file, "a", encoding="utf-8") as handle:
            handle.write(text)
    elif otherwise is not None:
        print(otherwise)
