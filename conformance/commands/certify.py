"""``conformance certify``: check whether a run holds a level, and write or verify a certificate bundle."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from conformance.certificate import bundle, level_assessment, terminal_text
from conformance.certificate import certify as issue
from conformance.commands import common
from conformance.errors import UsageError
from conformance.model.records import Leg
from conformance.model.vocabulary import LEVELS
from conformance.plan import levels
from conformance.plan.levels import manifest
from conformance.report import output_files, summary
from conformance.results import exit_codes


def add_parser(commands: Any) -> None:
    """Add the command ``certify`` to the command line."""
    parser = commands.add_parser(
        "certify", help="compare a run with a level, and write or verify a certificate"
    )
    parser.add_argument("folder", nargs="?", type=Path, metavar="DIR", help="output folder of a run")
    parser.add_argument(
        "--level", metavar="L", help=f"one of {', '.join(LEVELS)} (default: the level of the run)"
    )
    parser.add_argument("--mode", metavar="M", help="the mode, if the folder contains several")
    parser.add_argument("--build", metavar="B", help="the build of torch, if the folder contains several")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="BUNDLE", help="write the certificate to this zip file"
    )
    parser.add_argument(
        "--verify", type=Path, metavar="BUNDLE", help="verify a bundle by recomputing its certificate"
    )
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    """Certify a run or verify a bundle.

    Return exit code 3 if the run does not hold the level, or the bundle is not valid.
    """
    if (arguments.folder is None) == (arguments.verify is None):
        raise UsageError("give either the output folder of a run, or --verify BUNDLE")
    if arguments.verify is not None:
        if arguments.output or arguments.level or arguments.mode or arguments.build:
            raise UsageError("--verify accepts no other options: level, mode and build are in the bundle")
        return verify_bundle(arguments.verify)
    return certify_run(arguments)


def certify_run(arguments: argparse.Namespace) -> int:
    """Print the level assessment of a run, and write the bundle if the run holds the level."""
    if arguments.level is not None and arguments.level not in levels.ALL_LEVELS:
        raise UsageError(f"level {arguments.level!r} does not exist; certify one of {', '.join(LEVELS)}")
    leg = leg_to_certify(output_files.read_legs(arguments.folder), arguments.mode, arguments.build)
    level = arguments.level or leg["level"]
    if level == levels.SMOKE:
        raise UsageError(f"level {level} cannot be certified; run and certify one of {', '.join(LEVELS)}")
    if arguments.output is not None:
        if arguments.output.is_dir():
            raise UsageError(
                f"bundle {arguments.output} is a folder; give a file name such as certificate.zip"
            )
        common.check_writable(arguments.output.parent)
    loaded_manifest = manifest.load()
    try:
        assessment, certificate, scrubbed_results = issue.issue_certificate(leg, loaded_manifest, level)
    except manifest.UnknownMinor as error:
        print(f"{summary.leg_title(leg)}: does not hold {level}: {error}")
        return exit_codes.INCOMPLETE
    if not assessment.holds_level:
        held_level, narrowest = None, None
        if not issue.suite_mismatch_problem(leg):
            held_level = level_assessment.broadest_level_held(scrubbed_results["legs"][0], loaded_manifest)
            if held_level is None and level != LEVELS[0]:
                narrowest = level_assessment.assess_level(
                    scrubbed_results["legs"][0], loaded_manifest, LEVELS[0]
                )
        for line in terminal_text.refusal_lines(leg, assessment, held_level, narrowest):
            print(line)
        return exit_codes.INCOMPLETE
    for line in terminal_text.certificate_lines(assessment, certificate):
        print(line)
    if arguments.output is not None:
        bundle.write_bundle(arguments.output, certificate, scrubbed_results)
        print(
            f"written: {arguments.output}; verify it with 'conformance certify --verify {arguments.output}'"
        )
    return exit_codes.OK


def verify_bundle(path: Path) -> int:
    """Verify a bundle, and print its recomputed evidence or the problems."""
    certificate, rows = bundle.read_bundle(path)
    try:
        verification = issue.verify_certificate(certificate, rows, manifest.load())
    except manifest.UnknownMinor as error:
        print(f"NOT verified: {path}: {error}")
        return exit_codes.INCOMPLETE
    if verification.problems:
        print(f"NOT verified: {path}")
        for problem in verification.problems[: terminal_text.GROUPS]:
            print(f"  {problem}")
        if len(verification.problems) > terminal_text.GROUPS:
            print(f"  and {len(verification.problems) - terminal_text.GROUPS} more")
        return exit_codes.INCOMPLETE
    print(f"verified: {path}")
    for line in terminal_text.certificate_lines(verification.assessment, verification.certificate):
        print(line)
    for line in terminal_text.evidence_lines(verification.certificate):
        print(line)
    return exit_codes.OK


def leg_to_certify(legs: list[Leg], mode: str | None, build: str | None) -> Leg:
    """Return the only leg that matches a mode and a build.

    Raise UsageError if no leg or several legs match.
    """
    fitting = [leg for leg in legs if mode in (None, leg["mode"]) and build in (None, leg["build"])]
    names = ", ".join(leg["name"] for leg in legs)
    if not fitting:
        raise UsageError(
            f"the run has no leg of mode {mode or 'any'} on build {build or 'any'}; it has {names}"
        )
    if len(fitting) > 1:
        raise UsageError(
            f"a certificate covers one leg, but {len(fitting)} legs match: "
            f"{', '.join(leg['name'] for leg in fitting)}; give --mode, and --build if needed"
        )
    return fitting[0]
