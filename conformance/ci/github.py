"""Call GitHub's API through the program ``gh``, which handles addresses, tokens and redirects."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

from conformance.errors import UsageError

REPOSITORY = re.compile(r"[A-Za-z0-9_.-]{1,100}/[A-Za-z0-9_.-]{1,100}")


def gh(*arguments: str, body: Any = None) -> str:
    """Call ``gh`` and return its output. Raise UsageError if ``gh`` is not installed, or the call fails."""
    program = _path_of_gh()
    command = [*arguments, "--input", "-"] if body is not None else list(arguments)
    done = subprocess.run(
        [program, *command],
        input=None if body is None else json.dumps(body),
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise UsageError(f"gh {' '.join(arguments[:2])} failed: {done.stderr.strip()[-300:]}")
    return done.stdout


def download(path: str, file: Path) -> None:
    """Write the response of GitHub's API to a file."""
    program = _path_of_gh()
    with file.open("wb") as target:
        done = subprocess.run([program, "api", path], stdout=target, stderr=subprocess.PIPE)
    if done.returncode:
        raise UsageError(f"gh api failed: {done.stderr.decode(errors='replace').strip()[-300:]}")


def _path_of_gh() -> str:
    program = shutil.which("gh")
    if program is None:
        raise UsageError("the program gh is not installed; install it (GitHub's own runners have it)")
    return program


def get_json(path: str, **fields: str) -> Any:
    """Return one page of GitHub's API as JSON."""
    options = [argument for name, value in fields.items() for argument in ("-f", f"{name}={value}")]
    return json.loads(gh("api", "--method", "GET", path, *options))


def send_json(method: str, path: str, body: Any) -> Any:
    """Send JSON to GitHub's API, and return the response."""
    return json.loads(gh("api", "--method", method, path, body=body) or "null")
