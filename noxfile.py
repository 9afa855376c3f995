"""The project's commands: conformance, tests, lint, bench, build.

``nox -s conformance -- ARGS`` hands ARGS to ``conformance run``. The environments and the compiled core are
kept and reused; only what changed is built again.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import urllib.request
from pathlib import Path

import nox

TORCH = os.environ.get("CONFORMANCE_TORCH", "2.13.0")
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
ROOT = Path(__file__).parent
BACKEND = ROOT / "reference_backend"
TARGET = "hpu-reference"
#: What ``nox -s conformance`` runs: environments with the modes of the reference device that belong to each.
#: ``fork`` is the same torch under the label of a fork-like build, which lazy mode asks for.
LEGS = {"device": ("eager", "compile", "graph", "distributed"), "fork": ("lazy", "graph")}
#: Files of a run's output folder.
WRITTEN = ("journal.jsonl", "results.json", "junit.xml", "report.html")
LINTERS = ("ruff==0.17.5", "mypy==2.4.1", "clang-format==23.1.5")

nox.options.sessions = ["conformance"]
# torch is large: one environment, which this file keeps, serves all sessions.
nox.options.default_venv_backend = "none"


class Environment:
    """A virtual environment in ``.nox``; made on first use, then reused. ``device`` serves all sessions."""

    def __init__(self, session: nox.Session, name: str = "device") -> None:
        self.session = session
        self.folder = ROOT / ".nox" / f"{name}-{sys.version_info.major}.{sys.version_info.minor}"
        #: Where programs are looked for beside the environment's own.
        self.path = os.environ["PATH"]
        if name == "device" and not (self.folder / "bin" / "python").exists():
            session.run(sys.executable, "-m", "venv", str(self.folder), external=True)

    def run(self, program: str, *arguments: str, **options: object) -> str:
        """Run a program of the environment; its output where ``silent`` is given."""
        variables = {"PATH": f"{self.folder / 'bin'}{os.pathsep}{self.path}"}
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
        return self.run("python", "-c", code, silent=True, log=False).strip()


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


def prepare_fork(device: Environment) -> Environment:
    """The environment ``device`` once more, with its torch under the label of a fork-like build.

    It is laid over the other one, holds nothing of its own but links, and is made anew where torch there has
    changed. The core for the public torch serves it (``habana_frameworks/torch/_loader.py``).
    """
    session = device.session
    environment = Environment(session, "fork")
    python = str(device.folder / "bin" / "python")
    command = ["torch", "fork-like", "--from-environment", python, "-o", str(environment.folder)]
    device.run("conformance", *command, silent=True)
    environment.path = f"{device.folder / 'bin'}{os.pathsep}{environment.path}"
    with session.chdir(BACKEND):
        environment.run("python", "setup.py", "--quiet", "build_ext", "--inplace", silent=True)
    return environment


def own_arguments(arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """What this file must know of the arguments of ``conformance run``, and the others as they are."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--target", default=TARGET)
    parser.add_argument("--mode")
    parser.add_argument("-o", "--output", default="conformance-out")
    return parser.parse_known_args(arguments)


def legs_of(session: nox.Session, environment: Environment, modes: str | None) -> list[tuple[str, str]]:
    """The legs to run, as environment and mode: those of ``LEGS``, or of them those that ``--mode`` names."""
    legs = [(name, mode) for name, own in LEGS.items() for mode in own]
    if modes is not None:
        wanted = modes.split(",")
        known = {mode for _, mode in legs}
        # What is in no leg of ours is for the suite to run, or to refuse.
        others = [("device", mode) for mode in wanted if mode not in known]
        return [leg for leg in legs if leg[1] in wanted] + others
    code = f"from conformance.target_file import load; print(*load({TARGET!r}).modes)"
    declared = environment.run("python", "-c", code, silent=True, log=False).split()
    for name, mode in legs:
        if mode not in declared:
            session.log(f"leg {name} {mode} is left out: target {TARGET} does not declare the mode")
    return [leg for leg in legs if leg[1] in declared]


@nox.session
def conformance(session: nox.Session) -> None:
    """Run the suite on the reference device (all its modes, level full) and write one report."""
    own, arguments = own_arguments(list(session.posargs))
    device = prepare(session)
    if own.target != TARGET:
        device.run("conformance", "run", *session.posargs, "--output", own.output)
        return
    legs = legs_of(session, device, own.mode)
    arguments += ["--target", TARGET]
    environments = {"device": device}
    if any(name == "fork" for name, _ in legs):
        environments["fork"] = prepare_fork(device)
    if len({name for name, _ in legs}) == 1:
        modes = ",".join(mode for _, mode in legs)
        run = ["python", "-m", "conformance", "run", *arguments, "--mode", modes, "-o", own.output]
        environments[legs[0][0]].run(*run)
        return
    run_legs(session, environments, legs, arguments, Path(own.output))


def run_legs(
    session: nox.Session,
    environments: dict[str, Environment],
    legs: list[tuple[str, str]],
    arguments: list[str],
    output: Path,
) -> None:
    """Run legs of several environments, each into its folder, and merge them; fails as the worst of them."""
    clear(session, output)
    builds = {name: environment.version_of("torch") for name, environment in environments.items()}
    folders, failed = [], []
    for name, mode in legs:
        folder = output / "legs" / f"{builds[name]}-{mode}"
        leg = ["python", "-m", "conformance", "run", *arguments, "--mode", mode, "-o", str(folder)]
        try:
            # What 1, 2 and 3 mean stands in the results of the leg, and the merged ones fail for it.
            environments[name].run(*leg, "--part", success_codes=[0, 1, 2, 3])
        except nox.command.CommandFailed:
            failed.append(f"{name} {mode}")
        if any(folder.glob("journal.jsonl")) or any(folder.glob("results.json")):
            folders.append(str(folder))
    if not folders:
        session.error("there is nothing to merge: no leg has run")
    environments["device"].run("python", "-m", "conformance", "merge", *folders, "-o", str(output))
    if failed:
        session.error(f"legs without an exit code of the suite: {', '.join(failed)}")


def clear(session: nox.Session, output: Path) -> None:
    """Remove what an earlier run left in the output folder; an error where no run can have left it."""
    if any(
        any(output.glob(name)) for name in ("journal.jsonl", "legs/*/journal.jsonl", "legs/*/results.json")
    ):
        for name in ("legs", "tracebacks", "logs"):
            shutil.rmtree(output / name, ignore_errors=True)
        for name in WRITTEN:
            (output / name).unlink(missing_ok=True)
        return
    for name in ("legs", *WRITTEN):
        if (output / name).exists():
            session.error(f"{output / name} was left by no earlier run; name another folder with -o")


@nox.session
def tests(session: nox.Session) -> None:
    """The tests of the harness and of the reference device."""
    environment = prepare(session)
    environment.install("hypothesis")
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
