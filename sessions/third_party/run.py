"""Installs and runs the programs, each in an environment of its own, with the device on its path.

A tree that no registry has is given with ``--tree NAME=PATH`` (a folder or an archive, which is unpacked
elsewhere); without it the row of the client reads "source not to be had".
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
    prepare,
)
from sessions.interpreters import interpreter_of
from sessions.third_party.programs import CLIENTS, Client
from sessions.third_party.reports import RANK, ProgramTestResults, page, read, sentence

PAGE = ROOT / "docs" / "third-party-programs.md"
NOT_TO_BE_HAD = "source not to be had"


def run(session: nox.Session) -> None:
    """Install and run the clients, write the page, and fail if a test failed that is not known to."""
    parser = argparse.ArgumentParser(prog="nox -s third_party --", allow_abbrev=False)
    parser.add_argument("--tree", action="append", default=[], metavar="NAME=PATH", help="source of a client")
    parser.add_argument("--client", action="append", metavar="NAME", help="only these; repeatable")
    parser.add_argument("-o", "--output", type=Path, default=Path("third-party-out"))
    parser.add_argument("--page", action="store_true", help="write docs/third-party-programs.md")
    options = parser.parse_args(session.posargs)
    trees = dict(one.split("=", 1) for one in options.tree if "=" in one)
    names = {client.name for client in CLIENTS}
    for name in [*trees, *(options.client or [])]:
        if name not in names:
            session.error(f"there is no client named {name!r}: use one of {', '.join(sorted(names))}")
    if len(trees) != len(options.tree):
        session.error("--tree has the form NAME=PATH")
    output = options.output.resolve()
    output.mkdir(parents=True, exist_ok=True)
    prepare(session)  # builds the core, which environments share
    outcomes = [
        outcome
        for client in CLIENTS
        if options.client is None or client.name in options.client
        for outcome in outcomes_of(session, client, trees.get(client.name), output)
    ]
    text = "\n".join(page(outcomes)) + "\n"
    (output / "third-party-programs.md").write_text(text)
    if options.page:
        PAGE.write_text(text)
    for outcome in outcomes:
        session.log(f"{outcome.client.name}, {outcome.run}: {sentence(outcome)}")
    if unexpected := [test for outcome in outcomes for test in outcome.failed.get("", [])]:
        session.error(f"{len(unexpected)} tests failed that are not known to, first {unexpected[0]}")


def outcomes_of(
    session: nox.Session, client: Client, tree: str | None, output: Path
) -> Iterator[ProgramTestResults]:
    """Run a client; one outcome for each run."""
    if client.has_tree and tree is None:
        yield ProgramTestResults(client, "all", note=NOT_TO_BE_HAD)
        return
    if client.python and interpreter_of(client.python) is None:
        yield ProgramTestResults(client, "all", note=f"Python {client.python} is not available")
        return
    folder = output / client.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    source = unpacked(session, Path(tree), folder) if tree is not None else folder
    environment = Environment(session, f"client-{client.name.lower()}", python=client.python)
    install_torch(environment, client.torch or TORCH)
    constraints = folder / "constraints.txt"
    constraints.write_text(f"torch=={environment.version_of('torch').partition('+')[0]}\n")
    limits = ("--constraint", str(constraints))
    requirements = [one.format(backend=BACKEND) for one in client.requirements]
    backend = BACKEND
    if client.torch:
        environment.install("setuptools>=77,<81", "wheel", "ninja", "numpy<2.3")
        backend = build_copy(environment, environment.folder, f"for torch {client.torch}")
    first = [one for one in requirements if one.startswith(("setuptools", "wheel", "numpy"))]
    environment.install(*limits, *first)
    environment.install(*limits, "--no-build-isolation", *requirements, env=dict(client.build))
    for number, requirement in enumerate(client.sources):
        leave_out(environment, client)
        place = folder / f"source-{number}"
        words = ("--no-deps", "--no-binary", ":all:", "--no-build-isolation", "-d", str(place))
        environment.run("python", "-m", "pip", "download", "-q", requirement, *words)
        (archive,) = place.iterdir()
        tree_of = str(unpacked(session, archive, place))
        environment.install(*limits, "--no-build-isolation", tree_of, env=dict(client.build))
    leave_out(environment, client)
    if client.asks_torch:
        install_device(environment)
    if client.has_tree:
        environment.install("--no-deps", "--no-build-isolation", str(source))
    if client.needs_data:
        write_digits(source / "data" / "MNIST" / "raw")
        write_text(source / "data" / "wikitext-2.txt")
    for number, one in enumerate(client.runs):
        # The installation of a driver sets the folder of logs.
        variables = {"PYTHONPATH": str(backend), "HABANA_LOGS": str(folder / "logs"), **one.variables}
        arguments = [word.format(backend=BACKEND) for word in one.arguments]
        with session.chdir(source):
            calls = alone(environment, arguments, variables) if one.apart else [arguments]
            # A test that starts ranks starts its command again in each; pytest puts in the number of that.
            rank = RANK if one.apart else ""
            reports = [folder / f"{number}-{place}{rank}.xml" for place in range(len(calls))]
            for call, report in zip(calls, reports, strict=True):
                run_tests(environment, [*call, f"--junitxml={report}"], variables)
            failed = last_failed(source) if one.again else []
            once_more = [folder / f"{number}-again-{place}{RANK}.xml" for place in range(len(failed))]
            for test, report in zip(failed, once_more, strict=True):
                run_tests(environment, [test, *arguments[1:], f"--junitxml={report}"], variables)
        words = f"{environment.python}, {environment.version_of('torch').partition('+')[0]}"
        yield read(client, one.name, reports, once_more, words)


def leave_out(environment: Environment, client: Client) -> None:
    """Remove what the client cannot have beside it."""
    for name in filter(environment.version_of, client.without):
        environment.run("python", "-m", "pip", "uninstall", "--quiet", "--yes", name)


def last_failed(source: Path) -> list[str]:
    """Names of the tests that failed in the last run of pytest in a folder, as pytest takes them."""
    kept = source / ".pytest_cache" / "v" / "cache" / "lastfailed"
    return sorted(json.loads(kept.read_text())) if kept.is_file() else []


def run_tests(environment: Environment, arguments: list[str], variables: dict[str, str]) -> str:
    """Run pytest, whatever its exit code is; return its output. One test may take 10 minutes.

    A signal may end it as well: launchers kill the other ranks of a test if one fails.
    """
    return environment.run(
        "python", "-m", "pytest", *arguments,
        through=("timeout", "600") if "::" in arguments[0] else (),
        env=variables, success_codes=range(-64, 256), silent=True,
    )  # fmt: skip


def alone(environment: Environment, arguments: list[str], variables: dict[str, str]) -> list[list[str]]:
    """Arguments for a process of each test: the first argument, a folder, becomes the test."""
    listed = run_tests(environment, [*arguments, "--collect-only", "--color=no"], variables)
    tests = [line for line in listed.splitlines() if "::" in line and not line.startswith("ERROR")]
    return [[test, *arguments[1:]] for test in tests]


def write_digits(folder: Path) -> None:
    """Write random images and classes in the files of MNIST, as many as it has."""
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


def unpacked(session: nox.Session, path: Path, folder: Path) -> Path:
    """Copy a tree, or unpack it, into a folder; return the tree."""
    if path.is_dir():
        return Path(shutil.copytree(path, folder / "tree"))
    if not path.is_file():
        session.error(f"there is no tree {path}")
    with tarfile.open(path) as archive:
        archive.extractall(folder / "tree", filter="data")
    inside = list((folder / "tree").iterdir())
    return inside[0] if len(inside) == 1 else folder / "tree"
