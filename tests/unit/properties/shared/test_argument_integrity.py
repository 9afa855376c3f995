"""If a call changes an argument, or a memory gap of an argument, the change is reported unless the call may
write the argument.
"""

from __future__ import annotations

import pytest
import torch

from conformance.framework import storages
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import ResultId
from conformance.properties.shared.argument_integrity import check_unwritten_arguments
from conformance.samples.copies import to_host
from conformance.samples.operators import Sample


def failure_count(sample: Sample, copy: Sample, *written: int) -> int:
    recorder = Recorder(ResultId.parse("value/add@float32"), seed=0)
    check_unwritten_arguments(recorder, sample, copy, written)
    return recorder.failure_count


def sample_and_host_copy() -> tuple[Sample, Sample]:
    base = torch.arange(8.0)
    sample = Sample(0, base[::2], (torch.ones(3), base[1::2]))
    return sample, to_host(sample)


def test_unchanged_arguments_are_not_a_failure() -> None:
    assert failure_count(*sample_and_host_copy()) == 0


def test_a_changed_argument_is_a_failure() -> None:
    sample, copy = sample_and_host_copy()
    copy.args[0][2] = 7
    assert failure_count(sample, copy) == 1
    assert failure_count(sample, copy, 1) == 0


def test_changed_memory_between_the_elements_is_a_failure() -> None:
    sample = Sample(0, torch.arange(8.0)[::2])
    copy = to_host(sample)
    copy.input.as_strided((1,), (1,), 1).fill_(7)
    assert failure_count(sample, copy) == 1


def test_an_argument_that_shares_memory_with_a_written_argument_may_change() -> None:
    sample, copy = sample_and_host_copy()
    copy.args[1].fill_(7)
    assert failure_count(sample, copy) == 2
    assert failure_count(sample, copy, 0) == 0


def test_nan_is_compared_by_its_bits() -> None:
    sample = Sample(0, torch.tensor([float("nan"), 1.0]))
    assert failure_count(sample, to_host(sample)) == 0


def test_an_argument_copied_without_its_memory_gaps_is_compared_by_value() -> None:
    sample = Sample(0, torch.arange(8)[::2])
    assert failure_count(sample, sample.replace(input=sample.input.clone())) == 0
    assert failure_count(sample, sample.replace(input=sample.input + 1)) == 1


def test_without_storages_arguments_are_compared_by_their_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = torch.arange(6.0).reshape(2, 3)
    sample = Sample(0, matrix.t(), (torch.ones(3),))
    copy = Sample(0, matrix.t().contiguous(), (torch.ones(3),))
    assert failure_count(sample, copy) == 1, "the storages hold the elements in different orders"
    monkeypatch.setattr(storages, "_device_has_storages", lambda device_type: False)
    assert failure_count(sample, copy) == 0
    copy.args[0][1] = 7
    assert failure_count(sample, copy) == 1
    assert failure_count(sample, copy, 1) == 0
