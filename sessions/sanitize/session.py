"""The nox session ``sanitize``."""

from __future__ import annotations

import os
import shutil

import nox

from sessions.environments import ROOT, Environment, build_copy, install_torch
from sessions.sanitize.builds import SANITIZER_BUILDS, address_layout_command, process_variables
from sessions.sanitize.reports import count_report_summaries

FOLDER = ROOT / ".nox" / "sanitize"
#: Folders and files of tests for threads, streams, lifetimes, graph recording, compilation and ranks.
TESTS = tuple(
    f"reference_backend/tests/{name}"
    for name in (
        *("engine", "runtime", "memory", "graph", "compile", "distributed"),
        *("python_api/test_streams.py", "python_api/test_events.py"),
    )
)


def run_sanitizers(session: nox.Session, arguments: list[str]) -> None:
    """Run the tests on the sanitized cores.

    Args:
        session: the nox session.
        arguments: keys of ``SANITIZER_BUILDS`` (default: all), and arguments of pytest that replace
            ``TESTS``.
    """
    builds = [argument for argument in arguments if argument in SANITIZER_BUILDS]
    pytest_arguments = [argument for argument in arguments if argument not in SANITIZER_BUILDS]
    environment = Environment(session, "sanitize")
    install_torch(environment)
    environment.install("setuptools>=77", "wheel", "ninja", "numpy", "scipy", "hypothesis")
    environment.install("-e", str(ROOT))
    failed = [
        build
        for build in builds or SANITIZER_BUILDS
        if not _passes_without_reports(session, environment, build, pytest_arguments)
    ]
    if failed:
        session.error(f"failed tests or reports: {', '.join(failed)}")


def _passes_without_reports(
    session: nox.Session, environment: Environment, name: str, pytest_arguments: list[str]
) -> bool:
    """Build a core and run the tests on it. Return True if all passed without a report."""
    build = SANITIZER_BUILDS[name]
    core = build_copy(environment, FOLDER / name, f"for {name}", HPU_REFERENCE_SANITIZE=name)
    reports = FOLDER / name / "reports"
    shutil.rmtree(reports, ignore_errors=True)
    reports.mkdir()
    workers = ("-n", str(os.cpu_count() or 1), "--dist", "loadfile")
    omitted_tests = [f"--deselect={test}" for test in build.omitted_tests]
    passed = True
    try:
        environment.run(
            *("python", "-m", "pytest", "-q", *workers, *omitted_tests, *(pytest_arguments or TESTS)),
            env=process_variables(build, core, reports),
            through=address_layout_command(),
        )
    except nox.command.CommandFailed:
        passed = False
    report_counts = count_report_summaries(reports)
    for text, count in report_counts.most_common():
        session.log(f"{count} × {text}")
    session.log(
        f"{name}: {sum(report_counts.values())} reports, {len(report_counts)} of them distinct, in {reports}"
    )
    return passed and not report_counts
