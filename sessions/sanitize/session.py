"""The session of nox."""

from __future__ import annotations

import os
import shutil

import nox

from sessions.environments import ROOT, Environment, build_copy, install_torch
from sessions.sanitize.builds import KINDS, starter, variables
from sessions.sanitize.reports import summaries

FOLDER = ROOT / ".nox" / "sanitize"
#: Folders and files of tests for threads, streams, lifetimes, recorders, compilation and ranks.
TESTS = tuple(
    f"reference_backend/tests/{name}"
    for name in (
        *("engine", "runtime", "memory", "graph", "compile", "distributed"),
        *("front/test_streams.py", "front/test_events.py"),
    )
)


def run(session: nox.Session, arguments: list[str]) -> None:
    """Run the tests on the sanitized cores.

    Args:
        session: of nox.
        arguments: kinds first, all if there are none; then arguments of pytest instead of all ``TESTS``.
    """
    kinds = [word for word in arguments if word in KINDS]
    words = [word for word in arguments if word not in KINDS]
    environment = Environment(session, "sanitize")
    install_torch(environment)
    environment.install("setuptools>=77", "wheel", "ninja", "numpy", "scipy", "hypothesis")
    environment.install("-e", str(ROOT))
    failed = [kind for kind in kinds or KINDS if not _clean(session, environment, kind, words)]
    if failed:
        session.error(f"failed tests or reports: {', '.join(failed)}")


def _clean(session: nox.Session, environment: Environment, name: str, words: list[str]) -> bool:
    """Build a core and run the tests on it; True if all passed and there is no report."""
    kind = KINDS[name]
    core = build_copy(environment, FOLDER / name, f"for {name}", HPU_REFERENCE_SANITIZE=name)
    reports = FOLDER / name / "reports"
    shutil.rmtree(reports, ignore_errors=True)
    reports.mkdir()
    workers = ("-n", str(os.cpu_count() or 1), "--dist", "loadfile")
    left_out = [f"--deselect={test}" for test in kind.left_out]
    passed = True
    try:
        environment.run(
            *("python", "-m", "pytest", "-q", *workers, *left_out, *(words or TESTS)),
            env=variables(kind, core, reports),
            through=starter(),
        )
    except nox.command.CommandFailed:
        passed = False
    found = summaries(reports)
    for text, count in found.most_common():
        session.log(f"{count} × {text}")
    session.log(f"{name}: {sum(found.values())} reports, {len(found)} different ones: {reports}")
    return passed and not found
