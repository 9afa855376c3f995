"""``conformance explain``: print the requirement behind a result, its inputs, and the detected faults."""

from __future__ import annotations

import argparse
import difflib
import inspect
import os
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conformance.commands import common
from conformance.errors import UsageError
from conformance.expectations.aliases import Aliases
from conformance.model import documentation
from conformance.model.verdicts import ResultId, seed_of
from conformance.model.vocabulary import KINDS

if TYPE_CHECKING:
    from conformance.framework.property import Property

_ROOT = Path(__file__).parents[1]
#: The maximum number of displayed samples.
SHOWN = 12


def add_parser(commands: Any) -> None:
    """Add the command ``explain`` to the command line."""
    parser = commands.add_parser(
        "explain", help="show the requirement behind a result, its inputs and the faults that it detects"
    )
    parser.add_argument(
        "result_id", metavar="RESULT_ID", help="e.g. value/add@float32; or the name of a property, e.g. value"
    )
    parser.add_argument(
        "--samples", default="default", type=common.parse_samples, metavar="all|N", help="samples per result"
    )
    common.add_seed_option(parser)
    common.add_extra_option(parser)
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    """Print the explanation without using a device."""
    if arguments.result_id.isprintable() and not set("/@") & set(arguments.result_id):
        return _explain_property(arguments.result_id, arguments.extra)
    try:
        result_id = ResultId.parse(Aliases.load().resolve(arguments.result_id))
    except ValueError as error:
        raise UsageError(str(error)) from None
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    common.set_run_seed(arguments)

    from conformance.commands.repro import subject_kind_of
    from conformance.properties.registry import find_property
    from conformance.samples import sample_limit
    from conformance.subjects import catalogue

    catalogue.load_extra(arguments.extra)
    sample_limit.set_limit(arguments.samples)
    kind = subject_kind_of(result_id)
    for line in explanation_lines(find_property(kind, result_id.case.property), result_id):
        print(line)
    return 0


def _explain_property(name: str, extra: Sequence[str]) -> int:
    """Print the explanation of a property, for each kind of subject that it checks. Raise UsageError if no
    property has the name.
    """
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    from conformance.properties.registry import properties
    from conformance.subjects import catalogue

    catalogue.load_extra(extra)
    entries = [entry for kind in KINDS for entry in properties(kind)]
    found = [entry for entry in entries if entry.name == name]
    if not found:
        similar = difflib.get_close_matches(name, {entry.name for entry in entries}, n=3, cutoff=0.5)
        hint = (
            f"did you mean {' or '.join(similar)}?"
            if similar
            else "a property is the part of a result id before the /"
        )
        raise UsageError(f"no property is called {name!r}; {hint}")
    for entry in found:
        print(f"{entry.name}, a property of subjects of kind {entry.subject_kind}")
        for line in _property_lines(entry):
            print(line)
    return 0


def explanation_lines(entry: Property, result_id: ResultId) -> Iterator[str]:
    """Yield the lines that explain a result.

    Raise UsageError if the property has no result in the dtype of ``result_id``.
    """
    from conformance.subjects import catalogue
    from conformance.target import file as target_file

    cpu = target_file.load("cpu").target(entry.modes[0])
    subjects = {subject.name: subject for subject in catalogue.subjects(entry.subject_kind)}
    dtypes = entry.applies(cpu, subjects[result_id.case.subject])
    # The CPU has no results for some properties, such as properties of device graphs. Then ``dtypes`` is
    # empty, and the device determines the dtypes.
    if dtypes and result_id.dtype not in dtypes:
        raise UsageError(
            f"{result_id.case} has no result for {result_id.dtype!r} on the CPU; it has {', '.join(dtypes)}"
        )
    yield str(result_id)
    yield from _property_lines(entry)
    yield f"  seed: {seed_of(result_id.case.subject, result_id.dtype)}"
    yield from _sample_lines(entry, result_id)
    yield f"  run it: conformance repro {result_id} --target TARGET"


def _property_lines(entry: Property) -> Iterator[str]:
    """Yield the lines that explain a property, whatever the subject."""
    yield from textwrap.wrap(entry.statement, 100, initial_indent="  requirement: ", subsequent_indent="    ")
    yield from textwrap.wrap(
        f"basis: {entry.basis.value}, {entry.ground or 'the page states the requirement'}",
        100,
        initial_indent="  ",
        subsequent_indent="    ",
    )
    if entry.documentation:
        yield f"  page: {documentation.page_url(entry.documentation)}"
    yield f"  level: {entry.level}, checked in {', '.join(entry.modes)}"
    if entry.capabilities:
        yield f"  needs: {', '.join(entry.capabilities)} (a target that does not declare them may refuse)"
    yield from _source_lines(entry)
    yield from _mutation_operator_lines(entry)


def _source_lines(entry: Property) -> Iterator[str]:
    """Yield the source location of a property. Then yield the program of a behaviour; for other properties
    the docstring of the module.
    """
    from conformance.behaviours.behaviour import BEHAVIOURS

    behaviour = BEHAVIOURS.get(entry.name)
    code = behaviour.program if behaviour is not None else inspect.unwrap(entry.check)
    file = Path(inspect.getsourcefile(code) or "")
    relative_path = file.relative_to(_ROOT.parent) if file.is_relative_to(_ROOT.parent) else file.name
    yield f"  source: {relative_path}:{inspect.getsourcelines(code)[1]}"
    if behaviour is not None:
        yield (
            f"  area: {behaviour.area}; this program runs on the CPU and on the device and must record equal "
            "observations:"
        )
        yield from textwrap.indent(inspect.getsource(code).rstrip(), "    ").splitlines()
    elif text := inspect.getdoc(inspect.getmodule(code)):
        yield from textwrap.wrap(
            " ".join(text.split()), 100, initial_indent="  about: ", subsequent_indent="    "
        )


def _mutation_operator_lines(entry: Property) -> Iterator[str]:
    """Yield the injected faults and the mutation operators that the property is meant to detect."""
    from conformance.behaviours.behaviour import BEHAVIOURS
    from conformance.plan.levels.mutation_operators import mutation_operators

    behaviour = BEHAVIOURS.get(entry.name)
    names = {entry.name, behaviour.area if behaviour is not None else entry.name}
    designated = {
        name: operator for name, operator in mutation_operators().items() if operator.designated in names
    }
    if behaviour is not None and behaviour.must_detect:
        yield f"  detects these injected faults in its test: {', '.join(behaviour.must_detect)}"
    if designated:
        yield "  is designated to kill these mutation operators (docs/mutation-testing.md):"
        for name, operator in designated.items():
            yield f"    {name}: {operator.text}"


def _sample_lines(entry: Property, result_id: ResultId) -> Iterator[str]:
    from conformance.samples import sample_limit
    from conformance.samples.operators import dtype_of, samples_of
    from conformance.subjects import torch_databases

    if entry.subject_kind != "operator" or result_id.dtype == "any":
        return
    subject = torch_databases.find("operator", result_id.case.subject)
    try:
        samples = samples_of(subject, dtype_of(result_id.dtype))
        chosen = samples.chosen(sample_limit.limit())
    except Exception as error:  # torch has no samples in that dtype
        yield f"  inputs: torch's database has no samples ({type(error).__name__}: {error})"
        return
    yield f"  inputs: {len(chosen)} of {samples.available} samples of torch's database"
    for sample in chosen[:SHOWN]:
        yield f"    {sample.index}: {sample.describe()}"
    if len(chosen) > SHOWN:
        yield f"    and {len(chosen) - SHOWN} more"
