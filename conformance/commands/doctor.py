"""``conformance doctor``: what a target's device lacks, before any case is run."""

from __future__ import annotations

import argparse
import os
from typing import Any

from conformance import target_file
from conformance.commands import common


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser("doctor", help="show what the dispatcher and the device's module lack")
    common.target(parser)
    parser.add_argument("--mode", metavar="M", help="mode (default: eager)")
    parser.add_argument("--all", action="store_true", help="show long lists in full")
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    """Print the table; exit code 1 where something is missing."""
    file = target_file.load(arguments.target)
    mode = arguments.mode or file.default_mode
    file.check_mode(mode)
    os.environ.update(file.variables(mode))
    os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")

    import torch

    from conformance import probe
    from conformance.accelerator import bring_up
    from conformance.doctor import facts

    target = file.target(mode)
    bring_up(target)
    print(f"target {file.name}, device {file.device}, torch {torch.__version__}")
    found = facts.collect(target)
    wrong = probe.known_answers(target)
    found.append(
        facts.Fact("known answers", not wrong, "; ".join(wrong.values()) or "copy, add and matmul are right")
    )
    width = max(len(fact.subject) for fact in found)
    for fact in found:
        mark = {True: "ok", False: "MISSING", None: "-"}[fact.ok]
        print(f"{mark:8s}{fact.subject:{width}s}  {fact.text}")
        if fact.items:
            limit = 10**9 if arguments.all else facts._SHOWN
            print(f"{'':8s}{'':{width}s}  {facts.shorten(fact.items, limit)}")
    missing = sum(fact.ok is False for fact in found)
    print(f"{missing} of {len(found)} are missing" if missing else "nothing is missing")
    return 1 if missing else 0
