"""Each caller of an optimizer sample gets its own parameters, with the strides of the sample."""

from __future__ import annotations

import torch

from conformance.samples import optimizers as optimizer_samples
from conformance.subjects.torch_databases import find


def test_optimizer_problems_are_private_and_strided_as_the_sample() -> None:
    sample = optimizer_samples.optimizer_samples(find("optimizer", "Adam"), torch.float32, capturable=False)[
        0
    ]
    problem = sample.problem()
    assert [tensor.stride() for tensor in problem.parameters] == [
        tensor.stride() for tensor in sample.parameters
    ]
    with torch.no_grad():
        problem.parameters[0].zero_()
    assert bool(sample.parameters[0].any())
    assert not sample.parameters[0].requires_grad
