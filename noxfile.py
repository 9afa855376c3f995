"""The project's commands: conformance, tests, lint, bench, build.

``nox -s conformance -- ARGS`` hands ARGS to ``conformance run``. The environment and the compiled core are
kept and reused; only what changed is built again.
"""

from __future__ import annotations

import os
import sys
import urllib.request
from pathlib import Path

import nox

TORCH = os.environ.get("CONFORMANCE_TORCH", "2.13.0")
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
ROOT = Path(__file__).parent
BACKEND = ROOT / "reference_backend"
LINTERS = ("ruff==0.17.5", "mypy==2.4.1", "clang-format==23.1.5")

nox.options.sessions = ["conformance"]
# torch is large: one environment, which this file keeps, serves all sessions.
nox.options.default_venv_backend = "none"


class Environment:
    """The shared virtual environment in ``.nox/device``; made on first use, then reused."""

    def __init__(self, session: nox.Session) -> None:
        self.session = session
        self.folder = ROOT / ".nox" / f"device-{sys.version_info.major}.{sys.version_info.minor}"
        if not (self.folder / "bin" / "python").exists():
            session.run(sys.executable, "-m", "venv", str(self.folder), external=True)

    def run(self, program: str, *arguments: str, **options: object) -> str:
        """Run a program of the environment; its output where ``silent`` is given."""
        variables = {"PATH": f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"}
        variables.update(options.pop("env", {}))  # type: ignore[call-overload]
        return self.session.run(
            str(self.folder / "bin" / program), *arguments, external=True, env=variables, **options
        )

    def install(self, *requirements: str, **options: object) -> None:
        self.run("python", "-m", "pip", "install", "--quiet", *requirements, **options)

    def version_of(self, distribution: str) -> str:
        """The installed version, or the empty string."""
        code = (
            "import importlib.metadata as m\n"
            f"try: print(m.version({distribution!r}))\n"
            "except m.PackageNotFoundError: print()"
        )
        return self.run("python", "-c", code, silent=True).strip()


def answers(url: str) -> bool:
    """Whether an index answers within a few seconds; asked before pip, which would wait and try again."""
    try:
        with urllib.request.urlopen(f"{url}/torch/", timeout=5):
            return True
    except (OSError, ValueError):
        return False


def install_torch(environment: Environment) -> None:
    """A CPU build where one can be had: the public default wheel for Linux is a CUDA build of several GB."""
    if environment.version_of("torch").partition("+")[0] == TORCH:
        return
    session, wanted = environment.session, f"torch=={TORCH}"
    try:
        # A wheel folder that pip is configured with; with --no-index this fails at once where there is none.
        environment.install("--no-index", "--no-deps", wanted, silent=True, log=False)
        session.log(f"torch {TORCH} comes from the wheel folder that pip is configured with")
    except nox.command.CommandFailed:
        if answers(CPU_INDEX):
            session.log(f"torch {TORCH} comes from PyTorch's CPU index")
            environment.install("--no-deps", wanted, "--index-url", CPU_INDEX)
        else:
            session.log(
                f"no CPU build of torch {TORCH} can be had here: taking the default one, which may be large"
            )
    environment.install(wanted)  # what torch needs, and torch itself where no CPU build was found


def prepare(session: nox.Session) -> Environment:
    """Install torch and both distributions from this checkout, and build what changed of the C++ core."""
    environment = Environment(session)
    install_torch(environment)
    environment.install("setuptools>=77", "wheel", "ninja", "numpy", "scipy")
    if not environment.version_of("torch-backend-conformance"):
        environment.install("-e", str(ROOT))
    with session.chdir(BACKEND):
        session.log("building what changed of the device (minutes on the first run)")
        environment.run("python", "setup.py", "--quiet", "build_ext", "--inplace", silent=True)
        if not environment.version_of("hpu-reference-backend"):
            environment.install(
                "--no-build-isolation",
                "--no-deps",
                "--config-settings=editable_mode=compat",
                "-e",
                str(BACKEND),
                # The extension is in place already; building it again for the metadata would take minutes.
                env={"HPU_REFERENCE_SKIP_EXTENSION": "1"},
            )
    return environment


@nox.session
def conformance(session: nox.Session) -> None:
    """Run the suite on the reference device (all its modes, level full) and write the report."""
    environment = prepare(session)
    arguments = list(session.posargs)
    for option, short, value in (("--target", None, "hpu-reference"), ("--output", "-o", "conformance-out")):
        if not any(a in (option, short) or a.startswith(f"{option}=") for a in arguments):
            arguments += [option, value]
    environment.run("conformance", "run", *arguments)


@nox.session
def tests(session: nox.Session) -> None:
    """The tests of the harness and of the reference device."""
    environment = prepare(session)
    folders = ["tests", "reference_backend/tests"]
    environment.run("pytest", "-q", "-n", str(os.cpu_count() or 1), *folders, *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Format and lint of Python and C++, strict types of the suite."""
    environment = Environment(session)
    install_torch(environment)  # mypy reads torch's annotations
    environment.install(*LINTERS, "-e", str(ROOT))
    environment.run("ruff", "format", "--check", ".")
    environment.run("ruff", "check", ".")
    environment.run("mypy", "--strict", "conformance")
    sources = session.run("git", "ls-files", "*.cpp", "*.h", external=True, silent=True) or ""
    environment.run("clang-format", "--dry-run", "-Werror", *sources.split())


@nox.session
def bench(session: nox.Session) -> None:
    """Print the project's figures, as ratios measured side by side."""
    prepare(session).run("python", "-m", "benchmarks", *session.posargs)


@nox.session
def build(session: nox.Session) -> None:
    """Build the wheels of both distributions into dist/."""
    environment = prepare(session)
    for source in (ROOT, BACKEND):
        environment.run(
            "python",
            "-m",
            "pip",
            "wheel",
            "-q",
            "--no-deps",
            "--no-build-isolation",
            "-w",
            "dist",
            str(source),
        )
