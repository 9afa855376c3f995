"""``conformance repro``: run one result again, in this process, and show all that it says."""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import os
from typing import Any

from conformance import expectation, target_file
from conformance.commands import common
from conformance.errors import UsageError
from conformance.model import Result, ResultId


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser("repro", help="run one result again and show all that it says")
    parser.add_argument("result_id", metavar="RESULT_ID", help="e.g. value/add@float32")
    common.target(parser)
    parser.add_argument("--mode", metavar="M", help="mode (default: eager)")
    parser.add_argument(
        "--samples", default="default", type=common.samples, metavar="all|N", help="samples per result"
    )
    common.extra(parser)
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    """Run the result; exit code 1 where its verdict is an unexpected one."""
    file = target_file.load(arguments.target)
    mode = arguments.mode or file.default_mode
    file.check_mode(mode)
    try:
        result_id = ResultId.parse(expectation.Aliases.load().resolve(arguments.result_id))
    except ValueError as error:
        raise UsageError(str(error)) from None
    os.environ.update(file.variables(mode))
    os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
    faulthandler.enable()

    from conformance import catalogue, settings
    from conformance.accelerator import bring_up
    from conformance.execution import DeviceUnusable, Executor
    from conformance.plan import Case
    from conformance.property import find

    catalogue.load_extra(arguments.extra)
    settings.choose(arguments.samples)
    target = file.target(mode)
    bring_up(target)
    executor = Executor(target)
    kind = find_kind(result_id)
    entry = find(kind, result_id.case.property)
    if mode not in entry.modes:
        raise UsageError(
            f"property {entry.name!r} is not checked in mode {mode!r}; give --mode {' or '.join(entry.modes)}"
        )
    applies = entry.applies(target, executor.subject(kind, result_id.case.subject))
    if result_id.dtype not in applies:
        raise UsageError(
            f"{result_id.case} has no result for {result_id.dtype!r}; it has {', '.join(applies) or 'none'}"
        )
    print(f"{result_id}: {entry.statement}")
    with contextlib.suppress(DeviceUnusable):
        executor.run(Case(kind, entry.name, result_id.case.subject, (result_id.dtype,)))
    assert executor.last is not None
    show(executor.last)
    return int(executor.last.verdict.unexpected)


def find_kind(result_id: ResultId) -> str:
    """The kind of subject that a result id speaks of; UsageError where there is none."""
    from conformance import catalogue
    from conformance.property import find

    reasons = []
    for kind in catalogue.kinds():
        try:
            find(kind, result_id.case.property)
        except LookupError as error:
            reasons.append(str(error))
            continue
        if any(subject.name == result_id.case.subject for subject in catalogue.subjects(kind)):
            return kind
        reasons.append(f"no {kind} is called {result_id.case.subject!r}")
    raise UsageError(f"{result_id} does not exist: {'; '.join(reasons)}")


def show(result: Result) -> None:
    """Print a result in full."""
    print(f"verdict: {result.verdict.value}")
    print(f"seed: {result.seed}")
    print(f"comparisons: {result.comparisons}")
    if result.samples_available:
        print(f"samples: {result.samples_used} of {result.samples_available}")
    if result.placement is not None:
        print(f"placement: {result.placement.value}")
    for note in result.notes:
        print(f"note: {note}")
    for failure in result.failures:
        sample = "" if failure.sample is None else f" (sample {failure.sample})"
        print(f"{failure.kind.value}{sample}: {failure.message}")
    hidden = result.failure_count - len(result.failures)
    if hidden > 0:
        print(f"and {hidden} more failures")
