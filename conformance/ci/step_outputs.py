"""Set the outputs, the summary and the path of a workflow step.

Outside GitHub Actions outputs are printed.
"""

from __future__ import annotations

import os
import re
import secrets

#: Matches a valid name of an artifact, or a part of it.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}")
#: The maximum size of a summary in bytes. GitHub's limit is 1 MiB.
_SUMMARY = 900_000


def set_outputs(**values: str) -> None:
    """Set outputs of this step. A random delimiter prevents a value from setting further outputs."""
    for name, value in values.items():
        key = name.replace("_", "-")
        mark = secrets.token_hex(16)
        _append_to_github_file("GITHUB_OUTPUT", f"{key}<<{mark}\n{value}\n{mark}\n", f"{key}={value}")


def add_summary(markdown: str) -> None:
    """Add Markdown to the summary of the job. The caller must escape untrusted parts."""
    cut = markdown.encode(errors="replace")[:_SUMMARY].decode(errors="ignore")
    _append_to_github_file(
        "GITHUB_STEP_SUMMARY", cut + ("\n" if cut == markdown else "\n\nCut here: too long.\n"), None
    )


def _append_to_github_file(variable: str, text: str, otherwise: str | None) -> None:
    file = os.environ.get(variable)
    if file:
        with open(file, "a", encoding="utf-8") as handle:
            handle.write(text)
    elif otherwise is not None:
        print(otherwise)
