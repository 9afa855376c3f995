"""Every property of overloads goes red for the wrong kernels planted for it, and is green without."""

from __future__ import annotations

import ctypes
import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch

from conformance.device import memory
from conformance.framework import trees
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import CaseId, Kind, Result, ResultId, Verdict
from conformance.properties.overloads import _call_forms, _memory, _references
from conformance.properties.registry import find, properties
from conformance.samples.handmade_calls import calls
from conformance.samples.handmade_calls.discriminating import TELLING
from conformance.samples.handmade_calls.empty import EMPTY
from conformance.samples.handmade_calls.identity import NEUTRAL
from conformance.samples.handmade_calls.large import LARGE
from conformance.samples.operators import Sample
from conformance.samples.recorded_calls import calls_of
from conformance.subjects import torch_databases
from conformance.subjects.torch_databases import Subject
from conformance.target import file as target_file
from tests.injected_faults.overloads import faults as planted


def checked(name: str, subject: Subject, dtype: str) -> Result:
    entry = find("overload", name)
    target = target_file.load("cpu").target("eager")
    assert dtype in entry.applies(target, subject)
    recorder = Recorder(ResultId(CaseId(name, subject.name), dtype), seed=0)
    entry.check(target, subject, recorder)
    return recorder.result()


@pytest.mark.parametrize("fault", planted.FAULTS, ids=lambda fault: fault.name)
def test_red_with_the_fault(fault: planted.Fault) -> None:
    result = checked(fault.property, planted.broken(fault), fault.dtype)
    assert result.verdict is Verdict.FAIL
    assert fault.kind in {failure.kind for failure in result.failures}, result.failures


@pytest.mark.parametrize(
    "place", sorted({(fault.property, fault.overload, fault.dtype) for fault in planted.FAULTS}), ids="-".join
)
def test_green_without(place: tuple[str, str, str]) -> None:
    name, overload, dtype = place
    result = checked(name, torch_databases.find("overload", overload), dtype)
    assert result.verdict is Verdict.PASS, result.failures


def test_a_kernel_that_inference_mode_alone_calls_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = torch_databases.find("overload", "group_norm")

    def op(*args: Any, **kwargs: Any) -> Any:
        return whole.info.op(*args, **kwargs) + torch.is_inference_mode_enabled()

    broken = Subject("overload", whole.name, dataclasses.replace(whole.info, op=op))
    assert checked("overload-layouts", broken, "float32").verdict is Verdict.PASS
    assert checked("overload-repeats", broken, "float32").verdict is Verdict.PASS
    monkeypatch.setattr(_call_forms, "_has_both", lambda device_type, name: True)
    assert checked("overload-layouts", broken, "float32").verdict is Verdict.FAIL
    assert checked("overload-repeats", broken, "float32").verdict is Verdict.FAIL
    assert checked("overload-layouts", whole, "float32").verdict is Verdict.PASS
    assert checked("overload-repeats", whole, "float32").verdict is Verdict.PASS


