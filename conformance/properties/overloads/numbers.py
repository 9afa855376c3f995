"""Property: an operand may be a Python number, or a tensor without dimensions on the CPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Basis, Kind
from conformance.oracle.reference import CallForm
from conformance.properties.overloads._call_forms import ArgumentLayout, call_forms_of, check_call
from conformance.properties.overloads._modified_calls import (
    arguments_with_values,
    index_of_tensor,
    reference_of_modified_call,
    with_argument,
)
from conformance.properties.overloads._references import (
    OverloadReference,
    dtypes_for_property,
    references,
    torch_overload,
)
from conformance.properties.overloads.options import calls_with_other_values
from conformance.properties.shared.memory_layouts import EmbeddedTensor
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

#: Number of calls whose operands are replaced.
_LIMIT = 3
#: The kinds of failures that a refused call has.
_REFUSALS = frozenset({Kind.EXCEPTION, Kind.REFUSED})


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the overload."""
    overload = torch_overload(subject)
    operands = [argument for argument in overload.op._schema.arguments if _is_operand(argument)]
    # Backward overloads are skipped: only autograd calls them, with tensors of one device.
    if not overload.pointwise or len(operands) < 2 or "backward" in subject.name:
        return []
    return dtypes_for_property("overload-numbers", target, subject)


def _is_operand(schema_argument: Any) -> bool:
    return str(schema_argument.type) == "Tensor" and not schema_argument.is_out


@register(
    "overload-numbers",
    subject_kind="overload",
    statement=(
        "Each operand except the first may be a Python number, if the CPU accepts a number, or a CPU tensor "
        "without dimensions. The result equals the CPU's result in every form and with other option values."
    ),
    documentation="generated/torch.add.html",
    ground="The pages of add, sub, mul and div say that the second operand is a tensor or a number",
    level="core",
    applies=dtypes_to_check,
    modes=("eager",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Replace one operand of a call by a number or a CPU tensor, and compare with the references."""
    for reference in references(target, subject, recorder, _LIMIT):
        recorder.allow_nothing_compared("the CPU rejects numbers as operands")
        for name, number in _operands_as_numbers(reference):
            with_number = reference_of_modified_call(reference, with_argument(reference, name, number))
            for call in () if with_number is None else _with_other_options(with_number):
                for form in call_forms_of(target, call):
                    check_call(target, recorder, call, form)
            operand = torch.tensor(number, dtype=reference.dtype)
            with_tensor = reference_of_modified_call(reference, with_argument(reference, name, operand))
            if with_tensor is None or target.is_cpu:
                continue
            tensor_index = index_of_tensor(with_tensor, operand)
            for call in _with_other_options(with_tensor):
                for form in call_forms_of(target, call):
                    _check_on_host(target, recorder, call, form, tensor_index)


def _operands_as_numbers(reference: OverloadReference) -> Iterator[tuple[str, Any]]:
    """Yield the name and one element, as a Python number, of each operand that has the call's dtype.

    The first operand is skipped: torch allocates some results on its device, and pages allow numbers only
    for later operands. An operand is also skipped if no other operand has dimensions.
    """
    operands = [
        (argument.name, value)
        for argument, value in arguments_with_values(reference)
        if _is_operand(argument) and isinstance(value, torch.Tensor)
    ]
    for name, value in operands[1:]:
        has_other_dimensions = any(tensor.dim() for other_name, tensor in operands if other_name != name)
        if has_other_dimensions and value.dtype == reference.dtype and value.numel():
            yield name, value.detach().reshape(-1)[value.numel() // 2].item()


def _with_other_options(reference: OverloadReference) -> Iterator[OverloadReference]:
    """Yield the call, then its variants with another value of one option."""
    yield reference
    for argument, _ in arguments_with_values(reference):
        if _is_operand(argument):
            continue
        for sample in calls_with_other_values(reference, argument.name):
            changed = reference_of_modified_call(reference, sample)
            if changed is not None:
                yield changed


def _check_on_host(
    target: Target, recorder: Recorder, reference: OverloadReference, form: CallForm, tensor_index: int
) -> None:
    """Check a call with one operand on the CPU. If the device refuses the call, the failure has basis parity,
    because no page says that operands of two devices can be combined.
    """
    layout = ArgumentLayout(_embedded_host_copy, "a CPU tensor without dimensions", tensor_index)
    for basis in (Basis.CONSISTENCY, Basis.PARITY):
        with recorder.with_basis(basis):
            trial = recorder.scratch()
        check_call(target, trial, reference, form, layout)
        if not (trial.failed and trial.kinds <= _REFUSALS):
            break
    recorder.merge(trial)


def _embedded_host_copy(tensor: torch.Tensor) -> EmbeddedTensor:
    host = tensor.detach().cpu()
    return EmbeddedTensor(host, host)
