"""``conformance torch``: describe, download, relabel and guard builds of torch, and compare C++ ABIs."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from conformance.builds import abi, build_spec, describe, fork_like, fork_like_environment, torch_guard
from conformance.errors import UsageError


def add_parser(commands: Any) -> None:
    """Add the command ``torch`` to the command line."""
    parser = commands.add_parser(
        "torch", help="builds of torch: describe, download, relabel, guard, compare ABIs"
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    command = actions.add_parser("describe", help="print version, commit, kind with evidence, measured ABI")
    command.add_argument(
        "wheel", nargs="?", type=Path, help="a wheel of torch (default: the installed torch)"
    )
    _add_python_option(command)
    command.add_argument("--json", action="store_true")
    command.set_defaults(execute=_execute_describe)

    command = actions.add_parser("abi", help="compare the C++ ABI of a backend with the ABI of torch")
    command.add_argument(
        "backend", nargs="?", type=Path, help="shared object, folder or wheel; the command imports nothing"
    )
    command.add_argument(
        "--package", metavar="NAME", help="import name of an installed backend, instead of a path"
    )
    command.add_argument("--torch", type=Path, metavar="WHEEL", help="(default: the installed torch)")
    _add_python_option(command)
    command.set_defaults(execute=_execute_abi)

    command = actions.add_parser("resolve", help="check a build specification, and download its wheel")
    command.add_argument("build", help="2.6.0, newest, nightly, path of a wheel, https://….whl#sha256=…")
    command.add_argument("--variant", help="one of PyTorch's own indexes: cpu, cu126, …")
    command.add_argument("--download", type=Path, metavar="DIR", help="download the wheel into this folder")
    _add_python_option(command)
    command.set_defaults(execute=_execute_resolve)

    command = actions.add_parser("fork-like", help="repack a public build under the version label of a fork")
    command.add_argument("wheel", nargs="?", type=Path, metavar="WHEEL", help="public wheel of torch")
    command.add_argument(
        "--from-environment",
        nargs="?",
        const=Path(sys.executable),
        type=Path,
        metavar="PYTHON",
        help="make an overlay of the environment of this Python, instead (default: the running Python)",
    )
    command.add_argument("-o", "--output", type=Path, required=True, metavar="DIR")
    command.add_argument("--label", help="local version label (default: git and the commit of the wheel)")
    command.set_defaults(execute=_execute_fork_like)

    command = actions.add_parser(
        "record", help="record the installed torch before other packages are installed"
    )
    command.add_argument("file", type=Path)
    command.add_argument(
        "--constraints", type=Path, metavar="FILE", help="also write a constraints file for pip"
    )
    command.add_argument(
        "--wheel", type=Path, help="the wheel that torch was installed from, for the constraint"
    )
    _add_python_option(command)
    command.set_defaults(execute=_execute_record)

    command = actions.add_parser("check", help="exit with 1 if torch differs from the recorded build")
    command.add_argument("file", type=Path)
    command.add_argument("--constraints", metavar="FILE", help="constraints file to mention in the advice")
    _add_python_option(command)
    command.set_defaults(execute=_execute_check_unchanged)


def _add_python_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--python",
        default=sys.executable,
        metavar="PYTHON",
        help="interpreter of the environment (default: this one)",
    )


def _execute_describe(arguments: argparse.Namespace) -> int:
    if arguments.wheel is not None:
        build = describe.describe_wheel(arguments.wheel)
    else:
        build = describe.describe_environment(arguments.python)
    if arguments.json:
        print(json.dumps(build.to_json(), indent=1, sort_keys=True))
        return 0
    print(f"torch {build.version}")
    print(f"commit   {build.git_version or 'unknown'}")
    print(f"kind     {build.kind}: {'; '.join(build.evidence)}")
    print(f"C++ ABI  {build.abi_evidence}")
    print(f"record   {build.record or 'none: it was not installed from a wheel'}")
    return 0


def _execute_abi(arguments: argparse.Namespace) -> int:
    if (arguments.backend is None) == (arguments.package is None):
        raise UsageError("give either the path of a backend, or --package")
    if arguments.package is not None:
        arguments.backend = describe.locate_package(arguments.python, arguments.package)
    built_for = abi.abi_of_extension(arguments.backend)
    torch = (
        describe.describe_wheel(arguments.torch)
        if arguments.torch
        else describe.describe_environment(arguments.python)
    )
    print(f"{arguments.backend.name}: {built_for.describe()}")
    print(f"torch {torch.version}: {torch.abi_evidence}")
    wrong = abi.abi_mismatch_message(arguments.backend.name, built_for, torch.version, abi.Abi(torch.abi))
    if wrong is not None:
        print(wrong)
        return 1
    if built_for.new and built_for.old:
        print(f"the libraries of {arguments.backend.name} were built for both ABIs; build all for one ABI")
        return 1
    if built_for.value == "unknown":
        print(f"the ABI of {arguments.backend.name} cannot be determined from its symbols")
    return 0


def _execute_resolve(arguments: argparse.Namespace) -> int:
    request = build_spec.parse_build_spec(arguments.build, arguments.variant)
    wheel = (
        build_spec.download_wheel(request, arguments.download, arguments.python)
        if arguments.download
        else None
    )
    print(build_spec.request_json(request, wheel))
    return 0


def _execute_fork_like(arguments: argparse.Namespace) -> int:
    if (arguments.wheel is None) == (arguments.from_environment is None):
        raise UsageError("give either a wheel, or --from-environment")
    started = time.monotonic()
    if arguments.wheel is not None:
        result = str(fork_like.make_fork_like_wheel(arguments.wheel, arguments.output, arguments.label))
    else:
        created = fork_like_environment.make_fork_like_overlay(
            arguments.from_environment, arguments.output, arguments.label
        )
        result = f"{arguments.output}{'' if created else ' (unchanged)'}"
    print(f"{result} in {time.monotonic() - started:.2f} s")
    return 0


def _execute_record(arguments: argparse.Namespace) -> int:
    build = describe.describe_environment(arguments.python)
    line = torch_guard.pip_constraint_line(describe.installed_version(arguments.python), arguments.wheel)
    torch_guard.write_record(build, arguments.file)
    if arguments.constraints is not None:
        arguments.constraints.write_text(line + "\n")
    print(f"torch {build.name()} written to {arguments.file}")
    return 0


def _execute_check_unchanged(arguments: argparse.Namespace) -> int:
    before = torch_guard.read_record(arguments.file)
    environment = describe.describe_interpreter(arguments.python)
    if environment.site is None:
        print(f"torch was removed: it was {before.name()}; install it again")
        return 1
    wrong = torch_guard.torch_change_problem(before, Path(environment.site), arguments.constraints)
    print(wrong or f"torch is {before.name()}, as recorded")
    return 0 if wrong is None else 1
