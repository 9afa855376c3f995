"""The project's commands: conformance, tests, lint, bench, build.

``nox -s conformance -- ARGS`` hands ARGS to ``conformance run``. The environment and the compiled core are kept and
reused; only what changed is built again.
"""

from __future__ import annotations

import os
import urllib.request

import nox

TORCH = os.environ.get("CONFORMANCE_TORCH", "2.13.0")
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
BACKEND = "reference_backend"
SHARED = ".nox/device"  # torch is large: one environment serves all sessions that need it
RUFF, MYPY, CLANG_FORMAT = "ruff==0.17.5", "mypy==2.4.1", "clang-format==23.1.5"

nox.options.sessions = ["conformance"]
nox.options.reuse_existing_virtualenvs = True


def installed(session: nox.Session, distribution: str) -> str:
    """The installed version of a distribution, or the empty string."""
    code = (
        "import importlib.metadata as m\n"
        f"try: print(m.version({distribution!r}))\n"
        "except m.PackageNotFoundError: print()"
    )
    return (session.run("python", "-c", code, silent=True) or "").strip()


def answers(url: str) -> bool:
    """Whether an index answers within a few seconds; asked before pip, which would wait and try again."""
    try:
        with urllib.request.urlopen(f"{url}/torch/", timeout=5):
            return True
    except (OSError, ValueError):
        return False


def install_torch(session: nox.Session) -> None:
    """A CPU build where one can be had: the public default wheel for Linux is a CUDA build of several GB."""
    if installed(session, "torch").partition("+")[0] == TORCH:
        return
    wanted = f"torch=={TORCH}"
    try:
        # A wheel folder that pip is configured with; with --no-index this fails at once where there is none.
        session.run("pip", "install", "--quiet", "--no-index", "--no-deps", wanted, success_codes=[0], silent=True)
        session.log(f"torch {TORCH} comes from the wheel folder that pip is configured with")
    except nox.command.CommandFailed:
        if answers(CPU_INDEX):
            session.log(f"torch {TORCH} comes from PyTorch's CPU index")
            session.install("--no-deps", wanted, "--index-url", CPU_INDEX)
        else:
            session.log(f"no CPU build of torch {TORCH} can be had here: taking the default one, which may be large")
    session.install(wanted)  # what torch needs, and torch itself where no CPU build was found


def prepare(session: nox.Session, *extra: str) -> None:
    """Install torch, both distributions from this checkout, and build what changed of the C++ core."""
    install_torch(session)
    session.install("--quiet", "setuptools>=77", "wheel", "ninja", "numpy", "scipy", *extra)
    if not installed(session, "torch-backend-conformance"):
        session.install("--quiet", "-e", ".")
    with session.chdir(BACKEND):
        session.run("python", "setup.py", "--quiet", "build_ext", "--inplace", silent=True)
        if not installed(session, "hpu-reference-backend"):
            # The extension is in place already; building it again for the metadata would take minutes.
            session.install(
                "--quiet",
                "--no-build-isolation",
                "--no-deps",
                "--config-settings=editable_mode=compat",
                "-e",
                ".",
                env={"HPU_REFERENCE_SKIP_EXTENSION": "1"},
            )


@nox.session(venv_location=SHARED)
def conformance(session: nox.Session) -> None:
    """Run the suite on the reference device (all its modes, level full) and write the report."""
    prepare(session)
    arguments = list(session.posargs)
    if not any(a == "--target" or a.startswith("--target=") for a in arguments):
        arguments += ["--target", "hpu-reference"]
    if not any(a == "-o" or a.startswith("--output") for a in arguments):
        arguments += ["-o", "conformance-out"]
    session.run("conformance", "run", *arguments)


@nox.session(venv_location=SHARED)
def tests(session: nox.Session) -> None:
    """The tests of the harness and of the reference device."""
    prepare(session)
    session.run("pytest", "-q", "-n", str(os.cpu_count() or 1), "tests", f"{BACKEND}/tests", *session.posargs)


@nox.session(venv_location=SHARED)
def lint(session: nox.Session) -> None:
    """Format and lint of Python and C++, strict types of the suite."""
    install_torch(session)  # mypy reads torch's annotations
    session.install("--quiet", RUFF, MYPY, CLANG_FORMAT, "-e", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("ruff", "check", ".")
    session.run("mypy", "--strict", "conformance")
    sources = session.run("git", "ls-files", "*.cpp", "*.h", external=True, silent=True) or ""
    session.run("clang-format", "--dry-run", "-Werror", *sources.split())


@nox.session(venv_location=SHARED)
def bench(session: nox.Session) -> None:
    """Print the project's figures, as ratios measured side by side."""
    prepare(session)
    session.run("python", "-m", "benchmarks", *session.posargs)


@nox.session(venv_location=SHARED)
def build(session: nox.Session) -> None:
    """Build the wheels of both distributions into dist/."""
    prepare(session)
    for source in (".", BACKEND):
        session.run("pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", "dist", f"./{source}")
