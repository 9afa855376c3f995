"""Elements beyond the reach of an index of 32 bits, on devices whose memory holds so many."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from conformance.framework.compare import fact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.properties.device._device_checks import about, do
from conformance.samples import sample_limit
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

#: Elements, of a byte each: the last ones have indices of more than 31 bits.
COUNT = (1 << 31) + 64
#: Tensors of that size that live at the same time. Sums would take eight more, for integers of 64 bits.
TENSORS = 4
#: The value of one element near the end, and its place counted from there.
VALUE, BEHIND = 7, 3


@register(
    "huge_tensors",
    subject_kind="device",
    statement=(
        "Elements beyond index 2^31 are filled, copied, computed, compared, moved and found as others "
        "are. Asked only with '--samples all', of a device with 8 GiB of free memory."
    ),
    documentation="torch.html",
    level="full",
    applies=about("Memory"),
    capabilities=("memory_statistics",),
    modes=("eager",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    if sample_limit.limit() is not None:
        recorder.idle("tensors of 2^31 elements are made with '--samples all' only")
        return
    if not target.declares("int8"):
        recorder.idle("the target does not declare int8")
        return
    asked = do(target, recorder, "asking for the free memory", lambda: free(target))
    if not asked.ok:
        return
    if asked.value < TENSORS * COUNT:
        recorder.idle(f"the device has {asked.value} bytes of free memory, fewer than {TENSORS * COUNT}")
        return
    made = do(target, recorder, f"filling {COUNT} elements", lambda: _marked(target))
    if not made.ok:
        return
    x = made.value
    for what, (compute, due) in _statements().items():
        outcome = do(target, recorder, what, functools.partial(compute, x))
        if outcome.ok:
            text = f"{what} of {COUNT} elements gives {outcome.value}, expected {due}."
            fact(recorder, outcome.value == due, Kind.VALUE, text)


def free(target: Target) -> int:
    """Return the free bytes of the device's memory."""
    general: Any = torch.accelerator
    ask = getattr(torch.get_device_module(target.device), "mem_get_info", None) or general.get_memory_info
    return int(ask(target.torch_device)[0])


def _marked(target: Target) -> torch.Tensor:
    x = torch.zeros(COUNT, dtype=torch.int8, device=target.torch_device)
    x[COUNT - BEHIND] = VALUE
    return x


def _tail(x: torch.Tensor, count: int = BEHIND + 1) -> list[int]:
    return [int(value) for value in x[-count:].tolist()]


def _statements() -> dict[str, tuple[Callable[[torch.Tensor], object], object]]:
    """By what is computed: the computation, and what it gives."""
    place = COUNT - BEHIND
    rest = [0] * (BEHIND - 1)
    behind = [0, VALUE, *rest]

    def scattered(x: torch.Tensor) -> object:
        index = torch.tensor([place, COUNT - 1], device=x.device)
        return _tail(x.clone().index_fill_(0, index, 2))

    def transposed(x: torch.Tensor) -> object:
        columns = x.view(-1, 64).t().contiguous()
        row, column = divmod(place, 64)
        return int(columns[column, row]), list(columns.shape)

    return {
        "an element": (lambda x: _tail(x), behind),
        "a copy": (lambda x: _tail(x.clone()), behind),
        "a copy of every other element": (
            lambda x: int(x[BEHIND % 2 :: 2].contiguous()[-(BEHIND // 2 + 1)]),
            VALUE,
        ),
        "a copy to the host": (lambda x: _tail(x[COUNT // 4 :].cpu()), behind),
        "addition": (lambda x: _tail(x + 1), [1, VALUE + 1, *(1 for _ in rest)]),
        "a comparison": (lambda x: _tail(x == VALUE), [0, 1, *rest]),
        "where": (lambda x: _tail(torch.where(x == VALUE, 3, x)), [0, 3, *rest]),
        "max": (lambda x: int(x.max()), VALUE),
        "argmax": (lambda x: int(x.argmax()), place),
        "nonzero": (lambda x: x.nonzero().tolist(), [[place]]),
        "index_select": (
            lambda x: x.index_select(0, torch.tensor([place, 0], device=x.device)).tolist(),
            [VALUE, 0],
        ),
        "gather": (lambda x: x.gather(0, torch.tensor([place], device=x.device)).tolist(), [VALUE]),
        "index_fill_": (scattered, [0, 2, *rest[:-1], 2]),
        "flip": (lambda x: x.flip(0)[: BEHIND + 1].tolist(), [*rest, VALUE, 0]),
        "cat": (lambda x: _tail(torch.cat([x[: COUNT // 2], x[COUNT // 2 :]])), behind),
        "a transposed copy": (transposed, (VALUE, [64, COUNT // 64])),
    }
