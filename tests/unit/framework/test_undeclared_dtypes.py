"""A property reports no deviation of a call that needs an undeclared dtype. It still reports deviations in
declared dtypes.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from conformance.behaviours import behaviour
from conformance.behaviours.lab import Lab, is_lab_working
from conformance.behaviours.statement_positions import StatementPosition
from conformance.framework import undeclared_dtypes
from conformance.framework.recorder import Recorder
from conformance.framework.trees import tensors, tree_map
from conformance.model.verdicts import CaseId, Kind, Result, ResultId, Verdict
from conformance.properties.operators._gradients import compute_first_and_second_gradients
from conformance.properties.optimizers import grad_scaler
from conformance.properties.registry import find_property, properties
from conformance.properties.shared.execution import target_declares_call
from conformance.samples.operators import samples_of
from conformance.subjects.torch_databases import find as subject_of
from conformance.target.file import DTYPES
from conformance.target.target import Target

COMPLEX = frozenset({"complex32", "complex64", "complex128"})


def cpu_target_without(*without: str) -> Target:
    """Return a target on the CPU that declares all dtypes except the given ones."""
    return Target("fake", None, "cpu", frozenset(DTYPES) - set(without), {})


def refuse_complex_tensors(tree: Any) -> Any:
    """Raise a refusal for complex tensors, as a device without complex dtypes does."""
    if any(tensor.is_complex() for tensor in tensors(tree)):
        raise RuntimeError("complex numbers are not supported on this device")
    return tree


def refuse_int64_tensors(tree: Any) -> Any:
    """Raise a refusal for tensors of dtype int64."""
    if any(tensor.dtype == torch.int64 for tensor in tensors(tree)):
        raise RuntimeError("int64 is not supported on this device")
    return tree


def round_float64_tensors(tree: Any) -> Any:
    """Round float64 tensors to the precision of float32."""

    def leaf(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or value.dtype != torch.float64 or value.requires_grad:
            return value
        return value.copy_(value.float()) if value.layout is torch.strided else value

    return tree_map(leaf, tree)


def check_operator(
    name: str, operator: str, dtype: str, target: Target, device: Callable[[Any], Any]
) -> Result:
    """Check a property of an operator on a device whose calls return ``device(result)``. Return the result of
    the check.
    """
    subject = subject_of("operator", operator)
    info = copy.copy(subject.info)
    op = info.op
    info.op = lambda *args, **kwargs: device(op(*args, **kwargs))
    recorder = Recorder(ResultId(CaseId(name, operator), dtype), seed=0)
    find_property("operator", name).check(target, dataclasses.replace(subject, info=info), recorder)
    return recorder.result()


def eager_results_of(operator: str, target: Target) -> Iterator[tuple[str, str]]:
    """Yield (property, dtype) for each result of an operator in eager mode on the target ``target``."""
    for entry in properties("operator"):
        if "eager" in entry.modes:
            for dtype in entry.applies(target, subject_of("operator", operator)):
                yield entry.name, dtype


WITHOUT_COMPLEX = cpu_target_without(*COMPLEX)
WITHOUT_FLOAT64 = cpu_target_without("float64", "complex128")
OF_COMPLEX = [
    (name, operator, dtype)
    for operator in ("fft.rfft", "fft.hfft", "cdouble", "mul", "pow")
    for name, dtype in eager_results_of(operator, WITHOUT_COMPLEX)
]
OF_FLOAT64 = [
    (name, operator, dtype)
    for operator in ("softmax.with_dtype", "float_power")
    for name, dtype in eager_results_of(operator, WITHOUT_FLOAT64)
]


@pytest.mark.parametrize(("name", "operator", "dtype"), OF_COMPLEX)
def test_undeclared_complex_dtypes_cause_no_failure(name: str, operator: str, dtype: str) -> None:
    result = check_operator(name, operator, dtype, WITHOUT_COMPLEX, refuse_complex_tensors)
    assert result.verdict in (Verdict.PASS, Verdict.UNSUPPORTED), result.failures


@pytest.mark.parametrize(("name", "operator", "dtype"), OF_FLOAT64)
def test_undeclared_float64_causes_no_failure(name: str, operator: str, dtype: str) -> None:
    result = check_operator(name, operator, dtype, WITHOUT_FLOAT64, round_float64_tensors)
    assert result.verdict in (Verdict.PASS, Verdict.UNSUPPORTED), result.failures


@pytest.mark.parametrize(
    ("name", "operator", "dtype", "without", "device", "kind"),
    [
        ("value", "fft.rfft", "float32", (), refuse_complex_tensors, Kind.REFUSED),
        ("promotion", "mul", "any", (), refuse_complex_tensors, Kind.REFUSED),
        ("dtypes", "cdouble", "any", (), refuse_complex_tensors, Kind.REFUSED),
        ("value", "softmax.with_dtype", "int64", (), round_float64_tensors, Kind.VALUE),
        ("value", "float_power", "int64", (), round_float64_tensors, Kind.VALUE),
        # The target does not declare complex dtypes, and the deviation is in the declared dtype int64.
        ("value", "mul", "int64", COMPLEX, refuse_int64_tensors, Kind.REFUSED),
        ("promotion", "mul", "any", COMPLEX, refuse_int64_tensors, Kind.REFUSED),
        ("dtypes", "mul", "any", COMPLEX, refuse_int64_tensors, Kind.REFUSED),
    ],
)
def test_deviations_in_declared_dtypes_are_failures(
    name: str, operator: str, dtype: str, without: tuple[str, ...], device: Callable[[Any], Any], kind: Kind
) -> None:
    result = check_operator(name, operator, dtype, cpu_target_without(*without), device)
    assert kind in {failure.kind for failure in result.failures}


class ApplyToResults(TorchDispatchMode):
    """Dispatch mode that applies ``device`` to the result of each operator."""

    def __init__(self, device: Callable[[Any], Any]) -> None:
        super().__init__()
        self.device = device

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.device(func(*args, **(kwargs or {})))


def check_behaviour_on_device(
    monkeypatch: pytest.MonkeyPatch, name: str, target: Target, device: TorchDispatchMode
) -> Result:
    """Return the result of a behaviour in its first dtype, with the device side under the dispatch mode
    ``device``.
    """
    of_area = find_property("api", name)
    entry = behaviour.BEHAVIOURS[name]
    monkeypatch.setattr(behaviour, "_target_context", lambda lab: device)
    dtype = of_area.applies(target, subject_of("api", entry.area))[0]
    recorder = Recorder(ResultId(CaseId(name, entry.area), dtype), seed=0)
    behaviour.check_behaviour(entry, target, recorder)
    return recorder.result()


BEHAVIOURS = [
    ("transforms-and-back", COMPLEX, refuse_complex_tensors),
    ("tensor-of-a-tensor", COMPLEX, refuse_complex_tensors),
    ("transforms-refuse", COMPLEX, refuse_complex_tensors),
    ("short-time-transforms", COMPLEX, refuse_complex_tensors),
    ("moments", ("float64",), round_float64_tensors),
    ("vector-norms", ("float64",), round_float64_tensors),
    ("transforms-of-values", ("float64",), round_float64_tensors),
    ("sample-shapes", ("float64",), round_float64_tensors),
    ("number-conversions", ("float64",), round_float64_tensors),
]


@pytest.mark.parametrize(("name", "without", "device"), BEHAVIOURS)
def test_behaviours_omit_undeclared_dtypes(
    monkeypatch: pytest.MonkeyPatch, name: str, without: tuple[str, ...], device: Callable[[Any], Any]
) -> None:
    result = check_behaviour_on_device(
        monkeypatch, name, cpu_target_without(*without), ApplyToResults(device)
    )
    assert result.verdict in (Verdict.PASS, Verdict.UNSUPPORTED), result.failures
    assert any("the target does not declare" in note for note in result.notes)
    assert (
        check_behaviour_on_device(monkeypatch, name, cpu_target_without(), ApplyToResults(device)).verdict
        is Verdict.FAIL
    )


def test_a_behaviour_fails_in_a_declared_dtype(monkeypatch: pytest.MonkeyPatch) -> None:
    result = check_behaviour_on_device(
        monkeypatch, "tensor-of-a-tensor", WITHOUT_COMPLEX, ApplyToResults(refuse_int64_tensors)
    )
    assert result.verdict is Verdict.FAIL


def test_a_behaviour_that_stops_at_an_undeclared_dtype_does_not_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    result = check_behaviour_on_device(
        monkeypatch, "transforms-and-back", WITHOUT_COMPLEX, ApplyToResults(refuse_complex_tensors)
    )
    assert result.verdict is Verdict.UNSUPPORTED


class Refuses(TorchDispatchMode):
    """Dispatch mode that refuses the operator ``name`` in float32. Calls by the lab itself are
    not refused.
    """

    def __init__(self, name: str, result: Any = None) -> None:
        super().__init__()
        self.name = name
        self.result = result

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self.name in str(func) and not is_lab_working():
            of_result = self.name == "randperm" and kwargs.get("dtype") == torch.float32
            if of_result or any(tensor.dtype == torch.float32 for tensor in tensors(args)):
                raise RuntimeError(f"{self.name} is not supported on this device")
        return func(*args, **kwargs)


@pytest.mark.parametrize(
    ("name", "operator"),
    [
        # This behaviour needs float64, because the lab creates float32 numbers from float64 numbers.
        ("interpolation", "upsample_nearest1d"),
        # One statement of this behaviour loops over dtypes, among them float64, which the target does not
        # declare.
        ("permutations", "randperm"),
    ],
)
def test_a_fault_in_float32_is_detected_although_the_behaviour_needs_float64(
    monkeypatch: pytest.MonkeyPatch, name: str, operator: str
) -> None:
    assert (
        check_behaviour_on_device(monkeypatch, name, WITHOUT_FLOAT64, Refuses(operator)).verdict
        is Verdict.FAIL
    )


class WrongNormalDistribution(TorchDispatchMode):
    """Dispatch mode in which normal random numbers have a wrong mean and scale."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = func(*args, **(kwargs or {}))
        wrong = str(func) in ("aten.randn.default", "aten.normal_.default") and not is_lab_working()
        return output.mul_(2).add_(0.5) if wrong and output.dtype == torch.float32 else output


