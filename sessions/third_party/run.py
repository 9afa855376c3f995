"""Install and run the third-party programs, each in its own environment, with the device on its path.

``--tree NAME=PATH`` passes the source of a client that no package index has (a folder or an archive). Without
the option, the row of the client reads "source not available".
"""

from __future__ import annotations

import argparse
import json
import shutil
import struct
import tarfile
from collections.abc import Iterator
from pathlib import Path
from random import Random

import nox

from sessions.environments import (
    BACKEND,
    ROOT,
    TORCH,
    Environment,
    build_copy,
    install_device,
    install_torch,
    prepare_device,
    write_smi_script,
)
from sessions.interpreters import interpreter_of
from sessions.third_party.programs import THIRD_PARTY_PROGRAMS, ThirdPartyProgram
from sessions.third_party.reports import RANK, ProgramTestResults, counts_sentence, page_lines, read_reports

PAGE = ROOT / "docs" / "third-party-programs.md"
SOURCE_NOT_AVAILABLE = "source not available"


def run_third_party_programs(session: nox.Session) -> None:
    """Install and run the third-party programs, and write their page. Fail if a test fails unexpectedly."""
    parser = argparse.ArgumentParser(prog="nox -s third_party --", allow_abbrev=False)
    parser.add_argument("--tree", action="append", default=[], metavar="NAME=PATH", help="source of a client")
    parser.add_argument("--client", action="append", metavar="NAME", help="run only this client; repeatable")
    parser.add_argument("-o", "--output", type=Path, default=Path("third-party-out"))
    parser.add_argument("--page", action="store_true", help="write docs/third-party-programs.md")
    options = parser.parse_args(session.posargs)
    trees = dict(option.split("=", 1) for option in options.tree if "=" in option)
    names = {program.name for program in THIRD_PARTY_PROGRAMS}
    for name in [*trees, *(options.client or [])]:
        if name not in names:
            session.error(f"client {name!r} does not exist: use one of {', '.join(sorted(names))}")
    if len(trees) != len(options.tree):
        session.error("--tree has the form NAME=PATH")
    output = options.output.resolve()
    output.mkdir(parents=True, exist_ok=True)
    prepare_device(session)  # builds the core that the environments share
    outcomes = [
        outcome
        for program in THIRD_PARTY_PROGRAMS
        if options.client is None or program.name in options.client
        for outcome in run_and_read_outcomes(session, program, trees.get(program.name), output)
    ]
    text = "\n".join(page_lines(outcomes)) + "\n"
    (output / "third-party-programs.md").write_text(text)
    if options.page:
        PAGE.write_text(text)
    for outcome in outcomes:
        session.log(f"{outcome.program.name}, {outcome.run}: {counts_sentence(outcome)}")
    if unexpected := [test for outcome in outcomes for test in outcome.failed.get("", [])]:
        session.error(f"{len(unexpected)} tests failed unexpectedly, first {unexpected[0]}")


def run_and_read_outcomes(
    session: nox.Session, program: ThirdPartyProgram, tree: str | None, output: Path
) -> Iterator[ProgramTestResults]:
    """Run a client; yield one result for each run."""
    if program.has_tree and tree is None:
        yield ProgramTestResults(program, "all", note=SOURCE_NOT_AVAILABLE)
        return
    if program.python and interpreter_of(program.python) is None:
        yield ProgramTestResults(program, "all", note=f"Python {program.python} is not available")
        return
    folder = output / program.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    source = unpack_source(session, Path(tree), folder) if tree is not None else folder
    environment = Environment(session, f"client-{program.name.lower()}", python=program.python)
    install_torch(environment, program.torch or TORCH)
    constraints = folder / "constraints.txt"
    constraints.write_text(f"torch=={environment.version_of('torch').partition('+')[0]}\n")
    limits = ("--constraint", str(constraints))
    requirements = [requirement.format(backend=BACKEND) for requirement in program.requirements]
    backend = BACKEND
    if program.torch:
        environment.install("setuptools>=77,<81", "wheel", "ninja", "numpy<2.3")
        backend = build_copy(environment, environment.folder, f"for torch {program.torch}")
        write_smi_script(environment)
    build_tools = ("setuptools", "wheel", "numpy")
    first = [requirement for requirement in requirements if requirement.startswith(build_tools)]
    environment.install(*limits, *first)
    environment.install(*limits, "--no-build-isolation", *requirements, env=dict(program.build_variables))
    for number, requirement in enumerate(program.sources):
        uninstall_excluded(environment, program)
        source_folder = folder / f"source-{number}"
        download_options = (
            "--no-deps",
            "--no-binary",
            ":all:",
            "--no-build-isolation",
            "-d",
            str(source_folder),
        )
        environment.run("python", "-m", "pip", "download", "-q", requirement, *download_options)
        (archive,) = source_folder.iterdir()
        requirement_tree = str(unpack_source(session, archive, source_folder))
        environment.install(
            *limits, "--no-build-isolation", requirement_tree, env=dict(program.build_variables)
        )
    uninstall_excluded(environment, program)
    if program.needs_autoload:
        install_device(environment)
    if program.has_tree and program.is_installed:
        environment.install("--no-deps", "--no-build-isolation", str(source))
    if program.needs_data:
        write_random_mnist_images(source / "data" / "MNIST" / "raw")
        write_text(source / "data" / "wikitext-2.txt")
    for number, test_run in enumerate(program.runs):
        # Set HABANA_LOGS, because the driver installation of a machine with real devices sets it to another
        # folder.
        variables = {"PYTHONPATH": str(backend), "HABANA_LOGS": str(folder / "logs"), **test_run.variables}
        arguments = [argument.format(backend=BACKEND) for argument in test_run.arguments]
        with session.chdir(source):
            calls = (
                commands_of_single_tests(environment, arguments, variables)
                if test_run.separate_processes
                else [arguments]
            )
            # Each rank that a test starts repeats the command line of the test's process, and would overwrite
            # the report. pytest replaces the variable in the name by the rank's number.
            rank = RANK if test_run.separate_processes else ""
            reports = [folder / f"{number}-{index}{rank}.xml" for index in range(len(calls))]
            for call, report in zip(calls, reports, strict=True):
                run_tests(environment, [*call, f"--junitxml={report}"], variables)
            failed = read_last_failed_tests(source) if test_run.retry_alone else []
            retry_reports = [folder / f"{number}-again-{index}{RANK}.xml" for index in range(len(failed))]
            for test, report in zip(failed, retry_reports, strict=True):
                run_tests(environment, [test, *arguments[1:], f"--junitxml={report}"], variables)
        releases = f"{environment.python}, {environment.version_of('torch').partition('+')[0]}"
        yield read_reports(program, test_run.name, reports, retry_reports, releases)


