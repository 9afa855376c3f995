"""Every property of overloads fails with its injected faults and passes without them."""

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
from conformance.oracle import filled_memory
from conformance.properties.overloads import _call_forms, _references
from conformance.properties.registry import find_property, properties
from conformance.samples.handmade_calls import calls
from conformance.samples.handmade_calls.discriminating import DISCRIMINATING_CALLS
from conformance.samples.handmade_calls.empty import EMPTY_CALLS
from conformance.samples.handmade_calls.identity import IDENTITY_CALLS
from conformance.samples.handmade_calls.large import LARGE_CALLS
from conformance.samples.operators import Sample
from conformance.samples.recorded_calls import calls_of
from conformance.subjects import torch_databases
from conformance.subjects.torch_databases import Subject
from conformance.target import file as target_file
from tests.injected_faults.overloads import faults


def check_property(name: str, subject: Subject, dtype: str) -> Result:
    entry = find_property("overload", name)
    target = target_file.load("cpu").target("eager")
    assert dtype in entry.applies(target, subject)
    recorder = Recorder(ResultId(CaseId(name, subject.name), dtype), seed=0)
    entry.check(target, subject, recorder)
    return recorder.result()


@pytest.mark.parametrize("fault", faults.FAULTS, ids=lambda fault: fault.name)
def test_fails_with_the_fault(fault: faults.Fault) -> None:
    result = check_property(fault.property, faults.subject_with_fault(fault), fault.dtype)
    assert result.verdict is Verdict.FAIL
    assert fault.kind in {failure.kind for failure in result.failures}, result.failures


@pytest.mark.parametrize(
    "case", sorted({(fault.property, fault.overload, fault.dtype) for fault in faults.FAULTS}), ids="-".join
)
def test_passes_without_the_fault(case: tuple[str, str, str]) -> None:
    name, overload, dtype = case
    result = check_property(name, torch_databases.find("overload", overload), dtype)
    assert result.verdict is Verdict.PASS, result.failures


def test_a_kernel_that_only_inference_mode_calls_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = torch_databases.find("overload", "group_norm")

    def op(*args: Any, **kwargs: Any) -> Any:
        return whole.info.op(*args, **kwargs) + torch.is_inference_mode_enabled()

    broken = Subject("overload", whole.name, dataclasses.replace(whole.info, op=op))
    assert check_property("overload-layouts", broken, "float32").verdict is Verdict.PASS
    assert check_property("overload-repeats", broken, "float32").verdict is Verdict.PASS
    monkeypatch.setattr(_call_forms, "_device_has_both_kernels", lambda device_type, name: True)
    assert check_property("overload-layouts", broken, "float32").verdict is Verdict.FAIL
    assert check_property("overload-repeats", broken, "float32").verdict is Verdict.FAIL
    assert check_property("overload-layouts", whole, "float32").verdict is Verdict.PASS
    assert check_property("overload-repeats", whole, "float32").verdict is Verdict.PASS


