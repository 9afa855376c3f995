"""``worker.stack_sampler`` attributes a worker's time to the phase of the innermost stack frame that has a
phase. No time is lost.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

import conformance
from conformance.model.time_phases import PHASES
from conformance.worker import stack_sampler
from conformance.worker.stack_sampler import StackSampler, phase_of

ROOT = Path(conformance.__file__).parent


def function_in_file(source_path: str, name: str = "f") -> Callable[..., None]:
    """Return a function that appears to be ``name`` in the file ``source_path``. It calls its first argument
    with the other arguments, or sleeps for 60 ms.
    """
    code = f"def {name}(*inner):\n    inner[0](*inner[1:]) if inner else sleep(0.06)\n"
    scope: dict[str, object] = {"sleep": time.sleep}
    exec(compile(code, str(ROOT / source_path), "exec"), scope)
    return scope[name]  # type: ignore[return-value]


HARNESS = function_in_file("worker/executor.py")
PROPERTY = function_in_file("properties/operators/value.py")
SAMPLES = function_in_file("samples/operators.py")
CALL = function_in_file("samples/operators.py", "call")
ORACLE = function_in_file("oracle/reference.py")
ATTEMPT = function_in_file("framework/calls.py", "attempt_on")
TRIED = function_in_file("framework/calls.py", "attempt")
COMPARE = function_in_file("framework/compare.py")
FACT = function_in_file("framework/recorder.py")
ON_CPU = function_in_file("behaviours/behaviour.py", "run_on_cpu_reference")
ON_TARGET = function_in_file("behaviours/behaviour.py", "run_on_target")
LAB = function_in_file("behaviours/lab.py")


@pytest.mark.parametrize(
    ("stack", "phase"),
    [
        ((HARNESS,), "harness"),
        ((HARNESS, PROPERTY), "property"),
        ((HARNESS, PROPERTY, SAMPLES), "samples"),
        ((HARNESS, PROPERTY, ATTEMPT, CALL), "device"),
        ((HARNESS, PROPERTY, ORACLE, CALL), "oracle"),
        ((HARNESS, PROPERTY, ORACLE, SAMPLES), "samples"),
        ((HARNESS, PROPERTY, TRIED), "property"),
        ((HARNESS, PROPERTY, ORACLE, TRIED, CALL), "oracle"),
        ((HARNESS, PROPERTY, COMPARE), "compare"),
        ((HARNESS, PROPERTY, FACT), "property"),
        ((HARNESS, ON_CPU, PROPERTY, LAB), "oracle"),
        ((HARNESS, ON_TARGET, PROPERTY), "device"),
        ((HARNESS, ON_TARGET, PROPERTY, COMPARE), "compare"),
    ],
)
def test_time_belongs_to_the_innermost_phase(stack: tuple[Callable[..., None], ...], phase: str) -> None:
    sampler = StackSampler(0.002)
    sampler.begin_result()
    stack[0](*stack[1:])
    spent = sampler.end_result()
    sampler.close()
    assert max(spent, key=spent.__getitem__) == phase
    assert spent[phase] == pytest.approx(0.06, abs=0.04)


def test_a_call_that_holds_the_gil_is_attributed_when_it_ends() -> None:
    def busy() -> None:
        sum(range(6_000_000))

    sampler = StackSampler(0.002)
    sampler.begin_result()
    start = time.perf_counter()
    PROPERTY(ATTEMPT, busy)
    elapsed = time.perf_counter() - start
    HARNESS()
    spent = sampler.end_result()
    sampler.close()
    assert spent.get("device", 0.0) + spent.get("property", 0.0) > 0.5 * elapsed


def test_results_do_not_share_their_time() -> None:
    sampler = StackSampler(0.002)
    sampler.begin_result()
    PROPERTY(SAMPLES)
    first = sampler.end_result()
    time.sleep(0.05)  # between two results
    sampler.begin_result()
    PROPERTY(COMPARE)
    second = sampler.end_result()
    sampler.close()
    assert first["samples"] > 0.03 and "compare" not in first
    assert second["compare"] > 0.03 and "samples" not in second


def test_every_phase_has_existing_source_files() -> None:
    assert all((ROOT / source_path).exists() for source_path, _ in stack_sampler._PHASE_BY_PATH)
    for source_path, name in stack_sampler._PHASE_BY_FUNCTION:
        assert f"def {name}(" in (ROOT / source_path).read_text()
    assert {phase for _, phase in stack_sampler._PHASE_BY_PATH if phase} == set(PHASES)
    assert phase_of(pytest.raises.__code__) == ""
