"""``conformance certify``: the level that a run holds, the bundle that certifies it, and its verification."""

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


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "certify", help="compare a run with a level, and write or verify a certificate"
    )
    parser.add_argument("folder", nargs="?", type=Path, metavar="DIR", help="output folder of a run")
    parser.add_argument("--level", metavar="L", help=f"one of {', '.join(LEVELS)} (default: that of the run)")
    parser.add_argument("--mode", metavar="M", help="the mode, if the folder holds several")
    parser.add_argument("--build", metavar="B", help="the build of torch, if the folder holds several")
    parser.add_argument("-o", "--output", type=Path, metavar="BUNDLE", help="zip to write the certificate to")
    parser.add_argument("--verify", type=Path, metavar="BUNDLE", help="count a bundle again")
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    """Certify a folder or verify a bundle; exit code 3 if the level is not held or the bundle is not
    valid.
    """
    if (arguments.folder is None) == (arguments.verify is None):
        raise UsageError("give either the output folder of a run or --verify BUNDLE")
    if arguments.verify is not None:
        if arguments.output or arguments.level or arguments.mode or arguments.build:
            raise UsageError("--verify takes a bundle only; its claims are in the bundle")
        return verify(arguments.verify)
    return certify(arguments)


def certify(arguments: argparse.Namespace) -> int:
    """Print the judgement of the run, and write the bundle if it holds the level."""
    if arguments.level is not None and arguments.level not in levels.ALL_LEVELS:
        raise UsageError(f"level {arguments.level!r} does not exist; certify one of {', '.join(LEVELS)}")
    leg = chosen(output_files.read(arguments.folder), arguments.mode, arguments.build)
    level = arguments.level or leg["level"]
    if level == levels.SMOKE:
        raise UsageError(f"level {level} certifies nothing; run and certify one of {', '.join(LEVELS)}")
    if arguments.output is not None:
        if arguments.output.is_dir():
            raise UsageError(f"bundle {arguments.output} is a folder; name a file such as certificate.zip")
        common.check_writable(arguments.output.parent)
    known = manifest.load()
    try:
        judgement, certificate, kept = issue.issue(leg, known, level)
    except manifest.UnknownMinor as error:
        print(f"{summary.title(leg)}: not entitled to {level}: {error}")
        return exit_codes.INCOMPLETE
    if not judgement.entitled:
        held, narrowest = None, None
        if not issue.suite_problem(leg):
            held = level_assessment.held(kept["legs"][0], known)
            if held is None and level != LEVELS[0]:
                narrowest = level_assessment.judge(kept["legs"][0], known, LEVELS[0])
        for line in terminal_text.refused(leg, judgement, held, narrowest):
            print(line)
        return exit_codes.INCOMPLETE
    for line in terminal_text.granted(judgement, certificate):
        print(line)
    if arguments.output is not None:
        bundle.write(arguments.output, certificate, kept)
        print(
            f"written: {arguments.output}; verify it with 'conformance certify --verify {arguments.output}'"
        )
    return exit_codes.OK


def verify(path: Path) -> int:
    """Count a bundle again, and print what it gives evidence of and what not."""
    certificate, rows = bundle.read(path)
    try:
        verification = issue.verify(certificate, rows, manifest.load())
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
    for line in terminal_text.granted(verification.found, verification.certificate):
        print(line)
    for line in terminal_text.evidence(verification.certificate):
        print(line)
    return exit_codes.OK


def chosen(legs: list[Leg], mode: str | None, build: str | None) -> Leg:
    """Choose the leg of a mode and a build; UsageError if there is none, or several."""
    fitting = [leg for leg in legs if mode in (None, leg["mode"]) and build in (None, leg["build"])]
    names = ", ".join(leg["name"] for leg in legs)
    if not fitting:
        raise UsageError(f"no leg of mode {mode or 'any'} on build {build or 'any'}; there are {names}")
    if len(fitting) > 1:
        raise UsageError(
            f"{', '.join(leg['name'] for leg in fitting)} are {len(fitting)} legs and a certificate is of "
            "one; give --mode, and --build if a mode was run on several"
        )
    return fitting[0]
