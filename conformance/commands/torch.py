"""``conformance torch``: the build of torch that is installed or requested, and its fit for a backend."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from conformance.builds import abi, build_spec, describe, fork_like, fork_like_environment, torch_guard
from conformance.errors import UsageError


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "torch", help="builds of torch: resolve, describe, relabel, compare ABIs, guard"
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    command = actions.add_parser("describe", help="version, commit, kind with evidence, measured ABI")
    command.add_argument(
        "wheel", nargs="?", type=Path, help="a wheel of torch (default: the installed torch)"
    )
    _python(command)
    command.add_argument("--json", action="store_true")
    command.set_defaults(execute=_describe)

    command = actions.add_parser("abi", help="compare the C++ ABI that a backend was built for with torch's")
    command.add_argument(
        "backend", nargs="?", type=Path, help="shared object, folder or wheel; nothing of it is imported"
    )
    command.add_argument("--package", metavar="NAME", help="import name of an installed backend instead")
    command.add_argument("--torch", type=Path, metavar="WHEEL", help="(default: the installed torch)")
    _python(command)
    command.set_defaults(execute=_abi)

    command = actions.add_parser("resolve", help="check a word for a build, and fetch its wheel")
    command.add_argument("build", help="2.6.0, newest, nightly, a path of a wheel, https://….whl#sha256=…")
    command.add_argument("--variant", help="an index of PyTorch's own: cpu, cu126, …")
    command.add_argument("--download", type=Path, metavar="DIR", help="fetch the wheel into this folder")
    _python(command)
    command.set_defaults(execute=_resolve)

    command = actions.add_parser("fork-like", help="the binaries of a public build under the label of a fork")
    command.add_argument("wheel", nargs="?", type=Path, metavar="WHEEL", help="public wheel of torch")
    command.add_argument(
        "--from-environment",
        nargs="?",
        const=Path(sys.executable),
        type=Path,
        metavar="PYTHON",
        help="lay an environment over that of this Python instead (default: the one that runs)",
    )
    command.add_argument("-o", "--output", type=Path, required=True, metavar="DIR")
    command.add_argument("--label", help="local version label (default: git and the commit of the wheel)")
    command.set_defaults(execute=_fork_like)

    command = actions.add_parser(
        "record", help="record the installed torch, before other things are installed"
    )
    command.add_argument("file", type=Path)
    command.add_argument(
        "--constraints", type=Path, metavar="FILE", help="write a constraints file for pip too"
    )
    command.add_argument(
        "--wheel", type=Path, help="the wheel that torch came from, which the constraint names"
    )
    _python(command)
    command.set_defaults(execute=_record)

    command = actions.add_parser("check", help="exit code 1 if torch is no longer the recorded one")
    command.add_argument("file", type=Path)
    command.add_argument("--constraints", metavar="FILE", help="named in the advice")
    _python(command)
    command.set_defaults(execute=_check)


def _python(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--python",
        default=sys.executable,
        metavar="PYTHON",
        help="interpreter of the environment (default: this one)",
    )


def _describe(arguments: argparse.Namespace) -> int:
    if arguments.wheel is not None:
        build = describe.of_wheel(arguments.wheel)
    else:
        build = describe.of_environment(arguments.python)
    if arguments.json:
        print(json.dumps(build.to_json(), indent=1, sort_keys=True))
        return 0
    print(f"torch {build.version}")
    print(f"commit   {build.git_version or 'unknown'}")
    print(f"kind     {build.kind}: {'; '.join(build.evidence)}")
    print(f"C++ ABI  {build.abi_evidence}")
    print(f"record   {build.record or 'none: it was not installed from a wheel'}")
    return 0


def _abi(arguments: argparse.Namespace) -> int:
    if (arguments.backend is None) == (arguments.package is None):
        raise UsageError("name either a path of a backend or --package")
    if arguments.package is not None:
        arguments.backend = describe.package(arguments.python, arguments.package)
    built_for = abi.of_extension(arguments.backend)
    torch = (
        describe.of_wheel(arguments.torch) if arguments.torch else describe.of_environment(arguments.python)
    )
    print(f"{arguments.backend.name}: {built_for.words()}")
    print(f"torch {torch.version}: {torch.abi_evidence}")
    wrong = abi.mismatch(arguments.backend.name, built_for, torch.version, abi.Abi(torch.abi))
    if wrong is not None:
        print(wrong)
        return 1
    if built_for.new and built_for.old:
        print(
            f"the libraries of {arguments.backend.name} were built for both ABIs; build all of them for one"
        )
        return 1
    if built_for.value == "unknown":
        print(f"the symbols of {arguments.backend.name} do not show whether it fits")
    return 0


def _resolve(arguments: argparse.Namespace) -> int:
    request = build_spec.parse(arguments.build, arguments.variant)
    wheel = build_spec.download(request, arguments.download, arguments.python) if arguments.download else None
    print(build_spec.written(request, wheel))
    return 0


def _fork_like(arguments: argparse.Namespace) -> int:
    if (arguments.wheel is None) == (arguments.from_environment is None):
        raise UsageError("name either a wheel or --from-environment")
    started = time.monotonic()
    if arguments.wheel is not None:
        result = str(fork_like.repack(arguments.wheel, arguments.output, arguments.label))
    else:
        fresh = fork_like_environment.overlay(arguments.from_environment, arguments.output, arguments.label)
        result = f"{arguments.output}{'' if fresh else ' (unchanged)'}"
    print(f"{result} in {time.monotonic() - started:.2f} s")
    return 0


def _record(arguments: argparse.Namespace) -> int:
    build = describe.of_environment(arguments.python)
    line = torch_guard.constraint(describe.installed_version(arguments.python), arguments.wheel)
    torch_guard.record(build, arguments.file)
    if arguments.constraints is not None:
        arguments.constraints.write_text(line + "\n")
    print(f"torch {build.name()} written to {arguments.file}")
    return 0


def _check(arguments: argparse.Namespace) -> int:
    before = torch_guard.recorded(arguments.file)
    place = describe.locate(arguments.python)
    if place.site is None:
        print(f"torch was removed: it was {before.name()}; install it again")
        return 1
    wrong = torch_guard.verdict(before, Path(place.site), arguments.constraints)
    print(wrong or f"torch is {before.name()}, as recorded")
    return 0 if wrong is None else 1
