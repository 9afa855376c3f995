"""Arguments that change are seen, with the memory around them; what may change is not."""

from __future__ import annotations

import torch

from conformance.framework.recorder import Recorder
from conformance.model.verdicts import ResultId
from conformance.properties.shared.argument_integrity import check_unwritten_arguments
from conformance.samples.copies import to_host
from conformance.samples.operators import Sample


def failures(sample: Sample, copy: Sample, *written: int) -> int:
    recorder = Recorder(ResultId.parse("value/add@float32"), seed=0)
    check_unwritten_arguments(recorder, sample, copy, written)
    return recorder.failure_count


def pair() -> tuple[Sample, Sample]:
    base = torch.arange(8.0)
    sample = Sample(0, base[::2], (torch.ones(3), base[1::2]))
    return sample, to_host(sample)


def test_what_stays_as_it_was_is_no_failure() -> None:
    assert failures(*pair()) == 0


def test_a_changed_argument_is_a_failure() -> None:
    sample, copy = pair()
    copy.args[0][2] = 7
    assert failures(sample, copy) == 1
    assert failures(sample, copy, 1) == 0


def test_changed_memory_between_the_elements_is_a_failure() -> None:
    sample = Sample(0, torch.arange(8.0)[::2])
    copy = to_host(sample)
    copy.input.as_strided((1,), (1,), 1).fill_(7)
    assert failures(sample, copy) == 1


def test_what_shares_memory_with_a_written_argument_may_change() -> None:
    sample, copy = pair()
    copy.args[1].fill_(7)
    assert failures(sample, copy) == 2
    assert failures(sample, copy, 0) == 0


def test_nan_is_compared_by_its_bits() -> None:
    sample = Sample(0, torch.tensor([float("nan"), 1.0]))
    assert failures(sample, to_host(sample)) == 0


def test_an_argument_that_was_copied_without_the_memory_around_it_is_compared_by_value() -> None:
    sample = Sample(0, torch.arange(8)[::2])
    assert failures(sample, sample.replace(input=sample.input.clone())) == 0
    assert failures(sample, sample.replace(input=sample.input + 1)) == 1
