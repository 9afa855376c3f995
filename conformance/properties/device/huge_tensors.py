"""Check tensors with more than 2^31 elements on devices with enough memory."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from conformance.framework.compare import fact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.properties.device._device_checks import dtypes_function_for_part, run_and_record_error
from conformance.samples import sample_limit
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

#: Number of elements of a tensor. Each element is one byte. The indices of the last elements exceed 31 bits.
ELEMENTS = (1 << 31) + 64
#: The maximum number of huge tensors that exist at the same time. Elementwise int64 results are not checked,
#: because each would need eight times as much memory.
TENSORS = 4
#: The value of the only nonzero element, and its position counted from the end of the tensor.
VALUE, FROM_END = 7, 3


@register(
    "huge_tensors",
    subject_kind="device",
    statement=(
        "Elements beyond index 2^31 are filled, copied, computed, compared, moved and searched like other "
        "elements. Checked only with '--samples all' on a device with 8 GiB of free memory."
    ),
    documentation="torch.html",
    level="full",
    applies=dtypes_function_for_part("Memory"),
    capabilities=("memory_statistics",),
    modes=("eager",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Compute with an int8 tensor of more than 2^31 elements and compare with the known results."""
    if sample_limit.limit() is not None:
        recorder.allow_nothing_compared("tensors of 2^31 elements are checked only with '--samples all'")
        return
    if not target.declares("int8"):
        recorder.allow_nothing_compared("the target does not declare int8")
        return
    free_memory = run_and_record_error(
        target, recorder, "querying the free memory", lambda: free_bytes(target)
    )
    if not free_memory.ok:
        return
    if free_memory.value < TENSORS * ELEMENTS:
        recorder.allow_nothing_compared(
            f"the device has {free_memory.value} bytes of free memory, fewer than {TENSORS * ELEMENTS}"
        )
        return
    marked = run_and_record_error(
        target, recorder, f"filling {ELEMENTS} elements", lambda: _tensor_with_one_nonzero(target)
    )
    if not marked.ok:
        return
    x = marked.value
    for label, (compute, expected) in _computations_with_expected_results().items():
        outcome = run_and_record_error(target, recorder, label, functools.partial(compute, x))
        if outcome.ok:
            text = f"{label} of {ELEMENTS} elements gives {outcome.value}, expected {expected}."
            fact(recorder, outcome.value == expected, Kind.VALUE, text)


def free_bytes(target: Target) -> int:
    """Return the number of free bytes of the device's memory."""
    general: Any = torch.accelerator
    ask = getattr(torch.get_device_module(target.device), "mem_get_info", None) or general.get_memory_info
    return int(ask(target.torch_device)[0])


def _tensor_with_one_nonzero(target: Target) -> torch.Tensor:
    x = torch.zeros(ELEMENTS, dtype=torch.int8, device=target.torch_device)
    x[ELEMENTS - FROM_END] = VALUE
    return x


def _last_values(x: torch.Tensor, count: int = FROM_END + 1) -> list[int]:
    return [int(value) for value in x[-count:].tolist()]


def _computations_with_expected_results() -> dict[str, tuple[Callable[[torch.Tensor], object], object]]:
    """Return, by label, (computation, expected result) for the tensor with one nonzero element."""
    position = ELEMENTS - FROM_END
    zeros_after = [0] * (FROM_END - 1)
    last_values = [0, VALUE, *zeros_after]

    def last_values_after_index_fill(x: torch.Tensor) -> object:
        index = torch.tensor([position, ELEMENTS - 1], device=x.device)
        return _last_values(x.clone().index_fill_(0, index, 2))

    def values_after_transposed_copy(x: torch.Tensor) -> object:
        columns = x.view(-1, 64).t().contiguous()
        row, column = divmod(position, 64)
        return int(columns[column, row]), list(columns.shape)

    return {
        "an element": (lambda x: _last_values(x), last_values),
        "a copy": (lambda x: _last_values(x.clone()), last_values),
        "a copy of every other element": (
            lambda x: int(x[FROM_END % 2 :: 2].contiguous()[-(FROM_END // 2 + 1)]),
            VALUE,
        ),
        "a copy to the host": (lambda x: _last_values(x[ELEMENTS // 4 :].cpu()), last_values),
        "addition": (lambda x: _last_values(x + 1), [1, VALUE + 1, *(1 for _ in zeros_after)]),
        "a comparison": (lambda x: _last_values(x == VALUE), [0, 1, *zeros_after]),
        "where": (lambda x: _last_values(torch.where(x == VALUE, 3, x)), [0, 3, *zeros_after]),
        "max": (lambda x: int(x.max()), VALUE),
        "argmax": (lambda x: int(x.argmax()), position),
        "nonzero": (lambda x: x.nonzero().tolist(), [[position]]),
        "index_select": (
            lambda x: x.index_select(0, torch.tensor([position, 0], device=x.device)).tolist(),
            [VALUE, 0],
        ),
        "gather": (lambda x: x.gather(0, torch.tensor([position], device=x.device)).tolist(), [VALUE]),
        "index_fill_": (last_values_after_index_fill, [0, 2, *zeros_after[:-1], 2]),
        "flip": (lambda x: x.flip(0)[: FROM_END + 1].tolist(), [*zeros_after, VALUE, 0]),
        "cat": (lambda x: _last_values(torch.cat([x[: ELEMENTS // 2], x[ELEMENTS // 2 :]])), last_values),
        "a transposed copy": (values_after_transposed_copy, (VALUE, [64, ELEMENTS // 64])),
    }