def test_an_error_that_is_missing_in_inference_mode_alone_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = torch_databases.find("overload", "group_norm")

    def op(x: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return whole.info.op(x, *args, **kwargs)
        except RuntimeError:
            if torch.is_inference_mode_enabled():
                return x
            raise

    broken = Subject("overload", whole.name, dataclasses.replace(whole.info, op=op))
    assert checked("overload-errors", broken, "float32").verdict is Verdict.PASS
    monkeypatch.setattr(_call_forms, "_has_both", lambda device_type, name: True)
    assert checked("overload-errors", broken, "float32").verdict is Verdict.FAIL
    assert checked("overload-errors", whole, "float32").verdict is Verdict.PASS


@pytest.mark.parametrize("name", EMPTY)
def test_empty_calls_are_taken_and_have_an_empty_tensor(name: str) -> None:
    subject = torch_databases.find("overload", name)
    dtype = next(one for one in ("float32", *subject.info.dtypes) if one in subject.info.dtypes)
    known = calls.samples(name, dtype, EMPTY)
    assert known and all(_references.overload_reference(subject, dtype, one) is not None for one in known)
    assert all(any(t.numel() == 0 for t in one.tensors()) for one in known)


def test_every_property_has_a_fault() -> None:
    planted_for = {fault.property for fault in planted.FAULTS}
    assert {entry.name for entry in properties("overload")} == planted_for


def test_neutral_calls_return_the_values_of_an_argument() -> None:
    for name in NEUTRAL:
        subject = torch_databases.find("overload", name)
        for sample in calls.samples(name, "float32", NEUTRAL):
            found = _references.overload_reference(subject, "float32", sample)
            assert found is not None, name
            first = trees.tensors(found.outputs)[0]
            assert any(torch.equal(first, given) for given in sample.tensors()), name
        assert calls.samples(name, "float32", NEUTRAL), name


@pytest.mark.parametrize("name", TELLING)
def test_telling_calls_are_taken_and_come_first(name: str) -> None:
    subject = torch_databases.find("overload", name)
    dtype = next(one for one in ("float32", *subject.info.dtypes) if one in subject.info.dtypes)
    told = calls.samples(name, dtype, TELLING)
    assert told and all(_references.overload_reference(subject, dtype, one) is not None for one in told)
    known = calls_of(subject, dtype)
    assert [known[index].describe() for index in range(len(told))] == [one.describe() for one in told]


@pytest.mark.parametrize("dimensions", [2, 3])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_the_input_of_a_telling_pooling_has_no_equal_values(dimensions: int, dtype: str) -> None:
    (told,) = calls.samples(f"fractional_max_pool{dimensions}d", dtype, TELLING)
    assert len(told.input.unique()) == told.input.numel()


def test_large_calls_are_taken_in_some_dtype() -> None:
    for name in LARGE:
        subject = torch_databases.find("overload", name)
        found = [
            _references.overload_reference(subject, dtype, sample)
            for dtype in subject.info.dtypes[-3:]
            for sample in calls.samples(name, dtype, LARGE)
        ]
        sizes = [t.numel() for one in found if one is not None for t in trees.tensors(one.outputs)]
        assert max(sizes, default=0) > 16, name


def test_memory_that_calls_keep_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[torch.Tensor] = []
    monkeypatch.setattr(memory, "allocated_bytes_counter", lambda target: lambda: sum(t.nbytes for t in kept))
    whole = torch_databases.find("overload", "relu")
    assert checked("overload-repeats", whole, "float32").verdict is Verdict.PASS

    def op(x: Any) -> Any:
        kept.append(torch.empty_like(x))
        return whole.info.op(x)

    leaking = Subject("overload", "relu", dataclasses.replace(whole.info, op=op))
    result = checked("overload-repeats", leaking, "float32")
    assert [failure.kind for failure in result.failures] == [Kind.STATE]


def test_nothing_is_held_that_the_cpu_does_not_keep_to() -> None:
    # torch's own kernel writes a strided out= of im2col as if it were dense (docs/torch-bugs.md).
    result = checked("overload-layouts", torch_databases.find("overload", "im2col"), "float32")
    assert result.verdict is Verdict.PASS
    assert any("the CPU does not keep to this itself" in note for note in result.notes)


def test_an_answer_that_depends_on_old_memory_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = torch_databases.find("overload", "relu")
    target = target_file.load("cpu").target("eager")
    sample = next(iter(_references.references(target, subject, _recorder(), 1))).sample
    found = _references.overload_reference(subject, "float32", sample)
    assert found is not None
    assert _references.is_reproducible_on_cpu(found)
    found.outputs = torch.empty_like(found.outputs).fill_(5)
    assert not _references.is_reproducible_on_cpu(found)


def _answer_of_memory(
    monkeypatch: pytest.MonkeyPatch, byte: Callable[[], Any]
) -> _references.OverloadReference:
    """Return an answer of relu with a byte of some memory added."""
    whole = torch_databases.find("overload", "relu")
    target = target_file.load("cpu").target("eager")
    sample = next(iter(_references.references(target, whole, _recorder(), 1))).sample

    def op(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x) + byte()

    op._schema = whole.info.op._schema  # type: ignore[attr-defined]
    monkeypatch.setattr(_references, "torch_overload", lambda subject: dataclasses.replace(whole.info, op=op))
    found = _references.overload_reference(whole, "float32", sample)
    assert found is not None
    return found


@pytest.mark.skipif(not _memory._glibc_fills(), reason="the allocator of the host fills no memory")
def test_an_answer_that_depends_on_a_kernel_s_own_memory_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    found = _answer_of_memory(monkeypatch, lambda: torch.empty(1, dtype=torch.uint8)[0])
    assert not _references.is_reproducible_on_cpu(found)


@pytest.mark.skipif(not _memory._glibc_fills(), reason="the allocator of the host hands out other memory")
def test_an_answer_that_depends_on_nan_in_a_kernel_s_own_memory_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = _answer_of_memory(monkeypatch, lambda: (torch.empty(1024) * 0).isnan().sum())
    found.outputs = torch.relu(found.sample.input)  # as it is in memory that holds no NaN
    assert not _references.is_reproducible_on_cpu(found)


def test_other_allocators_are_left_blocks_of_the_sizes_that_kernels_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left: list[int] = []

    def leave_behind(sizes: Iterable[int], device: torch.device, filler: int) -> None:
        if {64, 1024, 65_472} <= set(sizes):
            left.append(filler)

    monkeypatch.setattr(_memory, "_glibc_fills", lambda: False)
    monkeypatch.setattr(_memory, "leave_behind", leave_behind)
    found = _answer_of_memory(monkeypatch, lambda: left[-1] if left else 0)
    assert not _references.is_reproducible_on_cpu(found)


def test_an_answer_of_unwritten_memory_is_none() -> None:
    # torch's own kernel leaves the loss of an empty batch unwritten.
    subject = torch_databases.find("overload", "multi_margin_loss")
    batch = torch.empty(0, 3, dtype=torch.float64), torch.empty(0, dtype=torch.int64)
    found = _references.overload_reference(subject, "float64", Sample(0, batch[0], (batch[1],)))
    assert found is not None
    assert not _references.is_reproducible_on_cpu(found)


@pytest.mark.skipif(not _memory._glibc_fills(), reason="the allocator of the host fills no memory")
def test_new_memory_holds_a_byte_where_an_allocator_keeps_its_notes() -> None:
    before = _mapped_byte()
    for filler, held in ((255, 254), (63, 63), (0, 0)):
        for size in (1, 8, 16, 100, 1 << 16, 1 << 22):
            with _memory.host_memory_holding(filler, ()):
                assert set(torch.empty(size, dtype=torch.uint8).tolist()[:64]) == {held}
                assert _mapped_byte() == held
        assert _mapped_byte() == before


def _mapped_byte() -> int:
    """Return what a block holds that glibc always maps anew: zeros of the system, if glibc writes nothing.

    Freed memory at the end of the heap would be taken before.
    """
    ctypes.CDLL(None).malloc_trim(0)
    return int(torch.empty(1 << 26, dtype=torch.uint8)[1 << 20])


def _recorder() -> Recorder:
    return Recorder(ResultId(CaseId("overload-forms", "relu"), "float32"), seed=0)


def test_a_device_that_keeps_statistics_in_float32_is_right() -> None:
    whole = torch_databases.find("overload", "native_layer_norm")

    def op(*args: Any) -> Any:
        result, *statistics = whole.info.op(*args)
        return result, *(one.float() for one in statistics)

    def out(*args: Any, out0: Any, out1: Any, out2: Any) -> Any:
        if (out1.dtype, out2.dtype) != (torch.float32, torch.float32):
            raise RuntimeError("statistics are float32")
        short = [torch.empty_like(one, dtype=out0.dtype) for one in (out1, out2)]
        whole.info.out(*args, out0=out0, out1=short[0], out2=short[1])
        for one, other in zip((out1, out2), short, strict=True):
            one.resize_(other.shape).copy_(other)
        return out0, out1, out2

    own = Subject("overload", whole.name, dataclasses.replace(whole.info, op=op, out=out))
    for name in ("overload-forms", "overload-layouts", "overload-repeats"):
        result = checked(name, own, "bfloat16")
        assert result.verdict is Verdict.PASS, (name, result.failures)


def test_a_device_may_multiply_only_whole_sixteens_of_8_bit_numbers() -> None:
    whole = torch_databases.find("overload", "_scaled_mm")

    def op(x: Any, y: Any, *args: Any, **kwargs: Any) -> Any:
        if not y.t().is_contiguous() or any(size % 16 for size in y.shape):
            raise RuntimeError("columns are contiguous, and multiples of 16")
        return whole.info.op(x, y, *args, **kwargs)

    own = Subject("overload", whole.name, dataclasses.replace(whole.info, op=op))
    for name in ("overload-forms", "overload-layouts", "overload-shapes"):
        result = checked(name, own, "float8_e4m3fn")
        assert result.verdict is Verdict.PASS, (name, result.failures)
