"""Run the suite on the CPU of each supported torch release, and check the manifest's entries for it."""

from __future__ import annotations

import argparse

import nox

from sessions.environments import ROOT, Environment, install_torch

#: The supported torch releases: the latest patch release of each minor version in the manifest.
RELEASES = (
    *("2.6.0", "2.7.1", "2.8.0", "2.9.1", "2.10.0", "2.11.0", "2.12.0"),
    *("2.13.0", "2.14.1", "2.15.0"),
)


def run_releases(session: nox.Session) -> None:
    """Run the suite on target ``cpu`` with each requested torch release, in separate environments."""
    parser = argparse.ArgumentParser(prog="nox -s releases --", allow_abbrev=False)
    parser.add_argument("releases", nargs="*", metavar="RELEASE", help=f"only these: {', '.join(RELEASES)}")
    parser.add_argument("--level", default="core", help="level of the run (default: core)")
    parser.add_argument("--mode", default="eager", help="modes of the run (default: eager)")
    options = parser.parse_args(session.posargs)
    unknown = [release for release in options.releases if release not in RELEASES]
    if unknown:
        session.error(f"{', '.join(unknown)} is not supported: use one of {', '.join(RELEASES)}")
    failed = []
    for release in options.releases or RELEASES:
        environment = Environment(session, f"release-{release}")
        install_torch(environment, release)
        environment.install("numpy", "scipy", "-e", str(ROOT))
        arguments = ["--target", "cpu", "--mode", options.mode, "--level", options.level]
        commands = {
            "the run": ("conformance", "run", *arguments, "-o", f"conformance-out/releases/{release}"),
            "the manifest is stale": ("python", "-m", "tools.generate", "--check", "manifest"),
        }
        for step, command in commands.items():
            try:
                environment.run(*command)
            except nox.command.CommandFailed:
                failed.append(f"{release} ({step})")
    if failed:
        session.error(f"failed: {'; '.join(failed)}")
