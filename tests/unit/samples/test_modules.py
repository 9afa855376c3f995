"""Module samples are equal in every process, are copied for each caller, and have no constant parameters."""

from __future__ import annotations

import torch

from conformance.framework.trees import tensors
from conformance.oracle import modules as module_oracle
from conformance.oracle.observed_modules import BACKWARD
from conformance.samples import modules as module_samples
from conformance.subjects.torch_databases import find


def first_module_sample(name: str, dtype: torch.dtype = torch.float32) -> module_samples.ModuleSample:
    return module_samples.module_samples(find("module", name), dtype).samples[0]


def test_samples_are_equal_after_the_cache_is_cleared() -> None:
    before = first_module_sample("nn.Linear")
    state = {name: tensor.clone() for name, tensor in before.module().state_dict().items()}
    inputs = [tensor.detach().clone() for tensor in tensors(before.call)]
    module_samples.clear_cache()
    torch.manual_seed(99)
    second_sample = first_module_sample("nn.Linear")
    assert second_sample is not before
    assert all(
        torch.equal(state[name], tensor) for name, tensor in second_sample.module().state_dict().items()
    )
    assert all(
        torch.equal(tensor, repeated)
        for tensor, repeated in zip(inputs, tensors(second_sample.call), strict=True)
    )


def test_samples_do_not_change_the_default_generator() -> None:
    module_samples.clear_cache()
    before = torch.default_generator.get_state()
    sample = first_module_sample("nn.Dropout")
    sample.module()
    module_oracle.reference_for_module(sample, BACKWARD)
    assert torch.equal(torch.default_generator.get_state(), before)


def test_copies_are_private() -> None:
    sample = first_module_sample("nn.Linear")
    with torch.no_grad():
        sample.module().weight.zero_()  # type: ignore[union-attr,operator]
        for tensor in tensors(sample.arguments()):
            tensor.zero_()
    assert bool(sample.module().weight.any())  # type: ignore[union-attr,operator]
    assert all(bool(tensor.any()) for tensor in tensors(sample.arguments()))


def test_parameters_are_not_constant() -> None:
    state = first_module_sample("nn.BatchNorm2d").module().state_dict()
    for name in ("weight", "bias", "running_mean", "running_var"):
        assert state[name].unique().numel() > 1, name


def test_lazy_modules_are_materialised() -> None:
    sample = first_module_sample("nn.LazyLinear")
    assert type(sample.module()) is torch.nn.Linear