def test_host_computations_of_a_behaviour_need_no_device_dtype(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    of_area = find_property("api", "normal-numbers")
    entry = behaviour.BEHAVIOURS["normal-numbers"]
    assert "float32" in of_area.applies(WITHOUT_FLOAT64, subject_of("api", entry.area))
    monkeypatch.setattr(behaviour, "_target_context", lambda lab: WrongNormalDistribution())
    counts = []
    for declared in (WITHOUT_FLOAT64, cpu_target_without()):
        recorder = Recorder(ResultId(CaseId(entry.name, entry.area), "float32"), seed=0)
        behaviour.check_behaviour(entry, declared, recorder)
        counts.append(recorder.failure_count)
    assert counts[0] == counts[1] > 10


def test_a_declared_refusal_clears_undeclared_dtypes() -> None:
    recorder = Recorder(ResultId(CaseId("value", "empty_like"), "float32"), seed=0)
    recorder.omit_for_dtypes(["float64"])
    assert recorder.result().undeclared == ["float64"]
    recorder.unsupported("declared")
    assert recorder.result().verdict is Verdict.UNSUPPORTED and not recorder.result().undeclared


def test_undeclared_dtypes_of_a_call_with_nested_tensors() -> None:
    def call() -> torch.Tensor:
        nested = torch.nested.nested_tensor([torch.ones(2, 4), torch.ones(3, 4)])
        nested.chunk(2, -1)
        return torch.ones(2).double()

    assert undeclared_dtypes.undeclared_dtypes_of_call(WITHOUT_FLOAT64, call) == {"float64"}


def test_grad_scaler_that_needs_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refuses(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            output = func(*args, **(kwargs or {}))
            if any(tensor.dtype == torch.float64 for tensor in tensors(output)):
                raise RuntimeError("float64 is not supported on this device")
            return output

    subject, scaled = subject_of("optimizer", "SGD"), grad_scaler._take_scaled_steps

    def on_the_device(checked_target: Target, *arguments: Any) -> Any:
        with Refuses() if checked_target.name == "fake" else contextlib.nullcontext():
            return scaled(checked_target, *arguments)

    monkeypatch.setattr(grad_scaler, "_take_scaled_steps", on_the_device)
    # The gradient scaler needs float64, so the result is omitted if the target does not declare float64.
    for declared, verdict in ((WITHOUT_FLOAT64, Verdict.PASS), (cpu_target_without(), Verdict.FAIL)):
        recorder = Recorder(ResultId(CaseId("grad-scaler", "SGD"), "float32"), seed=0)
        find_property("optimizer", "grad-scaler").check(declared, subject, recorder)
        assert recorder.result().verdict is verdict
        assert recorder.result().undeclared == (["float64"] if verdict is Verdict.PASS else [])


def test_an_observation_of_an_undeclared_dtype_is_omitted(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse_float64_tensors(tree: Any) -> Any:
        if any(tensor.dtype == torch.float64 for tensor in tensors(tree)):
            raise RuntimeError("float64 is not supported on this device")
        return tree

    def program(lab: Lab) -> None:
        """Record a float64 number."""
        lab.same("a number", lab.put(1.5, dtype=torch.float64) + 1)

    entry = behaviour.Behaviour("a-number", "tensor", program, ())
    monkeypatch.setattr(behaviour, "_target_context", lambda lab: ApplyToResults(refuse_float64_tensors))
    recorder = Recorder(ResultId(CaseId("a-number", "tensor"), "float32"), seed=0)
    behaviour.check_behaviour(entry, WITHOUT_FLOAT64, recorder)
    assert recorder.result().verdict is Verdict.UNSUPPORTED


def test_tensors_of_declared_dtypes_in_an_observation_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    def off_by_one(tree: Any) -> Any:
        return tree_map(lambda x: x + 1 if isinstance(x, torch.Tensor) and not is_lab_working() else x, tree)

    def program(lab: Lab) -> None:
        """Record two sums."""
        leaves = [lab.put([1.0], dtype=dtype) for dtype in (torch.float64, torch.float32)]
        lab.same("sums", [x + 1 for x in leaves])

    entry = behaviour.Behaviour("sums", "tensor", program, ())
    monkeypatch.setattr(behaviour, "_target_context", lambda lab: ApplyToResults(off_by_one))
    recorder = Recorder(ResultId(CaseId("sums", "tensor"), "float32"), seed=0)
    behaviour.check_behaviour(entry, WITHOUT_FLOAT64, recorder)
    [failure] = recorder.result().failures
    assert failure.message.startswith("sums[1]")


def test_a_dtype_that_is_declared_for_one_operator() -> None:
    declared = dataclasses.replace(
        WITHOUT_COMPLEX, dtype_overrides={"mul": frozenset({"float32", "complex64"})}
    )
    result = check_operator("dtypes", "mul", "any", declared, refuse_complex_tensors)
    assert result.verdict is Verdict.FAIL and "complex64" in result.failures[0].message


@pytest.mark.parametrize(("operator", "same"), [("renorm", False), ("mul", True)])
def test_a_gradient_may_need_double_precision(operator: str, same: bool) -> None:
    sample = samples_of(subject_of("operator", operator), torch.float32, requires_grad=True)[0]
    recorder = Recorder(ResultId(CaseId("backward-cpu", operator), "float32"), seed=0)
    assert target_declares_call(WITHOUT_FLOAT64, recorder, sample)
    assert target_declares_call(WITHOUT_FLOAT64, recorder, sample, compute_first_and_second_gradients) is same


def test_empty_placeholder_tensors_do_not_count_as_undeclared() -> None:
    batch_norm = "nn.functional.batch_norm"
    result = check_operator("value", batch_norm, "float32", cpu_target_without("uint8"), lambda tree: tree)
    assert result.verdict is Verdict.PASS and not result.undeclared
    wrong = check_operator(
        "value",
        batch_norm,
        "float32",
        cpu_target_without("uint8"),
        lambda tree: tree_map(lambda x: x + 1, tree),
    )
    assert wrong.verdict is Verdict.FAIL


def test_undeclared_dtypes_of_a_call_with_higher_order_operators() -> None:
    def call() -> torch.Tensor:
        x = torch.ones(3)
        branch_output = torch.cond(x.sum() > 1, lambda x: x.sin(), lambda x: x.cos(), (x,))
        return branch_output.double()

    assert undeclared_dtypes.undeclared_dtypes_of_call(WITHOUT_FLOAT64, call) == {"float64"}


def test_a_recorded_error_of_a_behaviour_retains_no_tensor() -> None:
    lab = Lab(cpu_target_without(), "float32", 0, on_target=True)
    watched: list[Any] = []

    def wrong() -> torch.Tensor:
        tensor = torch.ones(3)
        watched.append(weakref.ref(tensor))
        return torch.ones(2) @ tensor

    def program(lab: Lab) -> None:
        lab.raises(
            "a wrong call",
            wrong,
            match="no such words",
        )

    lab.program = program.__code__
    program(lab)
    [deviation] = lab.deviations
    assert deviation.position == StatementPosition(program.__code__.co_firstlineno + 1, 0)
    gc.collect()
    assert watched[0]() is None