def uninstall_excluded(environment: Environment, program: ThirdPartyProgram) -> None:
    """Uninstall the packages that the client cannot work with."""
    for name in filter(environment.version_of, program.excluded_packages):
        environment.run("python", "-m", "pip", "uninstall", "--quiet", "--yes", name)


def read_last_failed_tests(source: Path) -> list[str]:
    """Return the tests that failed in the last pytest run in a folder, as pytest arguments."""
    cache_file = source / ".pytest_cache" / "v" / "cache" / "lastfailed"
    return sorted(json.loads(cache_file.read_text())) if cache_file.is_file() else []


def run_tests(environment: Environment, arguments: list[str], variables: dict[str, str]) -> str:
    """Run pytest, accept any exit code, and return its output. The time limit of a single test is 10 minutes.

    A signal may terminate pytest: launchers kill the other ranks of a test if one fails.
    """
    return environment.run(
        "python", "-m", "pytest", *arguments,
        through=("timeout", "600") if "::" in arguments[0] else (),
        env=variables, success_codes=range(-64, 256), silent=True,
    )  # fmt: skip


def commands_of_single_tests(
    environment: Environment, arguments: list[str], variables: dict[str, str]
) -> list[list[str]]:
    """Return one list of pytest arguments for each test, so that each test can run in a separate process.

    In each list the test replaces the first argument, which is a folder.
    """
    listed = run_tests(environment, [*arguments, "--collect-only", "--color=no"], variables)
    tests = [line for line in listed.splitlines() if "::" in line and not line.startswith("ERROR")]
    return [[test, *arguments[1:]] for test in tests]


def write_random_mnist_images(folder: Path) -> None:
    """Write random images and classes in MNIST's file format, as many as MNIST contains."""
    folder.mkdir(parents=True, exist_ok=True)
    random = Random(0)
    for name, count in (("train", 60_000), ("t10k", 10_000)):
        images = struct.pack(">IIII", 2051, count, 28, 28) + random.randbytes(count * 28 * 28)
        (folder / f"{name}-images-idx3-ubyte").write_bytes(images)
        classes = bytes(random.randrange(10) for _ in range(count))
        (folder / f"{name}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 2049, count) + classes)


def write_text(path: Path) -> None:
    """Write lines of random words."""
    random = Random(0)
    lines = (" ".join(f"word{random.randrange(500)}" for _ in range(20)) for _ in range(400))
    path.write_text("\n".join(lines) + "\n")


def unpack_source(session: nox.Session, path: Path, folder: Path) -> Path:
    """Copy or unpack a source tree into a folder; return the tree."""
    if path.is_dir():
        return Path(shutil.copytree(path, folder / "tree"))
    if not path.is_file():
        session.error(f"--tree: {path} is neither a folder nor a file")
    with tarfile.open(path) as archive:
        archive.extractall(folder / "tree", filter="data")
    inside = list((folder / "tree").iterdir())
    return inside[0] if len(inside) == 1 else folder / "tree"
