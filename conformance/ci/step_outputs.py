"""Outputs, summary and path of a workflow's step. Outside GitHub Actions the outputs are printed."""

from __future__ import annotations

import os
import re
import secrets
from pathlib import Path

#: The names of artifacts, and their parts.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}")
#: GitHub's own limit of a step's summary is 1 MiB.
_SUMMARY = 900_000


def set_outputs(**values: str) -> None:
    """Set outputs of this step. No value can set another output, whatever it holds."""
    for name, value in values.items():
        key = name.replace("_", "-")
        mark = secrets.token_hex(16)
        _append("GITHUB_OUTPUT", f"{key}<<{mark}\n{value}\n{mark}\n", f"{key}={value}")


def add_summary(markdown: str) -> None:
    """Add text to the summary of the job; the caller has escaped untrusted parts."""
    cut = markdown.encode(errors="replace")[:_SUMMARY].decode(errors="ignore")
    _append("GITHUB_STEP_SUMMARY", cut + ("\n" if cut == markdown else "\n\nCut here: too long.\n"), None)


def add_to_path(folder: Path) -> None:
    """Put the programs of a folder before all others, in the steps that follow."""
    _append("GITHUB_PATH", f"{folder}\n", None)


def _append(variable: str, text: str, otherwise: str | None) -> None:
    file = os.environ.get(variable)
    if file:
        with open(file, "a", encoding="utf-8") as handle:
            handle.write(text)
    elif otherwise is not None:
        print(otherwise)
