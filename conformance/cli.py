"""The console script ``conformance``: one module of ``conformance.commands`` per command."""

from __future__ import annotations

import argparse
import sys

import conformance
from conformance.commands import doctor, report, repro, run, targets
from conformance.errors import UsageError

_COMMANDS = (run, report, doctor, repro, targets)


def parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    top = argparse.ArgumentParser(
        prog="conformance", description="Check that a PyTorch backend does what torch promises."
    )
    top.add_argument("--version", action="version", version=f"conformance {conformance.__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for module in _COMMANDS:
        module.add(commands)
    return top


def main(arguments: list[str] | None = None) -> int:
    """Run a command and return its exit code; 2 with one sentence for everything that the user can mend."""
    options = parser().parse_args(arguments)
    try:
        code: int = options.execute(options)
    except UsageError as error:
        print(f"conformance {options.command}: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        return 3
    return code
