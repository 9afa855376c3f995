"""Every behaviour passes on the CPU, fails for each kind of fault that it must detect, and causes no false
alarm.

The CPU side of a behaviour runs once, and all tests of this file use its observations
(``cached_cpu_side.py``). The nightly run tests each behaviour without a fault, with its own fault from
``faults.NAMED``, and with each kind of fault that it must detect. Other runs test a part of the behaviours,
with each kind of fault at least once.
"""

from __future__ import annotations

import collections
import importlib
from pathlib import Path

import pytest

from conformance.behaviours import behaviour
from conformance.behaviours.lab import Lab
from conformance.model.verdicts import Kind, Verdict
from conformance.properties.registry import properties
from tests.injected_faults.api import faults
from tests.injected_faults.api.cached_cpu_side import (
    TARGET,
    check_behaviour,
    dtypes_of_behaviour,
    inject_fault,
    wrap_device_side,
)
from tests.injected_faults.api.rounds_differently import RoundsDifferently
from tests.support.nightly import NIGHTLY, every_nth

for module in sorted(Path(__file__).parent.glob("faults_*.py")):
    importlib.import_module(f"{__package__}.{module.stem}")

NAMES = [entry.name for entry in properties("api") if entry.name in behaviour.BEHAVIOURS]


#: Behaviours that trace functions, which takes seconds. Only the nightly run tests these behaviours without a
#: fault.
TRACED = {name for name in NAMES if behaviour.BEHAVIOURS[name].area in ("aot", "control-flow")}
#: WITHOUT_FAULT: the behaviours that are tested without a fault. WITH_OWN_FAULT: the behaviours that are
#: tested with their own fault. Outside the nightly run, the first list has every fourth behaviour and the
#: second every third.
WITHOUT_FAULT = every_nth(4, [name for name in NAMES if NIGHTLY or name not in TRACED])
WITH_OWN_FAULT = every_nth(3, sorted(faults.NAMED))


@pytest.mark.parametrize("name", WITHOUT_FAULT)
def test_passes_without_the_fault(name: str) -> None:
    result = check_behaviour(name)
    assert result.verdict is Verdict.PASS, result.failures


#: Kind of fault -> number of behaviours that must detect it.
DETECTING_BEHAVIOURS = collections.Counter(
    kind for name in NAMES for kind in behaviour.BEHAVIOURS[name].must_detect
)


def fault_kinds_to_inject(name: str) -> list[str]:
    """Return the kinds of faults to inject into a behaviour. The nightly run injects all kinds that the
    behaviour must detect. Other runs inject the kind that the fewest behaviours must detect.
    """
    detected_faults = sorted(behaviour.BEHAVIOURS[name].must_detect, key=DETECTING_BEHAVIOURS.__getitem__)
    return detected_faults[: None if NIGHTLY else 1]


#: Kind of fault -> a behaviour that must detect it. Outside the nightly run, these behaviours and every
#: fourth behaviour are tested with faults (WITH_FAULT).
BEHAVIOUR_PER_FAULT_KIND = {kind: name for name in NAMES for kind in fault_kinds_to_inject(name)}
WITH_FAULT = NAMES if NIGHTLY else sorted({*BEHAVIOUR_PER_FAULT_KIND.values(), *NAMES[1::4]}, key=NAMES.index)


@pytest.mark.parametrize(
    ("name", "kind"), [(name, kind) for name in WITH_FAULT for kind in fault_kinds_to_inject(name)]
)
def test_fails_with_the_fault(name: str, kind: str) -> None:
    with inject_fault(kind):
        result = check_behaviour(name)
    assert result.verdict is Verdict.FAIL, f"{name} does not detect a device whose {kind} is wrong"


#: Behaviours whose only expected error says that torch has not implemented something, such as a derivative.
#: These behaviours cannot distinguish this error from a missing kernel, so MISSED omits them.
_REFUSED_BY_TORCH = {"gradients-at-special-points", "fake-copies"}


#: Behaviours that expect an error. Outside the nightly run, every fourth is tested. This suffices, because
#: all of them use one function to distinguish a missing kernel from the expected error.
EXPECTING_ERRORS = every_nth(
    4,
    [
        name
        for name in NAMES
        if "error" in behaviour.BEHAVIOURS[name].must_detect and name not in _REFUSED_BY_TORCH
    ],
)


@pytest.mark.parametrize("name", EXPECTING_ERRORS)
def test_a_missing_kernel_is_not_the_expected_error(name: str) -> None:
    with inject_fault("refusal"):
        result = check_behaviour(name)
    assert result.verdict is Verdict.FAIL, f"{name} mistakes a missing kernel for the expected error"
    assert all(failure.kind is Kind.REFUSED for failure in result.failures), result.failures


@pytest.mark.parametrize("name", WITH_OWN_FAULT)
def test_fails_with_its_own_fault(name: str) -> None:
    with wrap_device_side(faults.NAMED[name]):
        result = check_behaviour(name)
    assert result.verdict is Verdict.FAIL, f"{name} does not detect its injected fault"


def test_every_behaviour_has_a_fault() -> None:
    assert {name for name in NAMES if not behaviour.BEHAVIOURS[name].must_detect} <= set(faults.NAMED)
    assert set(faults.NAMED) <= set(NAMES)
    tested = {name for name in NAMES if fault_kinds_to_inject(name)} | set(faults.NAMED)
    assert tested == set(NAMES), "a behaviour has no fault"
    injected = {kind for name in WITH_FAULT for kind in fault_kinds_to_inject(name)}
    assert injected == set(DETECTING_BEHAVIOURS), "a kind of fault is injected into no behaviour in this run"


@pytest.mark.parametrize(("value", "holds"), [(0.1 + 0.2, True), (0.3 + 1e-3, False), (float("nan"), False)])
def test_expect_compares_a_number_with_the_expected_number(value: float, holds: bool) -> None:
    lab = Lab(TARGET, "float32", 0, on_target=False)
    lab.expect("the number", value, 0.3, roundings=4.0)
    assert (not lab.deviations) == holds


#: Areas that are not tested on the device that rounds differently. That device is a dispatch mode, under
#: which torch rejects control flow operators. Ahead-of-time tracing (``aot``) takes ten seconds under a
#: dispatch mode, and other behaviours test the same operators. So only the nightly run includes ``aot``.
OMITTED_AREAS = {"control-flow"} if NIGHTLY else {"control-flow", "aot"}
ROUNDED = [name for name in NAMES if behaviour.BEHAVIOURS[name].area not in OMITTED_AREAS]


@pytest.mark.parametrize("name", every_nth(12, ROUNDED))
def test_a_different_rounding_is_not_a_failure(name: str) -> None:
    """A behaviour must not fail on a device that rounds differently, because the device is correct. The
    nightly run tests each behaviour in each dtype. Other runs test every twelfth behaviour in its first
    dtype.
    """
    for dtype in dtypes_of_behaviour(name)[: None if NIGHTLY else 1]:
        with wrap_device_side(lambda lab: RoundsDifferently()):
            result = check_behaviour(name, dtype)
        values = [failure.message for failure in result.failures if failure.kind is Kind.VALUE]
        assert result.verdict is Verdict.PASS or not values, (dtype, values)
