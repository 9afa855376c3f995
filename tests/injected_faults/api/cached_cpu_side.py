"""Runs of a behaviour whose CPU side runs once per name, dtype and seed, and is shared.

Outside the nightly run, behaviours over torch's operator database use a quarter of the operators, because the
detection of a fault does not depend on the operator.
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
from conformance.properties.registry import find_property
from conformance.subjects.torch_databases import find as find_subject
from conformance.target import file as target_file
from tests.injected_faults.api import faults
from tests.support.nightly import NIGHTLY

TARGET = target_file.load("cpu").target("eager")
SEED = 7

#: Observations of the CPU side by name, dtype and seed. They are copies, so no later call changes them.
_shown: dict[tuple[str, str, int], tuple[list[Observation], dict[str, Deviation]]] = {}


@functools.cache
def _over_the_database() -> tuple[ModuleType, ...]:
    """Return the modules of the behaviours that iterate over torch's operator database."""
    modules = [
        module for name, module in sys.modules.items() if name.startswith("conformance.properties.api.")
    ]
    return tuple(
        module
        for module in modules
        if module is not _opinfo_calls and getattr(module, "first_calls", None) is _opinfo_calls.first_calls
    )


def _of_each_fourth(lab: Lab, part: int, parts: int) -> Iterator[_opinfo_calls.OpInfoCall]:
    return _opinfo_calls.first_calls(lab, part, 4 * parts)


@contextlib.contextmanager
def _fewer_operators() -> Iterator[None]:
    """Reduce each part of the operator database to a quarter, except in the nightly run."""
    with contextlib.ExitStack() as stack:
        for module in () if NIGHTLY else _over_the_database():
            stack.enter_context(mock.patch.object(module, "first_calls", _of_each_fourth))
        yield


def dtypes(name: str) -> list[str]:
    """Return the dtypes in which a behaviour applies to the CPU."""
    subject = find_subject("api", behaviour.BEHAVIOURS[name].area)
    return list(find_property("api", name).applies(TARGET, subject))


def checked(name: str, dtype: str | None = None) -> Result:
    """Check a behaviour, by default in its first dtype, with the injected fault on the device side."""
    entry = behaviour.BEHAVIOURS[name]
    dtype = dtype or dtypes(name)[0]
    recorder = Recorder(ResultId(CaseId(name, entry.area), dtype), seed=SEED)

    def program(lab: Lab) -> None:
        if lab.on_target:
            entry.program(lab)
            return
        recorded = _shown.get((name, dtype, SEED))
        if recorded is not None:
            lab.observations += recorded[0]
            lab.doubtful_errors.update(recorded[1])
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
    """Run the device side of every behaviour inside the context manager."""
    behaviour.replace_target_side(None, surroundings)
    try:
        yield
    finally:
        behaviour.replace_target_side(None, None)


@contextlib.contextmanager
def planted(kind: str) -> Iterator[None]:
    """Inject one fault into the device side of every behaviour."""
    behaviour.replace_target_side(faults.lab_with(kind), lambda lab: faults.around(lab, kind))
    try:
        yield
    finally:
        behaviour.replace_target_side(None, None)
