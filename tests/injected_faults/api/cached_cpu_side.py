"""Both sides of a behaviour: the CPU's runs once per name, dtype and seed, and is shared.

Behaviours over the operators of torch's database take a quarter of their operators outside the nightly run:
how a fault is seen does not depend on the operator.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import sys
import warnings
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any
from unittest import mock

from conformance.behaviours import behaviour
from conformance.behaviours.lab import Deviation, Lab
from conformance.behaviours.observation import Observation
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import CaseId, Result, ResultId
from conformance.properties.api import _opinfo_calls
from conformance.properties.registry import find
from conformance.subjects.torch_databases import find as find_subject
from conformance.target import file as target_file
from tests.injected_faults.api import faults
from tests.support.nightly import NIGHTLY

TARGET = target_file.load("cpu").target("eager")
SEED = 7

#: What the CPU's side has shown, by name, dtype and seed. Observations are copies that no later call changes.
_shown: dict[tuple[str, str, int], tuple[list[Observation], dict[str, Deviation]]] = {}


@functools.cache
def _over_the_database() -> tuple[ModuleType, ...]:
    """Return the modules of behaviours that go over the operators of torch's database."""
    modules = [
        module for name, module in sys.modules.items() if name.startswith("conformance.properties.api.")
    ]
    return tuple(
        one
        for one in modules
        if one is not _opinfo_calls and getattr(one, "calls", None) is _opinfo_calls.calls
    )


def _of_each_fourth(lab: Lab, part: int, parts: int) -> Iterator[_opinfo_calls.OpInfoCall]:
    return _opinfo_calls.calls(lab, part, 4 * parts)


@contextlib.contextmanager
def _fewer_operators() -> Iterator[None]:
    """Within it a part of the database is a quarter of it, but for the nightly run."""
    with contextlib.ExitStack() as stack:
        for module in () if NIGHTLY else _over_the_database():
            stack.enter_context(mock.patch.object(module, "calls", _of_each_fourth))
        yield


def dtypes(name: str) -> list[str]:
    """Return the dtypes in which a behaviour applies to the CPU."""
    subject = find_subject("api", behaviour.BEHAVIOURS[name].area)
    return list(find("api", name).applies(TARGET, subject))


def checked(name: str, dtype: str | None = None) -> Result:
    """Check a behaviour, by default in its first dtype, with the device's side as it is planted."""
    entry = behaviour.BEHAVIOURS[name]
    dtype = dtype or dtypes(name)[0]
    recorder = Recorder(ResultId(CaseId(name, entry.area), dtype), seed=SEED)

    def program(lab: Lab) -> None:
        if lab.on_target:
            entry.program(lab)
            return
        known = _shown.get((name, dtype, SEED))
        if known is not None:
            lab.observations += known[0]
            lab.doubtful_errors.update(known[1])
            return
        entry.program(lab)
        if not lab.deviations:
            _shown[name, dtype, SEED] = (list(lab.observations), dict(lab.doubtful_errors))

    with _fewer_operators(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        behaviour.check_behaviour(dataclasses.replace(entry, program=program), TARGET, recorder)
    return recorder.result()


@contextlib.contextmanager
def around(surroundings: Callable[[Lab], contextlib.AbstractContextManager[Any]]) -> Iterator[None]:
    """Within it the device's side of every behaviour runs inside of a context."""
    behaviour.replace_target_side(None, surroundings)
    try:
        yield
    finally:
        behaviour.replace_target_side(None, None)


@contextlib.contextmanager
def planted(kind: str) -> Iterator[None]:
    """Within it the device's side of every behaviour is broken in one way."""
    behaviour.replace_target_side(faults.lab_with(kind), lambda lab: faults.around(lab, kind))
    try:
        yield
    finally:
        behaviour.replace_target_side(None, None)
