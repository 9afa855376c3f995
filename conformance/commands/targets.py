"""``conformance targets``: list the known targets, or write a file for a new one."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from conformance.errors import UsageError
from conformance.model.vocabulary import CAPABILITIES
from conformance.target import file as target_file


def add_parser(commands: Any) -> None:
    """Add the command ``targets`` to the command line."""
    parser = commands.add_parser("targets", help="list the known targets, or write a file for a new one")
    parser.add_argument("--new", metavar="DEVICE", help="probe a device and write DEVICE.toml")
    parser.add_argument(
        "--module", metavar="MODULE", help="module that registers the device when it is imported"
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="file to write (default: DEVICE.toml)"
    )
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    """List the known targets, or write a target file."""
    if arguments.new is None:
        for name in target_file.known_targets():
            file = target_file.load(name)
            modes = ", ".join(file.modes)
            marks = "".join(f", {mark}" for mark in ("simulated", "untested") if getattr(file, mark))
            print(f"{name}: device {file.device}, module {file.module or 'torch'}, modes {modes}{marks}")
        return 0
    path: Path = arguments.output or Path(f"{arguments.new.replace(':', '_')}.toml")
    if path.suffix != ".toml":
        raise UsageError(f"{path} does not end in .toml, the suffix of target files; choose another name")
    if path.exists():
        raise UsageError(f"{path} exists already; remove it or choose another file with -o")
    from conformance.doctor import target_draft

    draft = target_draft.draft_target(arguments.new, arguments.module)
    try:
        path.write_text(draft.text)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written ({error.strerror}); choose another file with -o"
        ) from None
    print(
        f"wrote {path}; complete the entries that a probe cannot determine, then run "
        f"'conformance doctor --target {path}'"
    )
    if draft.missing:
        first = draft.missing[0]
        print(
            f"{len(draft.missing)} capabilities are missing; implement {first.subject} first "
            f"({CAPABILITIES[first.subject]})" + (f": it {first.impact}" if first.impact else "")
        )
    return 0
