"""``samples.recorded_calls`` records overload calls while an operator runs, and converts them to other
dtypes.
"""

import pytest
import torch

from conformance.framework.calls import attempt
from conformance.properties.overloads._references import call_without_warnings
from conformance.samples import recorded_calls
from conformance.samples.copies import to_host
from conformance.samples.handmade_calls.calls import HANDMADE_CALLS
from conformance.samples.operators import dtype_of
from conformance.samples.recorded_calls import CallRecording, calls_of
from conformance.subjects.torch_databases import find


@pytest.mark.parametrize("name", ["add.Tensor", "convolution_backward", "cat", "uniform"])
def test_recorded_calls_can_be_repeated(name: str) -> None:
    subject = find("overload", name)
    samples = calls_of(subject, "float32")
    assert samples.available
    for index in range(samples.available):
        sample = samples[index]
        assert next(iter(sample.tensors())).dtype == torch.float32
        sample.call(subject.info.op)


def test_calls_differ_in_form_and_the_first_one_has_elements() -> None:
    samples = calls_of(find("overload", "add.Tensor"), "int64")
    descriptions = [samples[index].describe() for index in range(samples.available)]
    assert len(set(descriptions)) == len(descriptions)
    assert all(tensor.numel() for tensor in samples[0].tensors())


def test_calls_are_converted_to_dtypes_in_which_no_sample_makes_them() -> None:
    subject = find("overload", "scatter.value")
    assert "float32" in subject.info.converted and "int64" not in subject.info.converted
    samples = calls_of(subject, "float32")
    assert samples.available
    for sample in (samples[index] for index in range(samples.available)):
        assert [tensor.dtype for tensor in sample.tensors()] == [torch.float32, torch.int64]
        sample.call(subject.info.op)


def test_numbers_that_a_dtype_cannot_hold_are_not_in_converted_calls() -> None:
    samples = calls_of(find("overload", "ne.Scalar"), "int32")
    numbers = [samples[index].args[0] for index in range(samples.available)]
    assert numbers and all(abs(number) < 1000 for number in numbers)


def test_a_recording_keeps_arguments_as_they_were_before_the_call() -> None:
    x = torch.zeros(3)
    with CallRecording("add.Tensor") as recording:
        x.add_(1)
        torch.mul(x, 2)
    assert [args[0].tolist() for args, _ in recording.calls] == [[0.0, 0.0, 0.0]]
    assert recording.dtypes == {"add.Tensor": {"float32"}}


def test_an_out_argument_is_not_recorded() -> None:
    out = torch.empty(3)
    with CallRecording("add.Tensor") as recording:
        torch.add(torch.ones(3), 1, out=out)
    for _, kwargs in recording.calls:
        assert "out" not in kwargs


def test_calls_with_sparse_tensors_are_not_recorded() -> None:
    with CallRecording() as recording:
        torch.eye(3).to_sparse().mul(2)
    assert "mul.Tensor" not in recording.dtypes


def test_calls_before_an_error_of_the_operator_are_recorded() -> None:
    operator = find("operator", "add")
    from conformance.samples.operators import Sample

    recording = CallRecording("add.Tensor")
    wrong = Sample(0, torch.ones(2), (torch.ones(3),))
    recorded_calls.record_calls(operator, torch.float32, wrong, recording, backward=False)
    assert len(recording.calls) == 1


def test_a_call_with_elements_comes_before_an_empty_one_of_more_dimensions() -> None:
    samples = calls_of(find("overload", "mish"), "float32")
    assert samples[0].input.shape == (4, 5)


@pytest.mark.parametrize("name", sorted(HANDMADE_CALLS))
def test_handmade_calls_are_accepted_in_every_dtype_of_the_table(name: str) -> None:
    subject = find("overload", name)
    assert subject.info.dtypes
    for dtype in subject.info.dtypes:
        samples = calls_of(subject, dtype)
        assert samples.available
        accepted_calls = 0
        for index in range(samples.available):
            sample = samples[index]
            assert next(iter(sample.tensors())).dtype == dtype_of(dtype)
            accepted_calls += attempt(
                lambda sample=sample: call_without_warnings(subject.info.op, to_host(sample))
            ).ok
        assert accepted_calls
