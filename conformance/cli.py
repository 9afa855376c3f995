"""The console script ``conformance``. Each command is a module of ``conformance.commands``."""

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
from conformance.errors import OUTPUT_CLOSED, UsageError
from conformance.process_control import exit_with_parent

_COMMANDS = (
    *(run, merge, report, diff, expect, doctor, query, repro, explain, issue, targets, certify),
    *(torch, matrix, site, relay, readiness, export, ci),
)

#: The commands that CI workflows call with the workflow's inputs as option values. For these commands, an
#: empty value means that the input is not set. Each command checks the options that it requires.
_EMPTY_OPTION_IS_UNSET = ("ci", "relay", "readiness", "site")


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    top = argparse.ArgumentParser(
        prog="conformance", description="Check that a PyTorch backend meets the requirements of torch."
    )
    top.add_argument("--version", action="version", version=f"conformance {conformance.__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for module in _COMMANDS:
        module.add_parser(commands)
    return top


def _fix_hash_seed() -> None:
    """Restart this process with PYTHONHASHSEED=0, unless it has this hash seed already.

    torch makes the samples of a few operators by iterating over sets of strings, whose order depends on the
    hash seed. All processes of the suite have the same hash seed, so that they make the same samples.
    """
    if os.environ.get("PYTHONHASHSEED") != "0":
        isolated = ["-I"] if sys.flags.isolated else []
        command = [sys.executable, *isolated, "-m", "conformance", *sys.argv[1:]]
        os.execve(sys.executable, command, os.environ | {"PYTHONHASHSEED": "0"})


def main(arguments: list[str] | None = None) -> int:
    """Run a command and return its exit code.

    In addition to the exit codes of the command:

    * 2: the user can fix the error, which is printed in one sentence.
    * 3: a fault of the suite. It must be different from 1, which means unexpected results.
    * 141: the reader closed the output (``| head``). Shells report this code for SIGPIPE.
    """
    options = command_parser().parse_args(arguments)
    if options.command not in _EMPTY_OPTION_IS_UNSET and (empty := _options_with_empty_value(arguments)):
        print(
            f"conformance {options.command}: {empty[0]} has an empty value; give a value, or omit the option",
            file=sys.stderr,
        )
        return 2
    if arguments is None:
        _fix_hash_seed()
        if exit_with_parent.VARIABLE in os.environ:  # another process of the suite started this process
            exit_with_parent.exit_with_parent()
    try:
        code: int = options.execute(options)
        if sys.stdout is not None:  # sys.stdout is None if the shell closed it by >&-
            sys.stdout.flush()
    except UsageError as error:
        print(f"conformance {options.command}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"conformance {options.command}: stopped by the user", file=sys.stderr)
        return 3
    except BrokenPipeError:
        _redirect_stdout_to_null()
        return OUTPUT_CLOSED
    except OSError as error:
        if _is_path_of_command_line(error.filename, options):
            print(
                f"conformance {options.command}: {error.filename} cannot be used ({error.strerror}); choose "
                "another path",
                file=sys.stderr,
            )
            return 2
        if error.errno != errno.ENOSPC or error.filename is not None:
            return _report_suite_fault(options.command)
        _redirect_stdout_to_null()
        print(
            f"conformance {options.command}: its output cannot be written ({error.strerror})", file=sys.stderr
        )
        return 2
    except Exception:
        return _report_suite_fault(options.command)
    return code


def _options_with_empty_value(arguments: list[str] | None) -> list[str]:
    """Return the options of the command line whose value is an empty text.

    An empty value is often a variable of a script that is not set.
    """
    words = sys.argv[1:] if arguments is None else arguments
    pairs = zip(words, [*words[1:], "-"], strict=True)
    return [
        option.rstrip("=")
        for option, value in pairs
        if (option.startswith("--") and option.endswith("="))
        or (option.startswith("-") and not value.strip())
    ]


def _is_path_of_command_line(file_name: object, options: argparse.Namespace) -> bool:
    """Return True if ``file_name`` is a path argument of the command line, a folder that contains one of
    these paths, or a path inside one of these paths.
    """
    if not isinstance(file_name, (str, bytes)):
        return False
    file = Path(os.fsdecode(file_name)).absolute()
    named = [value.absolute() for value in vars(options).values() if isinstance(value, Path)]
    return any(file == path or file in path.parents or path in file.parents for path in named)


def _redirect_stdout_to_null() -> None:
    """Redirect stdout to the null device, so that Python's flush of stdout at exit does not fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _report_suite_fault(command: str) -> int:
    """Print the current exception as a fault of the suite, and return the exit code."""
    traceback.print_exc()
    print(f"conformance {command}: a fault of the suite, please report it", file=sys.stderr)
    return 3
