"""Put the command ``conformance`` of this commit on the PATH of a job.

The command has its own environment with locked requirements. This script needs only the standard library of
Python 3.10 or newer.
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


def run_pip(python: Path, *arguments: str) -> None:
    # The option -I isolates pip from the job's PYTHONPATH.
    command = [str(python), "-I", "-m", "pip", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        sys.exit(f"pip {arguments[0]} failed:\n{done.stdout}")


def main() -> None:
    # The script runs with the python3 of the machine, which may be older than the linter assumes.
    if sys.version_info < (3, 10):  # noqa: UP036
        sys.exit(f"python3 is {sys.version.split()[0]}; the suite needs 3.10 or newer. Put one on the PATH.")
    home = Path(os.environ.get("RUNNER_TEMP") or tempfile.gettempdir()) / "conformance-suite"
    shutil.rmtree(home, ignore_errors=True)  # remains of an earlier job on a persistent runner
    try:
        venv.create(home / "tools", with_pip=True)
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"python3 cannot create an environment ({error}). On Debian: apt-get install python3-venv")
    python = home / "tools" / "bin" / "python"
    run_pip(python, "install", "--quiet", "--require-hashes", "--only-binary=:all:", "-r", str(REQUIREMENTS))
    # A build writes files next to its source. Several jobs of a runner may share the action's source, so the
    # wheel is built from a copy.
    source = home / "source"
    source.mkdir()
    shutil.copytree(
        ROOT / "conformance", source / "conformance", ignore=shutil.ignore_patterns("__pycache__")
    )
    for name in ("pyproject.toml", "LICENSE"):
        shutil.copyfile(ROOT / name, source / name)
    wheels = home / "wheels"
    run_pip(python, "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", str(wheels), str(source))
    (wheel,) = wheels.glob("*.whl")
    run_pip(python, "install", "--quiet", "--no-deps", str(wheel))
    programs = (
        home / "bin"
    )  # a separate folder, so that the environment's python does not precede the job's python on the PATH
    programs.mkdir()
    program = programs / "conformance"
    program.write_text(f'#!/bin/sh\nexec "{python}" -I -m conformance "$@"\n')
    program.chmod(0o755)
    append_to_file_of("GITHUB_PATH", f"{programs}\n")
    mark = secrets.token_hex(16)
    append_to_file_of("GITHUB_OUTPUT", f"suite<<{mark}\n{wheel}\n{mark}\n")
    print(f"conformance of {ROOT.name} in {programs}")


def append_to_file_of(variable: str, text: str) -> None:
    if os.environ.get(variable):
        with open(os.environ[variable], "a", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    main()
