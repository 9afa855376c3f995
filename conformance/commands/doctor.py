"""``conformance doctor``: list the missing features of a target's device, and the next steps.

The command runs no case of the suite.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conformance.commands import common
from conformance.errors import UsageError
from conformance.plan import levels
from conformance.process_control import supervisor
from conformance.target import file as target_file

if TYPE_CHECKING:
    from conformance.doctor.registration_checks import Fact
    from conformance.target.file import TargetFile

#: The maximum number of displayed next steps.
STEPS = 12


def add_parser(commands: Any) -> None:
    """Add the command ``doctor`` to the command line."""
    parser = commands.add_parser("doctor", help="show the missing features of a device, and what to do next")
    common.add_target_option(parser)
    parser.add_argument("--mode", metavar="M", help="mode (default: eager)")
    parser.add_argument(
        "--level", default="bringup", metavar="L", help="level whose operators are tried (default: bringup)"
    )
    parser.add_argument("--all", action="store_true", help="show long lists in full")
    parser.add_argument(
        "--watch",
        action="store_true",
        help="run again whenever a file of the backend or the target file changes, and show the differences",
    )
    common.add_extra_option(parser)
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    """Print the facts about the device by group.

    Return exit code 1 if a feature that the target declares is missing.
    """
    levels.check_level(arguments.level)
    file = target_file.load(arguments.target)
    mode = arguments.mode or file.default_mode
    file.check_mode(mode)
    if arguments.watch:
        return _rerun_on_file_changes(arguments, file, mode)
    os.environ.update(file.variables(mode))
    os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")

    import torch

    from conformance.doctor import (
        declaration_checks,
        missing_feature_impact,
        prerequisites,
        registration_checks,
    )
    from conformance.expectations import target_file_patterns
    from conformance.plan import plan
    from conformance.subjects import catalogue

    catalogue.load_extra(arguments.extra)
    target = file.target(mode)
    warnings.simplefilter("ignore")
    print(f"target {file.name}, device {file.device}, torch {torch.__version__}")
    if file.untested:
        print(UNTESTED.format(name=file.name))
    _import_backend(target)
    target_file_patterns.check_target_file_patterns(file, lambda: plan.build_plan(target, "full", file.modes))
    operators, capabilities = declaration_checks.collect_trial_facts(file, target, arguments.level)
    groups = {
        "Device": [
            *registration_checks.collect_registration_facts(target),
            *_known_answer_facts(target),
            *prerequisites.collect_prerequisite_facts(target),
        ],
        "Operators": operators,
        "Capabilities": capabilities,
    }
    limit = 10**9 if arguments.all else registration_checks._SHOWN
    for title, group in groups.items():
        if group:
            print(f"\n{title}")
            _print_table(group, limit)
    missing = [
        missing_feature_impact.fact_with_impact(fact, target, arguments.level)
        for group in groups.values()
        for fact in group
        if fact.ok is False
    ]
    print()
    if missing:
        _print_next_steps(missing, arguments)
    total = sum(map(len, groups.values()))
    print(f"{len(missing)} of {total} are missing" if missing else "nothing is missing")
    return 1 if missing else 0


def _rerun_on_file_changes(arguments: argparse.Namespace, file: TargetFile, mode: str) -> int:
    """Run the doctor in a child process, now and after each change of a file.

    Return the exit code of the last run when the user presses Ctrl-C.
    """
    from conformance.doctor import file_watch

    watched = file_watch.watched_paths(file.target(mode).module, file.path)
    command = [sys.executable, "-m", "conformance", "doctor", "--target", str(file.path), "--mode", mode]
    command += ["--level", arguments.level, *(["--all"] if arguments.all else [])]
    for module in arguments.extra:
        command += ["--extra", module]
    changed = file_watch.watch_changes(watched)
    code = 1
    try:
        code, before = _run_doctor(command)
        print("\n".join(before), flush=True)
        while True:
            print("\nwatching; stop with Ctrl-C", flush=True)
            paths = next(changed)
            more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
            print(f"{paths[0].name}{more} changed", flush=True)
            code, now = _run_doctor(command)
            print("\n".join(file_watch.changed_feature_lines(before, now)), flush=True)
            before = now
    except KeyboardInterrupt:
        return code


def _run_doctor(command: Sequence[str]) -> tuple[int, list[str]]:
    """Return the exit code and the output lines of the doctor, errors included."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.txt"
        end = supervisor.run_command(command, log=log, limit=math.inf)
        return end.code, log.read_text(errors="replace").splitlines()


UNTESTED = (
    "{name} is untested: this target file was written from public documents and has never been run. "
    "The mark is removed when somebody submits a first run"
)


def _import_backend(target: Any) -> None:
    """Import the backend module.

    Raise UsageError if torch does not know the device, or if a different device is the current accelerator. A
    device without any accelerator in torch is accepted.
    """
    import torch

    from conformance import torch_testing_internals
    from conformance.device.bring_up import check_device, import_backend

    import_backend(target)
    try:
        check_device(target)
    except UsageError:
        current = torch_testing_internals.current_accelerator()
        try:
            torch.empty(1, device=target.device)
        except Exception:
            current = current or torch.device("cpu")
        if current is not None:
            raise  # a different device is the accelerator, or the device does not exist


def _known_answer_facts(target: Any) -> list[Fact]:
    from conformance.device import known_answer_probe
    from conformance.doctor.registration_checks import Fact

    wrong = known_answer_probe.wrong_answers(target)
    step = "fix copies to and from the CPU first: every check needs them"
    return [
        Fact(
            "known answers",
            not wrong,
            "; ".join(text.split(". ")[0] for text in wrong.values()) or "copy, add and matmul are right",
            step=step if "copy" in wrong else f"make {' and '.join(wrong)} of two small matrices work",
        )
    ]


def _print_table(facts_of_group: Sequence[Fact], limit: int) -> None:
    from conformance.doctor import registration_checks

    width = max(len(fact.subject) for fact in facts_of_group)
    for fact in facts_of_group:
        mark = {True: "ok", False: "MISSING", None: "-"}[fact.ok]
        print(f"{mark:8s}{fact.subject:{width}s}  {fact.text}")
        if fact.items:
            print(f"{'':8s}{'':{width}s}  {registration_checks.shorten(fact.items, limit)}")


def _print_next_steps(missing: Sequence[Fact], arguments: argparse.Namespace) -> None:
    steps: dict[str, str] = {}
    for fact in missing:
        if fact.step:
            steps[fact.step] = steps.get(fact.step) or fact.impact
    print("Next")
    for number, (step, stakes) in enumerate(list(steps.items())[:STEPS], 1):
        print(f"  {number}. {step}")
        if stakes:
            print(f"     {stakes}")
    if len(steps) > STEPS:
        print(f"  and {len(steps) - STEPS} more of this kind")
    print(f"  then conformance doctor --target {arguments.target} again")
