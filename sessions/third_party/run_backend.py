"""Run the suite on a third-party backend, in an environment of its own."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import nox

from sessions.environments import ROOT, TORCH, Environment, install_torch
from sessions.third_party.backends import BACKENDS
from sessions.third_party.reports import errors_of_suite


def run_backend(session: nox.Session, name: str, arguments: Sequence[str]) -> None:
    """Install a backend and run the suite on it.

    ``arguments`` are ``--tree PATH`` and options of ``conformance run``. The session fails if the run is
    incomplete, or if a result has the verdict ``error`` (a fault of the suite). Failed results do not fail
    the session, because they are deviations of the backend.
    """
    backend = BACKENDS[name]
    parser = argparse.ArgumentParser(prog=f"nox -s third_party -- {name}", allow_abbrev=False)
    parser.add_argument("--tree", type=Path, metavar="PATH", help="checkout of the backend's source")
    parser.add_argument("--level", default="bringup")
    parser.add_argument("-o", "--output", type=Path, default=Path("third-party-out") / name)
    options, others = parser.parse_known_args(list(arguments))
    if backend.source and options.tree is None:
        session.error(f"{name} is in no package index: check out {backend.source}; then pass --tree PATH")
    if options.tree is not None and not options.tree.is_dir():
        session.error(f"--tree {options.tree} is not a folder: check out {backend.source or name} there")
    environment = Environment(session, f"backend-{name}")
    install_torch(environment, backend.torch or TORCH)
    environment.install(str(ROOT), *backend.requirements)
    variables = dict(backend.variables)
    if options.tree is not None and backend.is_installed:
        environment.install("--no-build-isolation", str(options.tree))
    elif options.tree is not None:
        variables["PYTHONPATH"] = str(options.tree.resolve())
    command = ["conformance", "run", "--target", name, "--level", options.level, "-o", str(options.output)]
    environment.run("python", "-m", *command, *others, env=variables, success_codes=[0, 1])
    errors = errors_of_suite(options.output / "results.json")
    if errors:
        session.error(f"{len(errors)} results are errors of the suite, first {errors[0]}")
