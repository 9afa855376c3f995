"""Every behaviour is green on the CPU, red for each kind of fault that it must see, and no false alarm.

The CPU's side of a behaviour runs once and is shared by the tests of this file (``sides.py``). In every run
each behaviour is red with a fault, the one planted for it or the rarest of the kinds that it sees. The other
pairs of a behaviour and a kind are left to the night: a kind is planted by one piece of code for all
behaviours.
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
from tests.support.nightly import NIGHTLY, every

for module in sorted(Path(__file__).parent.glob("faults_*.py")):
    importlib.import_module(f"{__package__}.{module.stem}")

NAMES = [entry.name for entry in properties("api") if entry.name in behaviour.BEHAVIOURS]


#: Tracing takes them seconds. A false alarm of theirs is one of the suite's run on the reference device too,
#: so that every third of them is enough outside the nightly run.
TRACED = [name for name in NAMES if behaviour.BEHAVIOURS[name].area in ("aot", "control-flow")]
GREEN = sorted({*NAMES} - {*TRACED} | {*every(3, TRACED)}, key=NAMES.index)


@pytest.mark.parametrize("name", GREEN)
def test_green_without(name: str) -> None:
    result = checked(name)
    assert result.verdict is Verdict.PASS, result.failures


#: How many behaviours see a kind of fault.
SEEN_BY = collections.Counter(kind for name in NAMES for kind in behaviour.BEHAVIOURS[name].sees)


def kinds(name: str) -> list[str]:
    """The kinds to plant: all that the behaviour sees at night, and in other runs the rarest of them."""
    seen = sorted(behaviour.BEHAVIOURS[name].sees, key=SEEN_BY.__getitem__)
    return seen[: None if NIGHTLY else 1]


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name in NAMES for kind in kinds(name)])
def test_red_with(name: str, kind: str) -> None:
    with planted(kind):
        result = checked(name)
    assert result.verdict is Verdict.FAIL, f"{name} does not see a device whose {kind} is wrong"


#: Their only error is one by which torch itself says that something does not exist: a derivative, a pointer.
_REFUSED_BY_TORCH = {"gradients-at-special-points", "fake-copies"}


#: Every fourth outside the nightly run: one function tells a missing kernel from the error that is due.
MISSED = every(
    4,
    [name for name in NAMES if "error" in behaviour.BEHAVIOURS[name].sees and name not in _REFUSED_BY_TORCH],
)


@pytest.mark.parametrize("name", MISSED)
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
    assert {name for name in NAMES if kinds(name)} | set(faults.NAMED) == set(NAMES), "each in every run"
    assert {kind for name in NAMES for kind in kinds(name)} == set(SEEN_BY), "and each kind"


@pytest.mark.parametrize(("value", "holds"), [(0.1 + 0.2, True), (0.3 + 1e-3, False), (float("nan"), False)])
def test_plain_numbers_are_held_against_what_is_known(value: float, holds: bool) -> None:
    lab = Lab(TARGET, "float32", 0, on_target=False)
    lab.expect("the number", value, 0.3, roundings=4.0)
    assert (not lab.deviations) == holds


#: In the nightly run the device that rounds otherwise is tried on each behaviour, not on every twelfth, in
#: each dtype, and with ahead-of-time traces too: their operators are those of other behaviours, and tracing
#: one under a dispatch mode takes ten seconds. Torch refuses control flow operators under such a mode, which
#: that device is.
LEFT_OUT = {"control-flow"} if NIGHTLY else {"control-flow", "aot"}
ROUNDED = [name for name in NAMES if behaviour.BEHAVIOURS[name].area not in LEFT_OUT]


@pytest.mark.parametrize("name", every(12, ROUNDED))
def test_another_rounding_is_no_failure(name: str) -> None:
    """A device that is correct and rounds otherwise: in one dtype, and in the nightly run in each."""
    for dtype in dtypes(name)[: None if NIGHTLY else 1]:
        with around(lambda lab: RoundsOtherwise()):
            result = checked(name, dtype)
        values = [failure.message for failure in result.failures if failure.kind is Kind.VALUE]
        assert result.verdict is Verdict.PASS or not values, (dtype, values)
