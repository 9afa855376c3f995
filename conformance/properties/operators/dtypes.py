"""Property: an operator works in the dtypes that the target declares for it."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import torch

from conformance import torch_testing_internals
from conformance.framework.calls import attempt, one_line
from conformance.framework.compare import fact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.framework.refusals import is_deliberate_error
from conformance.model.verdicts import Kind
from conformance.model.vocabulary import ANY_DTYPE
from conformance.oracle.reference import Call, reference_through_float64
from conformance.properties.shared.comparison import ComparisonPolicy, compare_outputs
from conformance.properties.shared.cpu_control import controlled_by_cpu
from conformance.properties.shared.execution import copy_sample_to_device, run_operator, target_declares_call
from conformance.samples.copies import to_host
from conformance.samples.operators import Sample, dtype_name, samples_from_inputs
from conformance.subjects.torch_databases import Subject, find
from conformance.target.target import Target

_NAMES = (
    "bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 bfloat16 float32 float64 "
    "complex32 complex64 complex128 float8_e4m3fn float8_e5m2"
)
ALL: tuple[torch.dtype, ...] = tuple(getattr(torch, name) for name in _NAMES.split() if hasattr(torch, name))


@functools.lru_cache(maxsize=8)
def first_samples_by_dtype(name: str) -> dict[torch.dtype, tuple[Sample, bool]]:
    """Return, by dtype, the pair (first sample, whether the CPU has a result for this sample).

    Dtypes in which samples cannot be made are omitted.
    """
    info = find("operator", name).info
    samples: dict[torch.dtype, tuple[Sample, bool]] = {}
    for dtype in ALL:
        seed = torch_testing_internals.seed_for("dtypes", name, dtype_name(dtype))
        outcome = attempt(functools.partial(torch_testing_internals.first_sample, info, dtype, seed=seed))
        if not outcome.ok or outcome.value is None:
            continue
        sample = samples_from_inputs([outcome.value], name)[0]

        def call(sample: Sample = sample, seed: int = seed) -> object:
            with (
                torch_testing_internals.torch_seeded(seed),
                torch_testing_internals.silence_warnings(),
                torch.no_grad(),
            ):
                return to_host(sample).call(info.op)

        samples[dtype] = (sample, attempt(call).ok)
    return samples


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return the dtype word ``any``: the property has one result for all dtypes of an operator."""
    return [ANY_DTYPE]


@register(
    "dtypes",
    subject_kind="operator",
    statement=(
        "The operator works in every declared dtype (by default, the dtypes in which the CPU works). In an "
        "undeclared dtype it raises a clean error, or it works, which is noted. In float16 and bfloat16, if "
        "the CPU does not support them, it returns the rounded float64 result."
    ),
    documentation="tensor_attributes.html",
    basis="consistency",
    ground="The device must accept the dtypes that its target file declares, with the values of the function",
    level="core",
    applies=dtypes_to_check,
    runs=False,
)
@controlled_by_cpu
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Call the operator in every dtype of the target and compare success or refusal with the declaration."""
    listed = target.dtype_overrides.get(subject.name)
    for dtype, (sample, supported_on_cpu) in first_samples_by_dtype(subject.name).items():
        name = dtype_name(dtype)
        declared = name in listed if listed is not None else supported_on_cpu and target.declares(name)
        recorder.samples(0, 1)
        if not declared and dtype_name(dtype) not in target.dtypes:
            continue  # the device may not support tensors of this dtype at all
        if not target_declares_call(target, recorder, sample):
            continue
        recorder.samples(1, 0)
        # A lazy device may be unable to compute the result of the previous dtype, so release that result
        # before the next call.
        copy = outcome = None
        copy = copy_sample_to_device(target, recorder, sample)
        if copy is None:
            continue
        outcome = run_operator(target, subject.info.op, copy)
        if outcome.ok:
            recorder.compared(1)
            if not declared:
                recorder.note(f"works in {name} although that is not declared")
            if not supported_on_cpu and dtype in (torch.float16, torch.bfloat16):
                _compare_values(target, recorder, subject, dtype, sample, outcome.value)
            continue
        assert outcome.error is not None
        if declared:
            message = f"declared dtype {name} is refused: {one_line(outcome.error)}"
            kind = Kind.REFUSED if is_deliberate_error(outcome.error) else Kind.EXCEPTION
            fact(recorder, False, kind, message, sample=sample.index)
        else:
            is_clean = is_deliberate_error(outcome.error) or isinstance(
                outcome.error, (TypeError, ValueError, IndexError)
            )
            message = f"undeclared dtype {name} is not refused cleanly: {one_line(outcome.error)}"
            fact(recorder, is_clean, Kind.EXCEPTION, message, sample=sample.index)


def _compare_values(
    target: Target, recorder: Recorder, subject: Subject, dtype: torch.dtype, sample: Sample, value: object
) -> None:
    """Compare the device's result, in a dtype that the CPU lacks, with a reference computed in float64."""
    reference = reference_through_float64(Call(subject, dtype, sample))
    if reference.ok:
        label = f"the result in {dtype_name(dtype)}"
        compare_outputs(
            target,
            recorder,
            reference,
            value,
            label=label,
            policy=ComparisonPolicy(dtypes=False, device=False),
        )
