"""Every behaviour passes on the CPU, fails for each kind of fault that it must detect, and causes no false
alarm.

The CPU side of a behaviour runs once and is shared by the tests of this file (``cached_cpu_side.py``). In
every run each behaviour is tested with one fault: its own injected fault, or the rarest kind that it must
detect. The other pairs of behaviour and kind are tested at night, because one piece of code injects a kind
into all behaviours.
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
from tests.injected_faults.api.cached_cpu_side import TARGET, around, checked, dtypes, planted
from tests.injected_faults.api.rounds_other_way import RoundsOtherwise
from tests.support.nightly import NIGHTLY, every_nth

for module in sorted(Path(__file__).parent.glob("faults_*.py")):
    importlib.import_module(f"{__package__}.{module.stem}")

NAMES = [entry.name for entry in properties("api") if entry.name in behaviour.BEHAVIOURS]


#: Tracing takes them seconds. A false alarm of theirs is one of the suite's run on the reference device too,
#: so that every third of them is enough outside the nightly run.
TRACED = [name for name in NAMES if behaviour.BEHAVIOURS[name].area in ("aot", "control-flow")]
GREEN = sorted({*NAMES} - {*TRACED} | {*every_nth(3, TRACED)}, key=NAMES.index)


@pytest.mark.parametrize("name", GREEN)
def test_passes_without_the_fault(name: str) -> None:
    result = checked(name)
    assert result.verdict is Verdict.PASS, result.failures


#: Number of behaviours that must detect a kind of fault.
SEEN_BY = collections.Counter(kind for name in NAMES for kind in behaviour.BEHAVIOURS[name].must_detect)


def kinds(name: str) -> list[str]:
    """Return the kinds of faults to inject: all that the behaviour must detect at night, and otherwise the
    rarest.
    """
    detected_faults = sorted(behaviour.BEHAVIOURS[name].must_detect, key=SEEN_BY.__getitem__)
    return detected_faults[: None if NIGHTLY else 1]


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name in NAMES for kind in kinds(name)])
def test_fails_with_the_fault(name: str, kind: str) -> None:
    with planted(kind):
        result = checked(name)
    assert result.verdict is Verdict.FAIL, f"{name} does not detect a device whose {kind} is wrong"


#: Behaviours whose only error is torch's own report that something does not exist, such as a derivative.
_REFUSED_BY_TORCH = {"gradients-at-special-points", "fake-copies"}


#: Every fourth behaviour outside the nightly run: one function distinguishes a missing kernel from the
#: expected error.
MISSED = every_nth(
    4,
    [
        name
        for name in NAMES
        if "error" in behaviour.BEHAVIOURS[name].must_detect and name not in _REFUSED_BY_TORCH
    ],
)


@pytest.mark.parametrize("name", MISSED)
def test_a_missing_kernel_is_not_the_error_that_is_due(name: str) -> None:
    with planted("refusal"):
        result = checked(name)
    assert result.verdict is Verdict.FAIL, f"{name} mistakes a missing kernel for the expected error"
    assert all(failure.kind is Kind.REFUSED for failure in result.failures), result.failures


@pytest.mark.parametrize("name", sorted(faults.NAMED))
def test_red_with_its_own_fault(name: str) -> None:
    with around(faults.NAMED[name]):
        result = checked(name)
    assert result.verdict is Verdict.FAIL, f"{name} does not detect its injected fault"


def test_every_behaviour_has_a_fault() -> None:
    assert {name for name in NAMES if not behaviour.BEHAVIOURS[name].must_detect} <= set(faults.NAMED)
    assert set(faults.NAMED) <= set(NAMES)
    assert {name for name in NAMES if kinds(name)} | set(faults.NAMED) == set(NAMES), "each in every run"
    assert {kind for name in NAMES for kind in kinds(name)} == set(SEEN_BY), "and each kind"


@pytest.mark.parametrize(("value", "holds"), [(0.1 + 0.2, True), (0.3 + 1e-3, False), (float("nan"), False)])
def test_plain_numbers_are_held_against_what_is_known(value: float, holds: bool) -> None:
    lab = Lab(TARGET, "float32", 0, on_target=False)
    lab.expect("the number", value, 0.3, roundings=4.0)
    assert (not lab.deviations) == holds


#: In the nightly run the device that rounds differently is tested on each behaviour instead of every twelfth,
#: in each dtype, and with ahead-of-time traces. The operators of the traces belong to other behaviours, and
#: tracing one under a dispatch mode takes ten seconds. Torch refuses control flow operators under a dispatch
#: mode, which this device is.
LEFT_OUT = {"control-flow"} if NIGHTLY else {"control-flow", "aot"}
ROUNDED = [name for name in NAMES if behaviour.BEHAVIOURS[name].area not in LEFT_OUT]


@pytest.mark.parametrize("name", every_nth(12, ROUNDED))
def test_a_different_rounding_is_not_a_failure(name: str) -> None:
    """A device that rounds differently is correct. It is tested in one dtype, and in the nightly run in each
    dtype.
    """
    for dtype in dtypes(name)[: None if NIGHTLY else 1]:
        with around(lambda lab: RoundsOtherwise()):
            result = checked(name, dtype)
        values = [failure.message for failure in result.failures if failure.kind is Kind.VALUE]
        assert result.verdict is Verdict.PASS or not values, (dtype, values)
