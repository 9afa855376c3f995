"""List the subjects of each kind: entries of torch's databases, overloads, collectives and API areas."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from typing import Any

from conformance import torch_testing_internals
from conformance.distributed.collectives import COLLECTIVES
from conformance.model.vocabulary import KINDS
from conformance.subjects import areas, overloads, supplementary_modules

#: The subjects of kind ``device``: parts of a device's API.
DEVICE = ("Stream", "Event", "Memory", "Copy", "Thread", "Graph", "Compile", "Profiler")


@dataclasses.dataclass(frozen=True)
class Subject:
    """One subject. ``name`` is unique within the kind. ``info`` is torch's record (OpInfo, ModuleInfo, …), or
    an :class:`~conformance.subjects.overloads.Overload`.
    """

    kind: str
    name: str
    info: Any = dataclasses.field(compare=False, repr=False)


def operator_name(info: Any) -> str:
    """Return ``name`` or ``name.variant`` of an OpInfo, which is unique within a release of torch."""
    variant = info.variant_test_name
    return f"{info.name}.{variant}" if variant else str(info.name)


@functools.cache
def subjects(kind: str) -> Sequence[Subject]:
    """Return all subjects of a kind in the order of torch's database.

    Operators that cannot run on the CPU are omitted, because they have no reference values
    (:func:`conformance.torch_testing_internals.is_device_specific`). Raise LookupError for an unknown kind.
    """
    if kind == "operator":
        entries = [
            Subject(kind, operator_name(info), info)
            for info in torch_testing_internals.op_db()
            if not torch_testing_internals.is_device_specific(info)
        ]
    elif kind == "module":
        entries = [Subject(kind, info.name, info) for info in torch_testing_internals.module_db()]
        entries += [
            Subject(kind, info.name, info)
            for info in supplementary_modules.supplementary_entries([entry.name for entry in entries])
        ]
    elif kind == "optimizer":
        entries = [
            Subject(kind, info.optim_cls.__name__, info) for info in torch_testing_internals.optim_db()
        ]
    elif kind == "device":
        entries = [Subject(kind, name, None) for name in DEVICE]
    elif kind == "collective":
        entries = [Subject(kind, collective.name, collective) for collective in COLLECTIVES]
    elif kind == "world":
        entries = [Subject(kind, name, None) for name in areas.WORLD]
    elif kind == "api":
        entries = [Subject(kind, name, None) for name in areas.AREAS]
    elif kind == "overload":
        entries = list(_overloads())
    else:
        raise LookupError(f"no subjects of kind {kind!r}; known kinds are {', '.join(KINDS)}")
    names = [subject.name for subject in entries]
    if len(set(names)) != len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise LookupError(f"{kind} names are not unique in torch's database: {', '.join(twice)}")
    return tuple(entries)


def _overloads() -> Iterator[Subject]:
    """Yield the overloads that the installed torch has and that an operator of its database calls."""
    operator_names = _by_name("operator")
    for name, overload in overloads.overload_table().items():
        operators = [operator for operator in overload.operators if operator in operator_names]
        if operators:
            yield Subject("overload", name, dataclasses.replace(overload, operators=operators))


@functools.cache
def _by_name(kind: str) -> dict[str, Subject]:
    return {subject.name: subject for subject in subjects(kind)}


def find(kind: str, name: str) -> Subject:
    """Return the subject with this kind and name; raise LookupError if it does not exist."""
    try:
        return _by_name(kind)[name]
    except KeyError:
        raise LookupError(f"no {kind} named {name!r} in torch's database") from None
