"""The environment of a cell: torch as it was asked for, the suite, the backend, and torch still the same."""

from __future__ import annotations

import dataclasses
import re
import shutil
import subprocess
import sys
import urllib.parse
from collections.abc import Sequence
from pathlib import Path

from conformance.builds import describe, fork_like, guard, resolve
from conformance.errors import UsageError
from conformance.matrix import plan as plans
from conformance.matrix.plan import Cell

_DIGEST = re.compile(r"[0-9a-f]{64}")
#: A requirement of a package index, as plain as they come: no path, option, address or marker.
_REQUIREMENT = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9,._-]+\])?(==[A-Za-z0-9][A-Za-z0-9.!+_-]*)?"
)


@dataclasses.dataclass(frozen=True)
class Installed:
    """An environment, with the files that guard its torch."""

    python: str
    record: Path
    constraints: Path


def interpreter(name: str) -> str:
    """An existing interpreter by path or name. UsageError where there is none."""
    found = shutil.which(name)
    if found is None:
        raise UsageError(f"there is no interpreter {name!r}; give the path of a Python")
    return found


def environment(cell: Cell, folder: Path, index: str | None, python: str = sys.executable) -> str:
    """A fresh virtual environment with the torch of a cell; its interpreter.

    ``index``: one of PyTorch's own (``cpu``, ``cu126``), for releases and nightlies. UsageError where torch
    cannot be had, or the folder is not empty.
    """
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty; name a folder that the environment can have for itself")
    request = resolve.parse(cell.spec, index if "://" not in cell.spec else None)
    _run([python, "-m", "venv", str(folder)], "a virtual environment")
    own = str(folder / "bin" / "python")
    wheel = resolve.download(request, folder / "wheels", own)
    if cell.kind == "fork-like":
        wheel = fork_like.repack(wheel, folder / "fork-like", None)
    pip(own, str(wheel))
    return own


def protected(python: str, folder: Path, wheel: Path | None = None) -> Installed:
    """Write down the torch of an environment, before anything else is installed there."""
    folder.mkdir(parents=True, exist_ok=True)
    made = Installed(python, folder / "torch.json", folder / "constraints.txt")
    guard.record(describe.of_environment(python), made.record)
    line = guard.constraint(describe.installed_version(python), wheel)
    made.constraints.write_text(line + "\n")
    return made


def add(made: Installed, requirements: Sequence[str]) -> None:
    """Install under the constraints."""
    pip(made.python, "--constraint", str(made.constraints), *requirements)


def suite(made: Installed, wheel: Path) -> None:
    """Install the suite and what it needs; also where another commit of the same version is there already."""
    add(made, [str(wheel)])
    pip(made.python, "--no-deps", "--force-reinstall", str(wheel))


def check(made: Installed) -> str | None:
    """One sentence where torch is not the recorded one any more."""
    before = guard.recorded(made.record)
    found = describe.locate(made.python)
    if found.site is None:
        return f"torch was removed: it was {before.name()}; start over"
    return guard.verdict(before, Path(found.site), str(made.constraints))


def backend(words: str, folder: Path | None) -> list[str]:
    """What pip is told for a backend: of a folder of wheels all of them, or a requirement, a wheel, or an
    https address with its digest. UsageError for anything else.
    """
    if folder is not None:
        if words:
            raise UsageError("a backend is either a folder of wheels or a requirement; leave one out")
        wheels = sorted(folder.glob("**/*.whl"))
        if not wheels:
            raise UsageError(f"there is no wheel in {folder}; did the job that makes the backend upload one?")
        return [str(path) for path in wheels]
    return [_requirement(word) for word in words.split()]


def _requirement(word: str) -> str:
    if word.endswith(".whl") and "://" not in word and Path(word).is_file():
        return word
    if "://" in word:
        parts = urllib.parse.urlsplit(word)
        digest = dict(urllib.parse.parse_qsl(parts.fragment)).get("sha256", "")
        if parts.scheme == "https" and parts.hostname and not parts.username and _DIGEST.fullmatch(digest):
            return word
        raise UsageError(
            f"backend {word!r} is no https address with #sha256= and 64 hexadecimal digits; give one"
        )
    if _REQUIREMENT.fullmatch(word):
        return word
    raise UsageError(
        f"backend {word!r} is none of a requirement (name==version), a wheel that exists, or "
        "https://….whl#sha256=…"
    )


def pip(python: str, *arguments: str) -> None:
    """``pip install``. UsageError with pip's last line where it fails."""
    _run([python, "-m", "pip", "install", "--quiet", *arguments], "what pip was asked for")


def _run(command: Sequence[str], what: str) -> None:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        sys.stderr.write(done.stdout[-8000:])
        lines = [line for line in done.stdout.splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("ERROR")] or lines or ["no reason given"]
        raise UsageError(f"{what} cannot be installed: {errors[-1][:400]}")


def cell_of(plan: Path, name: str) -> Cell:
    """A cell of a plan by its id. UsageError where there is none."""
    found = [one for one in plans.read(plan) if one.id == name]
    if not found:
        raise UsageError(f"{plan} has no cell {name!r}; known are those of its 'include'")
    return found[0]
