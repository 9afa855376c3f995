"""Run behaviours with an injected fault on the device side. The CPU side of a behaviour runs once per dtype
and seed, and all tests of a process share the observations of this CPU side.

Outside the nightly run, behaviours that iterate over torch's operator database use a quarter of the
operators. This suffices, because the detection of a fault does not depend on the operator.
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

#: (name, dtype, seed) of a behaviour -> observations and ``Lab.doubtful_errors`` of its CPU side. The
#: observed values are copies, so no later call changes them.
_cpu_observations: dict[tuple[str, str, int], tuple[list[Observation], dict[str, Deviation]]] = {}


@functools.cache
def _modules_over_operator_database() -> tuple[ModuleType, ...]:
    """Return the modules of the behaviours that iterate over torch's operator database."""
    modules = [
        module for name, module in sys.modules.items() if name.startswith("conformance.properties.api.")
    ]
    return tuple(
        module
        for module in modules
        if module is not _opinfo_calls
        and getattr(module, "first_sample_calls", None) is _opinfo_calls.first_sample_calls
    )


def _first_calls_of_every_fourth_operator(
    lab: Lab, part: int, parts: int
) -> Iterator[_opinfo_calls.OpInfoCall]:
    return _opinfo_calls.first_sample_calls(lab, part, 4 * parts)


@contextlib.contextmanager
def _use_quarter_of_operators() -> Iterator[None]:
    """Let behaviours use only a quarter of each part of the operator database, except in the nightly run."""
    with contextlib.ExitStack() as stack:
        for module in () if NIGHTLY else _modules_over_operator_database():
            stack.enter_context(
                mock.patch.object(module, "first_sample_calls", _first_calls_of_every_fourth_operator)
            )
        yield


def dtypes_of_behaviour(name: str) -> list[str]:
    """Return the dtypes in which a behaviour is checked on the CPU."""
    subject = find_subject("api", behaviour.BEHAVIOURS[name].area)
    return list(find_property("api", name).applies(TARGET, subject))


def check_behaviour(name: str, dtype: str | None = None) -> Result:
    """Return the result of a behaviour with the current fault on its device side. If ``dtype`` is None, use
    the first dtype in which the behaviour is checked.
    """
    entry = behaviour.BEHAVIOURS[name]
    dtype = dtype or dtypes_of_behaviour(name)[0]
    recorder = Recorder(ResultId(CaseId(name, entry.area), dtype), seed=SEED)

    def program(lab: Lab) -> None:
        if lab.on_target:
            entry.program(lab)
            return
        recorded = _cpu_observations.get((name, dtype, SEED))
        if recorded is not None:
            lab.observations += recorded[0]
            lab.doubtful_errors.update(recorded[1])
            return
        entry.program(lab)
        if not lab.deviations:
            _cpu_observations[name, dtype, SEED] = (list(lab.observations), dict(lab.doubtful_errors))

    with _use_quarter_of_operators(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        behaviour.check_behaviour(dataclasses.replace(entry, program=program), TARGET, recorder)
    return recorder.result()


@contextlib.contextmanager
def wrap_device_side(
    context_for_lab: Callable[[Lab], contextlib.AbstractContextManager[Any]],
) -> Iterator[None]:
    """Run the device side of every behaviour inside the context manager ``context_for_lab(lab)``."""
    behaviour.inject_fault_into_device_runs(None, context_for_lab)
    try:
        yield
    finally:
        behaviour.inject_fault_into_device_runs(None, None)


@contextlib.contextmanager
def inject_fault(kind: str) -> Iterator[None]:
    """Inject a fault of a general kind, such as ``value``, into the device side of every behaviour."""
    behaviour.inject_fault_into_device_runs(
        faults.lab_class_with_fault(kind), lambda lab: faults.inject_operator_fault(lab, kind)
    )
    try:
        yield
    finally:
        behaviour.inject_fault_into_device_runs(None, None)
