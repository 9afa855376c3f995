"""An error for one layout contradicts other results only if the call with contiguous arguments returns a
result.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Basis, ResultId
from conformance.oracle.reference import Call, reference_for
from conformance.properties.operators._transformed_samples import check_transformed_sample
from conformance.samples.operators import Sample
from conformance.subjects.torch_databases import find
from conformance.target.file import load


def refuses_every_layout(tensor: torch.Tensor) -> torch.Tensor:
    raise RuntimeError("no kernel for this dtype")


def refuses_strides(tensor: torch.Tensor) -> torch.Tensor:
    if not tensor.is_contiguous():
        raise RuntimeError("the tensor must be contiguous")
    return torch.sin(tensor)


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        (torch.sin, []),
        (refuses_strides, [Basis.CONSISTENCY]),
        (refuses_every_layout, [Basis.PARITY]),
    ],
)
def test_the_basis_of_an_error_for_strided_arguments(
    op: Callable[[torch.Tensor], torch.Tensor], expected: list[Basis]
) -> None:
    subject, target = find("operator", "sin"), load("cpu").target("eager")
    strided = Sample(0, torch.arange(6.0).reshape(2, 3).t())
    reference = reference_for(Call(subject, torch.float32, strided))
    recorder = Recorder(ResultId.parse("layout/sin@float32"), seed=0)
    recorder.basis = Basis.CONSISTENCY
    check_transformed_sample(
        target,
        subject,
        recorder,
        strided.replace(input=strided.input.contiguous()),
        strided,
        reference,
        "transposed inputs",
        forms=[("operator", op, torch.sin)],
    )
    assert [failure.basis for failure in recorder.result().failures] == expected
