"""Puts the command ``conformance`` on the path of a job: from this commit, with locked requirements, in an
environment of its own. Standard library only, Python 3.10 or newer.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
REQUIREMENTS = ROOT / ".github" / "requirements" / "suite.txt"


def pip(python: Path, *arguments: str) -> None:
    # Isolated from the job's PYTHONPATH, which is not ours.
    command = [str(python), "-I", "-m", "pip", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        sys.exit(f"pip {arguments[0]} failed:\n{done.stdout}")


def main() -> None:
    # It runs with any python3 that a machine has.
    if sys.version_info < (3, 10):  # noqa: UP036
        sys.exit(f"python3 is {sys.version.split()[0]}; the suite needs 3.10 or newer: put one on the path")
    home = Path(os.environ.get("RUNNER_TEMP") or tempfile.gettempdir()) / "conformance-suite"
    shutil.rmtree(home, ignore_errors=True)  # of an earlier job on a runner that stays
    try:
        venv.create(home / "tools", with_pip=True)
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"python3 cannot make an environment ({error}); on Debian: apt-get install python3-venv")
    python = home / "tools" / "bin" / "python"
    pip(python, "install", "--quiet", "--require-hashes", "--only-binary=:all:", "-r", str(REQUIREMENTS))
    # Building writes beside the source, which several jobs of a runner may share.
    source = home / "source"
    source.mkdir()
    shutil.copytree(
        ROOT / "conformance", source / "conformance", ignore=shutil.ignore_patterns("__pycache__")
    )
    for name in ("pyproject.toml", "LICENSE"):
        shutil.copyfile(ROOT / name, source / name)
    wheels = home / "wheels"
    pip(python, "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", str(wheels), str(source))
    (wheel,) = wheels.glob("*.whl")
    pip(python, "install", "--quiet", "--no-deps", str(wheel))
    programs = home / "bin"  # of its own: the environment's python must not come before the job's
    programs.mkdir()
    program = programs / "conformance"
    program.write_text(f'#!/bin/sh\nexec "{python}" -I -m conformance "$@"\n')
    program.chmod(0o755)
    append("GITHUB_PATH", f"{programs}\n")
    mark = secrets.token_hex(16)
    append("GITHUB_OUTPUT", f"suite<<{mark}\n{wheel}\n{mark}\n")
    print(f"conformance of {ROOT.name} in {programs}")


def append(variable: str, text: str) -> None:
    if os.environ.get(variable):
        with open(os.environ[variable], "a", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    main()
