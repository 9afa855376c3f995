"""The console script ``conformance``: one module of ``conformance.commands`` per command."""

from __future__ import annotations

import argparse
import errno
import os
import sys
import traceback
from pathlib import Path

import conformance
from conformance.commands import (
    certify,
    ci,
    diff,
    doctor,
    expect,
    explain,
    export,
    issue,
    matrix,
    merge,
    query,
    readiness,
    relay,
    report,
    repro,
    run,
    site,
    targets,
    torch,
)
from conformance.errors import UsageError
from conformance.process_control import exit_with_parent

#: The exit code that shells show for a process that a closed pipe ended.
CLOSED = 141

_COMMANDS = (
    *(run, merge, report, diff, expect, doctor, query, repro, explain, issue, targets, certify),
    *(torch, matrix, site, relay, readiness, export, ci),
)


def command_parser() -> argparse.ArgumentParser:
    """Build the parser of the whole command line."""
    top = argparse.ArgumentParser(
        prog="conformance", description="Check that a PyTorch backend does what torch promises."
    )
    top.add_argument("--version", action="version", version=f"conformance {conformance.__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for module in _COMMANDS:
        module.add(commands)
    return top


def _fix_hash_seed() -> None:
    """Start again with the one hash seed that every run, worker, retry and repro shares.

    torch makes the samples of a few operators by iterating over sets of words, whose order the seed decides.
    """
    if os.environ.get("PYTHONHASHSEED") != "0":
        isolated = ["-I"] if sys.flags.isolated else []
        command = [sys.executable, *isolated, "-m", "conformance", *sys.argv[1:]]
        os.execve(sys.executable, command, os.environ | {"PYTHONHASHSEED": "0"})


def main(arguments: list[str] | None = None) -> int:
    """Run a command and return its exit code.

    2 with one sentence for what the user can fix; 3 for a fault of the suite, which must not read as 1; 141
    if the reader closed the output (``| head``), as shells count it.
    """
    options = command_parser().parse_args(arguments)
    if arguments is None:
        _fix_hash_seed()
        if exit_with_parent.VARIABLE in os.environ:  # a process of the suite started this one
            exit_with_parent.follow()
    try:
        code: int = options.execute(options)
        if sys.stdout is not None:  # as with >&-
            sys.stdout.flush()
    except UsageError as error:
        print(f"conformance {options.command}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"conformance {options.command}: stopped by the user", file=sys.stderr)
        return 3
    except BrokenPipeError:
        _discard_output()
        return CLOSED
    except OSError as error:
        if _is_argument(error.filename, options):
            print(
                f"conformance {options.command}: {error.filename} cannot be used ({error.strerror}); name "
                "another place",
                file=sys.stderr,
            )
            return 2
        if error.errno != errno.ENOSPC or error.filename is not None:
            return _report_suite_fault(options.command)
        _discard_output()
        print(
            f"conformance {options.command}: its output cannot be written ({error.strerror})", file=sys.stderr
        )
        return 2
    except Exception:
        return _report_suite_fault(options.command)
    return code


def _is_argument(file_name: object, options: argparse.Namespace) -> bool:
    """Return True if the user named this file, or one above or below it."""
    if not isinstance(file_name, (str, bytes)):
        return False
    file = Path(os.fsdecode(file_name)).absolute()
    named = [value.absolute() for value in vars(options).values() if isinstance(value, Path)]
    return any(file == path or file in path.parents or path in file.parents for path in named)


def _discard_output() -> None:
    """Keep Python from writing the rest of the buffer at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _report_suite_fault(command: str) -> int:
    """Report the current exception as a fault of the suite."""
    traceback.print_exc()
    print(f"conformance {command}: a fault of the suite, please report it", file=sys.stderr)
    return 3
