"""``framework.refusals`` classifies exceptions of a device: declared refusal, clean refusal, or failure."""

from __future__ import annotations

import dataclasses
import pickle

import pytest
import torch

from conformance.framework import refusals
from conformance.framework.calls import is_refusal
from conformance.framework.refusals import ExceptionDisposition
from conformance.model.verdicts import ResultId
from conformance.target import file as target_file


def test_refusals_are_declared_and_clean_or_failures() -> None:
    target = dataclasses.replace(
        target_file.load("cpu").target("eager"), unsupported={"*/fft_*@float16": "no half"}
    )
    declared, undeclared = ResultId.parse("value/fft_rfft@float16"), ResultId.parse("value/fft_rfft@float32")

    def classify(error: BaseException, result_id: ResultId = declared) -> ExceptionDisposition:
        return refusals.classify_exception(target, result_id, error)

    assert (
        classify(NotImplementedError("no")) == classify(RuntimeError("no")) is ExceptionDisposition.DECLARED
    )
    assert classify(NotImplementedError("no"), undeclared) is ExceptionDisposition.UNDECLARED
    for error in (torch.OutOfMemoryError("no"), RecursionError("no"), ValueError("no"), TypeError("no"),
                  RuntimeError("x INTERNAL ASSERT FAILED at y")):  # fmt: skip
        assert classify(error) is ExceptionDisposition.UNDECLARED
    assert refusals.unsupported_reason(target, declared) == "no half"


def test_the_error_of_an_allocator_without_statistics_is_a_clean_refusal() -> None:
    target = target_file.load("cpu").target("eager")
    error = RuntimeError(
        "device_allocator INTERNAL ASSERT FAILED at CachingDeviceAllocator.h:262, please report a bug. "
        "Allocator for privateuseone is not a DeviceAllocator."
    )
    result_id = ResultId.parse("api/statistics-add-up/memory@any")
    assert (
        refusals.classify_exception(target, result_id, error, ("memory_statistics",))
        is ExceptionDisposition.DECLARED
    )
    assert refusals.classify_exception(target, result_id, error) is ExceptionDisposition.UNDECLARED
    assert is_refusal(error)


def test_without_a_capability_torch_may_refuse_the_device_type_and_pickle_the_object() -> None:
    target, result_id = target_file.load("cpu").target("eager"), ResultId.parse("dlpack-copies/exchange@any")
    for error in (ValueError("Unknown device type xla for Dlpack"), pickle.PicklingError("Can't pickle it")):
        assert (
            refusals.classify_exception(target, result_id, error, ("dlpack",))
            is ExceptionDisposition.DECLARED
        )
        assert refusals.classify_exception(target, result_id, error) is ExceptionDisposition.UNDECLARED


def test_without_a_capability_the_module_of_the_device_may_lack_a_function(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Some backends register a class or an object as their device module, instead of a Python module."""
    target, result_id = target_file.load("cpu").target("eager"), ResultId.parse("fake/add@float32")

    class DeviceModule:
        pass

    monkeypatch.setattr(torch, "cpu", DeviceModule)
    for owner, expected in (
        (DeviceModule, ExceptionDisposition.DECLARED),
        (object(), ExceptionDisposition.UNDECLARED),
    ):
        error = AttributeError("no is_initialized", name="is_initialized", obj=owner)
        assert refusals.classify_exception(target, result_id, error, ("fake_tensors",)) is expected
        assert refusals.classify_exception(target, result_id, error) is ExceptionDisposition.UNDECLARED
