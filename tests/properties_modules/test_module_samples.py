"""Samples of modules and optimizers: the same in every process, private, and alive."""

from __future__ import annotations

import pytest
import torch

from conformance.checking.trees import tensors
from conformance.oracle import modules as module_oracle
from conformance.oracle.observed_modules import BACKWARD
from conformance.properties.modules._common import each_tensor
from conformance.properties.modules.non_contiguous import strided
from conformance.samples import modules as module_samples
from conformance.samples import optimizers as optimizer_samples
from conformance.subjects import extra_modules
from conformance.subjects.databases import find, subjects


def first(name: str, dtype: torch.dtype = torch.float32) -> module_samples.ModuleSample:
    return module_samples.module_samples(find("module", name), dtype).samples[0]


def test_samples_are_made_of_words_only() -> None:
    before = first("nn.Linear")
    state = {name: one.clone() for name, one in before.module().state_dict().items()}
    inputs = [one.detach().clone() for one in tensors(before.call)]
    module_samples.forget()
    torch.manual_seed(99)
    again = first("nn.Linear")
    assert again is not before
    assert all(torch.equal(state[name], one) for name, one in again.module().state_dict().items())
    assert all(torch.equal(one, other) for one, other in zip(inputs, tensors(again.call), strict=True))


def test_samples_leave_the_generator_alone() -> None:
    module_samples.forget()
    before = torch.default_generator.get_state()
    sample = first("nn.Dropout")
    sample.module()
    module_oracle.compute(sample, BACKWARD)
    assert torch.equal(torch.default_generator.get_state(), before)


def test_copies_are_private() -> None:
    sample = first("nn.Linear")
    with torch.no_grad():
        sample.module().weight.zero_()  # type: ignore[union-attr,operator]
        for tensor in tensors(sample.arguments()):
            tensor.zero_()
    assert bool(sample.module().weight.any())  # type: ignore[union-attr,operator]
    assert all(bool(tensor.any()) for tensor in tensors(sample.arguments()))


def test_parameters_start_off_the_constants() -> None:
    state = first("nn.BatchNorm2d").module().state_dict()
    for name in ("weight", "bias", "running_mean", "running_var"):
        assert state[name].unique().numel() > 1, name


def test_an_argument_that_is_passed_twice_stays_one() -> None:
    tensor = torch.arange(3.0, requires_grad=True)
    args, kwargs = each_tensor(((tensor, tensor), {"other": tensor}), torch.clone)
    assert args[0] is args[1] is kwargs["other"]
    assert args[0] is not tensor
    assert args[0].requires_grad


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 3, 4)])
def test_strided_copies_keep_values_and_have_gaps(shape: tuple[int, ...]) -> None:
    tensor = torch.randn(shape)
    copy = strided(tensor)
    assert torch.equal(copy, tensor)
    assert copy.storage_offset() == 1
    if shape:
        assert not copy.is_contiguous()


def test_lazy_modules_are_materialised() -> None:
    sample = first("nn.LazyLinear")
    assert type(sample.module()) is torch.nn.Linear


def test_extra_entries_give_way_to_those_of_torch() -> None:
    assert [one.name for one in extra_modules.entries(["nn.Dropout"])].count("nn.Dropout") == 0
    names = [one.name for one in subjects("module")]
    assert len(names) == len(set(names))


def test_optimizer_problems_are_private_and_strided_as_the_sample() -> None:
    sample = optimizer_samples.optimizer_samples(find("optimizer", "Adam"), torch.float32, capturable=False)[
        0
    ]
    problem = sample.problem()
    assert [one.stride() for one in problem.parameters] == [one.stride() for one in sample.parameters]
    with torch.no_grad():
        problem.parameters[0].zero_()
    assert bool(sample.parameters[0].any())
    assert not sample.parameters[0].requires_grad
