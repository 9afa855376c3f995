"""Every behaviour is green on the CPU, red for each kind of fault that it must see, and no false alarm.

The CPU's side of a behaviour runs once and is shared by the tests of this file (``sides.py``).
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path

import pytest

from conformance.behaviours import behaviour
from conformance.behaviours.lab import Lab
from conformance.model.verdicts import Kind, Verdict
from conformance.properties.registry import properties
from tests.injected_faults.api import faults
from tests.injected_faults.api.cached_cpu_side import TARGET, around, checked, dtypes, planted
from tests.injected_faults.api.rounds_other_way import RoundsOtherwise

for module in sorted(Path(__file__).parent.glob("faults_*.py")):
    importlib.import_module(f"{__package__}.{module.stem}")

NAMES = [entry.name for entry in properties("api") if entry.name in behaviour.BEHAVIOURS]


@pytest.mark.parametrize("name", NAMES)
def test_green_without(name: str) -> None:
    result = checked(name)
    assert result.verdict is Verdict.PASS, result.failures


@pytest.mark.parametrize(
    ("name", "kind"), [(name, kind) for name in NAMES for kind in behaviour.BEHAVIOURS[name].sees]
)
def test_red_with(name: str, kind: str) -> None:
    with planted(kind):
        result = checked(name)
    assert result.verdict is Verdict.FAIL, f"{name} does not see a device whose {kind} is wrong"


#: Their only error is one by which torch itself says that something does not exist: a derivative, a pointer.
_REFUSED_BY_TORCH = {"gradients-at-special-points", "fake-copies"}


@pytest.mark.parametrize(
    "name",
    [name for name in NAMES if "error" in behaviour.BEHAVIOURS[name].sees and name not in _REFUSED_BY_TORCH],
)
def test_a_missing_kernel_is_not_the_error_that_is_due(name: str) -> None:
    with planted("refusal"):
        result = checked(name)
    assert result.verdict is Verdict.FAIL, f"{name} takes a missing kernel for the error that is due"
    assert all(failure.kind is Kind.REFUSED for failure in result.failures), result.failures


@pytest.mark.parametrize("name", sorted(faults.NAMED))
def test_red_with_its_own_fault(name: str) -> None:
    with around(faults.NAMED[name]):
        result = checked(name)
    assert result.verdict is Verdict.FAIL, f"{name} does not see the fault planted for it"


def test_every_behaviour_has_a_fault() -> None:
    assert {name for name in NAMES if not behaviour.BEHAVIOURS[name].sees} <= set(faults.NAMED)
    assert set(faults.NAMED) <= set(NAMES)


@pytest.mark.parametrize(("value", "holds"), [(0.1 + 0.2, True), (0.3 + 1e-3, False), (float("nan"), False)])
def test_plain_numbers_are_held_against_what_is_known(value: float, holds: bool) -> None:
    lab = Lab(TARGET, "float32", 0, on_target=False)
    lab.expect("the number", value, 0.3, roundings=4.0)
    assert (not lab.deviations) == holds


#: In the nightly run the device that rounds otherwise is tried on each behaviour, not on every third, in each
#: dtype, and with ahead-of-time traces too: their operators are those of other behaviours, and tracing one
#: under a dispatch mode takes ten seconds.
NIGHTLY = os.environ.get("CONFORMANCE_NIGHTLY") == "1"
#: Torch refuses control flow operators under a dispatch mode, which that device is.
LEFT_OUT = {"control-flow"} if NIGHTLY else {"control-flow", "aot"}
ROUNDED = [name for name in NAMES if behaviour.BEHAVIOURS[name].area not in LEFT_OUT]


@pytest.mark.parametrize("name", ROUNDED[:: 1 if NIGHTLY else 3])
def test_another_rounding_is_no_failure(name: str) -> None:
    """A device that is correct and rounds otherwise: in one dtype, and in the nightly run in each."""
    for dtype in dtypes(name)[: None if NIGHTLY else 1]:
        with around(lambda lab: RoundsOtherwise()):
            result = checked(name, dtype)
        values = [failure.message for failure in result.failures if failure.kind is Kind.VALUE]
        assert result.verdict is Verdict.PASS or not values, (dtype, values)
