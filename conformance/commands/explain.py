"""``conformance explain``: the promise of a result, its inputs and the faults that it is there to see."""

from __future__ import annotations

import argparse
import inspect
import os
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conformance.commands import common
from conformance.errors import UsageError
from conformance.expectations.aliases import Aliases
from conformance.model import documentation
from conformance.model.verdicts import ResultId, seed_of

if TYPE_CHECKING:
    from conformance.framework.property import Property

_ROOT = Path(__file__).parents[1]
#: Samples that are listed one by one.
SHOWN = 12


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "explain", help="show the promise of a result, its inputs and the faults that it is there to see"
    )
    parser.add_argument("result_id", metavar="RESULT_ID", help="e.g. value/add@float32")
    parser.add_argument(
        "--samples", default="default", type=common.samples, metavar="all|N", help="samples per result"
    )
    common.extra(parser)
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    """Print the explanation; no device is touched."""
    try:
        result_id = ResultId.parse(Aliases.load().resolve(arguments.result_id))
    except ValueError as error:
        raise UsageError(str(error)) from None
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"

    from conformance.commands.repro import find_kind
    from conformance.properties.registry import find
    from conformance.samples import sample_limit
    from conformance.subjects import catalogue

    catalogue.load_extra(arguments.extra)
    sample_limit.choose(arguments.samples)
    kind = find_kind(result_id)
    for line in explanation(find(kind, result_id.case.property), result_id):
        print(line)
    return 0


def explanation(entry: Property, result_id: ResultId) -> Iterator[str]:
    """Yield the lines about a result of a property; UsageError if it has no result for that dtype."""
    from conformance.subjects import catalogue
    from conformance.target import file as target_file

    cpu = target_file.load("cpu").target(entry.modes[0])
    subjects = {subject.name: subject for subject in catalogue.subjects(entry.subject_kind)}
    dtypes = entry.applies(cpu, subjects[result_id.case.subject])
    # Of a property that the CPU has no results for, as of graphs, the device decides.
    if dtypes and result_id.dtype not in dtypes:
        raise UsageError(
            f"{result_id.case} has no result for {result_id.dtype!r} on the CPU; it has {', '.join(dtypes)}"
        )
    yield str(result_id)
    yield from textwrap.wrap(entry.statement, 100, initial_indent="  promise: ", subsequent_indent="    ")
    if entry.documentation:
        yield f"  documented: {documentation.address(entry.documentation)}"
    yield f"  level: {entry.level}, checked in {', '.join(entry.modes)}"
    if entry.capabilities:
        yield f"  needs: {', '.join(entry.capabilities)} (a target that does not declare all may refuse)"
    yield from _source(entry)
    yield from _designated_mutation_operators(entry)
    yield f"  seed: {seed_of(result_id.case.subject, result_id.dtype)}"
    yield from _samples(entry, result_id)
    yield f"  run it: conformance repro {result_id} --target TARGET"


def _source(entry: Property) -> Iterator[str]:
    """The file of the property and what that says; for a behaviour its program."""
    from conformance.behaviours.behaviour import BEHAVIOURS

    behaviour = BEHAVIOURS.get(entry.name)
    code = behaviour.program if behaviour is not None else entry.check
    file = Path(inspect.getsourcefile(code) or "")
    place = file.relative_to(_ROOT.parent) if file.is_relative_to(_ROOT.parent) else file.name
    yield f"  source: {place}:{inspect.getsourcelines(code)[1]}"
    if behaviour is not None:
        yield f"  area: {behaviour.area}; run on the CPU and on the device, the program must show the same:"
        yield from textwrap.indent(inspect.getsource(code).rstrip(), "    ").splitlines()
    elif text := inspect.getdoc(inspect.getmodule(code)):
        yield from textwrap.wrap(
            " ".join(text.split()), 100, initial_indent="  about: ", subsequent_indent="    "
        )


def _designated_mutation_operators(entry: Property) -> Iterator[str]:
    """Yield lines with the mutation operators that the property is designated to kill."""
    from conformance.behaviours.behaviour import BEHAVIOURS
    from conformance.plan.levels.mutation_operators import mutation_operators

    behaviour = BEHAVIOURS.get(entry.name)
    names = {entry.name, behaviour.area if behaviour is not None else entry.name}
    designated = {
        name: operator for name, operator in mutation_operators().items() if operator.designated in names
    }
    if behaviour is not None and behaviour.sees:
        yield f"  detects these injected faults in its test: {', '.join(behaviour.sees)}"
    if designated:
        yield "  is designated to kill these mutation operators (docs/mutation-testing.md):"
        for name, operator in designated.items():
            yield f"    {name}: {operator.text}"


def _samples(entry: Property, result_id: ResultId) -> Iterator[str]:
    from conformance.samples import sample_limit
    from conformance.samples.operators import dtype_of, samples_of
    from conformance.subjects import torch_databases

    if entry.subject_kind != "operator" or result_id.dtype == "any":
        return
    subject = torch_databases.find("operator", result_id.case.subject)
    try:
        found = samples_of(subject, dtype_of(result_id.dtype))
        chosen = found.chosen(sample_limit.limit())
    except Exception as error:  # torch has no samples of that dtype
        yield f"  inputs: torch's database has none ({type(error).__name__}: {error})"
        return
    yield f"  inputs: {len(chosen)} of {found.available} samples of torch's database"
    for sample in chosen[:SHOWN]:
        yield f"    {sample.index}: {sample.describe()}"
    if len(chosen) > SHOWN:
        yield f"    and {len(chosen) - SHOWN} more"