def test_an_error_that_is_missing_only_in_inference_mode_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = torch_databases.find("overload", "group_norm")

    def op(x: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return whole.info.op(x, *args, **kwargs)
        except RuntimeError:
            if torch.is_inference_mode_enabled():
                return x
            raise

    broken = Subject("overload", whole.name, dataclasses.replace(whole.info, op=op))
    assert check_property("overload-errors", broken, "float32").verdict is Verdict.PASS
    monkeypatch.setattr(_call_forms, "_device_has_both_kernels", lambda device_type, name: True)
    assert check_property("overload-errors", broken, "float32").verdict is Verdict.FAIL
    assert check_property("overload-errors", whole, "float32").verdict is Verdict.PASS


@pytest.mark.parametrize("name", EMPTY_CALLS)
def test_empty_calls_are_accepted_and_have_an_empty_tensor(name: str) -> None:
    subject = torch_databases.find("overload", name)
    dtype = next(item for item in ("float32", *subject.info.dtypes) if item in subject.info.dtypes)
    empty_calls = calls.handmade_samples(name, dtype, EMPTY_CALLS)
    assert empty_calls and all(
        _references.overload_reference(subject, dtype, item) is not None for item in empty_calls
    )
    assert all(any(t.numel() == 0 for t in item.tensors()) for item in empty_calls)


def test_every_property_has_a_fault() -> None:
    faulted_properties = {fault.property for fault in faults.FAULTS}
    assert {entry.name for entry in properties("overload")} == faulted_properties


def test_identity_calls_return_the_values_of_an_argument() -> None:
    for name in IDENTITY_CALLS:
        subject = torch_databases.find("overload", name)
        for sample in calls.handmade_samples(name, "float32", IDENTITY_CALLS):
            reference = _references.overload_reference(subject, "float32", sample)
            assert reference is not None, name
            first = trees.tensors(reference.outputs)[0]
            assert any(torch.equal(first, tensor) for tensor in sample.tensors()), name
        assert calls.handmade_samples(name, "float32", IDENTITY_CALLS), name


@pytest.mark.parametrize("name", DISCRIMINATING_CALLS)
def test_discriminating_calls_are_accepted_and_come_first(name: str) -> None:
    subject = torch_databases.find("overload", name)
    dtype = next(item for item in ("float32", *subject.info.dtypes) if item in subject.info.dtypes)
    discriminating = calls.handmade_samples(name, dtype, DISCRIMINATING_CALLS)
    assert discriminating and all(
        _references.overload_reference(subject, dtype, item) is not None for item in discriminating
    )
    all_calls = calls_of(subject, dtype)
    assert [all_calls[index].describe() for index in range(len(discriminating))] == [
        item.describe() for item in discriminating
    ]


@pytest.mark.parametrize("dimensions", [2, 3])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_the_input_of_a_discriminating_pooling_has_no_equal_values(dimensions: int, dtype: str) -> None:
    (discriminating,) = calls.handmade_samples(
        f"fractional_max_pool{dimensions}d", dtype, DISCRIMINATING_CALLS
    )
    assert len(discriminating.input.unique()) == discriminating.input.numel()


def test_large_calls_are_accepted_in_some_dtype() -> None:
    for name in LARGE_CALLS:
        subject = torch_databases.find("overload", name)
        references = [
            _references.overload_reference(subject, dtype, sample)
            for dtype in subject.info.dtypes[-3:]
            for sample in calls.handmade_samples(name, dtype, LARGE_CALLS)
        ]
        sizes = [
            t.numel()
            for reference in references
            if reference is not None
            for t in trees.tensors(reference.outputs)
        ]
        assert max(sizes, default=0) > 16, name


def test_memory_that_calls_retain_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    retained: list[torch.Tensor] = []
    monkeypatch.setattr(
        memory, "allocated_bytes_counter", lambda target: lambda: sum(t.nbytes for t in retained)
    )
    whole = torch_databases.find("overload", "relu")
    assert check_property("overload-repeats", whole, "float32").verdict is Verdict.PASS

    def op(x: Any) -> Any:
        retained.append(torch.empty_like(x))
        return whole.info.op(x)

    leaking = Subject("overload", "relu", dataclasses.replace(whole.info, op=op))
    result = check_property("overload-repeats", leaking, "float32")
    assert [failure.kind for failure in result.failures] == [Kind.STATE]


def test_a_check_that_the_cpu_fails_is_only_a_note() -> None:
    # torch's own kernel writes a strided out= of im2col as if it were dense (docs/torch-bugs.md).
    result = check_property("overload-layouts", torch_databases.find("overload", "im2col"), "float32")
    assert result.verdict is Verdict.PASS
    assert any("the CPU fails the same check" in note for note in result.notes)


def test_a_result_that_depends_on_old_memory_is_not_a_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = torch_databases.find("overload", "relu")
    target = target_file.load("cpu").target("eager")
    sample = next(iter(_references.references(target, subject, _recorder(), 1))).sample
    reference = _references.overload_reference(subject, "float32", sample)
    assert reference is not None
    assert reference.is_reproducible()
    reference.outputs = torch.empty_like(reference.outputs).fill_(5)
    assert not reference.is_reproducible()


def _reference_with_added_byte(
    monkeypatch: pytest.MonkeyPatch, byte: Callable[[], Any]
) -> _references.OverloadReference:
    """Return the reference of an overload that computes ``relu(x) + byte()``. For the rest of the
    test, this overload replaces torch's own overload.
    """
    whole = torch_databases.find("overload", "relu")
    target = target_file.load("cpu").target("eager")
    sample = next(iter(_references.references(target, whole, _recorder(), 1))).sample

    def op(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x) + byte()

    op._schema = whole.info.op._schema  # type: ignore[attr-defined]
    monkeypatch.setattr(_references, "torch_overload", lambda subject: dataclasses.replace(whole.info, op=op))
    reference = _references.overload_reference(whole, "float32", sample)
    assert reference is not None
    return reference


@pytest.mark.skipif(
    not filled_memory._does_glibc_fill_memory(), reason="the allocator of the host fills no memory"
)
def test_a_result_that_depends_on_a_kernel_s_own_memory_is_not_a_reference(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reference = _reference_with_added_byte(monkeypatch, lambda: torch.empty(1, dtype=torch.uint8)[0])
    assert not reference.is_reproducible()


@pytest.mark.skipif(
    not filled_memory._does_glibc_fill_memory(), reason="the allocator of the host returns other memory"
)
def test_a_result_that_depends_on_nan_in_a_kernel_s_own_memory_is_not_a_reference(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reference = _reference_with_added_byte(monkeypatch, lambda: (torch.empty(1024) * 0).isnan().sum())
    reference.outputs = torch.relu(reference.sample.input)  # the result if the memory contains no NaN
    assert not reference.is_reproducible()


def test_without_glibc_filling_freed_blocks_have_the_filler_byte(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    block_fillers: list[int] = []

    def leave_behind(sizes: Iterable[int], device: torch.device, filler: int) -> None:
        if {64, 1024, 65_472} <= set(sizes):
            block_fillers.append(filler)

    monkeypatch.setattr(filled_memory, "_does_glibc_fill_memory", lambda: False)
    monkeypatch.setattr(filled_memory, "fill_and_free_memory", leave_behind)
    reference = _reference_with_added_byte(monkeypatch, lambda: block_fillers[-1] if block_fillers else 0)
    assert not reference.is_reproducible()


def test_a_result_of_unwritten_memory_is_not_a_reference() -> None:
    # torch's own kernel does not write its output, the loss, if the batch is empty.
    subject = torch_databases.find("overload", "multi_margin_loss")
    batch = torch.empty(0, 3, dtype=torch.float64), torch.empty(0, dtype=torch.int64)
    reference = _references.overload_reference(subject, "float64", Sample(0, batch[0], (batch[1],)))
    assert reference is not None
    assert not reference.is_reproducible()


@pytest.mark.skipif(
    not filled_memory._does_glibc_fill_memory(), reason="the allocator of the host fills no memory"
)
def test_host_memory_holding_fills_new_memory() -> None:
    before = _byte_of_mapped_block()
    for filler, expected_byte in ((255, 254), (63, 63), (0, 0)):
        for size in (1, 8, 16, 100, 1 << 16, 1 << 22):
            with filled_memory.fill_new_host_memory(filler, ()):
                assert set(torch.empty(size, dtype=torch.uint8).tolist()[:64]) == {expected_byte}
                assert _byte_of_mapped_block() == expected_byte
        assert _byte_of_mapped_block() == before


def _byte_of_mapped_block() -> int:
    """Return a byte of a new block that is so large that glibc always maps new memory for the block.

    The byte is 0 unless glibc fills new memory. A smaller block could reuse freed memory at the end of the
    heap.
    """
    ctypes.CDLL(None).malloc_trim(0)
    return int(torch.empty(1 << 26, dtype=torch.uint8)[1 << 20])


def _recorder() -> Recorder:
    return Recorder(ResultId(CaseId("overload-forms", "relu"), "float32"), seed=0)


def test_a_device_may_return_statistics_in_float32() -> None:
    whole = torch_databases.find("overload", "native_layer_norm")

    def op(*args: Any) -> Any:
        result, *statistics = whole.info.op(*args)
        return result, *(statistic.float() for statistic in statistics)

    def out(*args: Any, out0: Any, out1: Any, out2: Any) -> Any:
        if (out1.dtype, out2.dtype) != (torch.float32, torch.float32):
            raise RuntimeError("statistics are float32")
        short = [torch.empty_like(output, dtype=out0.dtype) for output in (out1, out2)]
        whole.info.out(*args, out0=out0, out1=short[0], out2=short[1])
        for output, narrow_output in zip((out1, out2), short, strict=True):
            output.resize_(narrow_output.shape).copy_(narrow_output)
        return out0, out1, out2

    own = Subject("overload", whole.name, dataclasses.replace(whole.info, op=op, out=out))
    for name in ("overload-forms", "overload-layouts", "overload-repeats"):
        result = check_property(name, own, "bfloat16")
        assert result.verdict is Verdict.PASS, (name, result.failures)


def test_a_device_may_multiply_8_bit_numbers_only_in_multiples_of_16() -> None:
    whole = torch_databases.find("overload", "_scaled_mm")

    def op(x: Any, y: Any, *args: Any, **kwargs: Any) -> Any:
        if not y.t().is_contiguous() or any(size % 16 for size in y.shape):
            raise RuntimeError("columns are contiguous, and multiples of 16")
        return whole.info.op(x, y, *args, **kwargs)

    own = Subject("overload", whole.name, dataclasses.replace(whole.info, op=op))
    for name in ("overload-forms", "overload-layouts", "overload-shapes"):
        result = check_property(name, own, "float8_e4m3fn")
        assert result.verdict is Verdict.PASS, (name, result.failures)
