"""Make the Python environment of a cell: install torch, the suite and the backend, and check torch
afterwards.
"""

from __future__ import annotations

import dataclasses
import re
import shutil
import subprocess
import sys
import urllib.parse
from collections.abc import Sequence
from pathlib import Path

from conformance.builds import build_spec, describe, fork_like, torch_guard
from conformance.errors import UsageError
from conformance.matrix import plan as plans
from conformance.matrix.plan import Cell

_DIGEST = re.compile(r"[0-9a-f]{64}")
#: Matches a requirement of a package index, without path, option, address or marker.
_REQUIREMENT = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9,._-]+\])?(==[A-Za-z0-9][A-Za-z0-9.!+_-]*)?"
)


@dataclasses.dataclass(frozen=True)
class GuardedEnvironment:
    """An environment, with the record and the constraints file of its torch guard."""

    python: str
    record: Path
    constraints: Path


def find_interpreter(name: str) -> str:
    """Return the path of an interpreter. Raise UsageError if it does not exist."""
    path = shutil.which(name)
    if path is None:
        raise UsageError(f"interpreter {name!r} does not exist; give the path of a Python")
    return path


def make_environment(cell: Cell, folder: Path, index: str | None, python: str = sys.executable) -> str:
    """Make a virtual environment with the torch of a cell, and return its interpreter.

    ``index`` is one of PyTorch's own indexes (``cpu``, ``cu126``), for releases and nightlies. Raise
    UsageError if torch is not available, or the folder is not empty.
    """
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty; choose a new folder for the environment")
    request = build_spec.parse_build_spec(cell.spec, index if "://" not in cell.spec else None)
    _run_command([python, "-m", "venv", str(folder)], "a virtual environment")
    interpreter_path = str(folder / "bin" / "python")
    wheel = build_spec.download_wheel(request, folder / "wheels", interpreter_path)
    if cell.kind == "fork-like":
        wheel = fork_like.make_fork_like_wheel(wheel, folder / "fork-like", None)
    pip_install(interpreter_path, str(wheel))
    return interpreter_path


def record_torch(python: str, folder: Path, wheel: Path | None = None) -> GuardedEnvironment:
    """Record the torch of an environment, and write its constraints file, before other installations."""
    folder.mkdir(parents=True, exist_ok=True)
    installed = GuardedEnvironment(python, folder / "torch.json", folder / "constraints.txt")
    torch_guard.write_record(describe.describe_environment(python), installed.record)
    line = torch_guard.pip_constraint_line(describe.installed_version(python), wheel)
    installed.constraints.write_text(line + "\n")
    return installed


def install_with_constraints(installed: GuardedEnvironment, requirements: Sequence[str]) -> None:
    """Install requirements with the constraints that protect torch."""
    pip_install(installed.python, "--constraint", str(installed.constraints), *requirements)


def install_suite(installed: GuardedEnvironment, wheel: Path) -> None:
    """Install the suite and its requirements. Replace an installed suite even if it has the same version,
    because the installed suite may be from a different commit.
    """
    install_with_constraints(installed, [str(wheel)])
    pip_install(installed.python, "--no-deps", "--force-reinstall", str(wheel))


def check_torch(installed: GuardedEnvironment) -> str | None:
    """Return an error sentence if torch differs from the recorded build, else None."""
    before = torch_guard.read_record(installed.record)
    located = describe.describe_interpreter(installed.python)
    if located.site is None:
        return f"torch was removed: it was {before.name()}; start over"
    return torch_guard.torch_change_problem(before, Path(located.site), str(installed.constraints))


def backend_requirements(specification: str, folder: Path | None) -> list[str]:
    """Return the arguments of pip that install a backend.

    A backend is given by a folder of wheels, or by requirements, wheels and https addresses with digests,
    separated by spaces. Raise UsageError for any other text.
    """
    if folder is not None:
        if specification:
            raise UsageError("a backend is either a folder of wheels or a requirement; give only one")
        wheels = sorted(folder.glob("**/*.whl"))
        if not wheels:
            raise UsageError(f"{folder} has no wheel; check that the job of the backend uploads a wheel")
        return [str(path) for path in wheels]
    return [_checked_requirement(requirement) for requirement in specification.split()]


def _checked_requirement(text: str) -> str:
    if text.endswith(".whl") and "://" not in text and Path(text).is_file():
        return text
    if "://" in text:
        parts = urllib.parse.urlsplit(text)
        digest = dict(urllib.parse.parse_qsl(parts.fragment)).get("sha256", "")
        if parts.scheme == "https" and parts.hostname and not parts.username and _DIGEST.fullmatch(digest):
            return text
        raise UsageError(
            f"backend {text!r} is not an https address with #sha256= and 64 hexadecimal digits; give one"
        )
    if _REQUIREMENT.fullmatch(text):
        return text
    raise UsageError(
        f"backend {text!r} is neither a requirement (name==version), nor a wheel that exists, nor "
        "https://….whl#sha256=…"
    )


def pip_install(python: str, *arguments: str) -> None:
    """Run ``pip install``. Raise UsageError with pip's error if it fails."""
    _run_command([python, "-m", "pip", "install", "--quiet", *arguments], "the requirement of pip")


def _run_command(command: Sequence[str], label: str) -> None:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        sys.stderr.write(done.stdout[-8000:])
        lines = [line for line in done.stdout.splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("ERROR")] or lines or ["no reason given"]
        raise UsageError(f"{label} cannot be installed: {errors[-1][:400]}")


def find_cell_in_plan(plan: Path, name: str) -> Cell:
    """Return a cell of a plan by its id. Raise UsageError if the plan does not contain it."""
    for cell in plans.read_plan(plan):
        if cell.id == name:
            return cell
    raise UsageError(f"{plan} has no cell {name!r}; use an id of its key 'include'")
