"""The relations of ``kthvalue`` and ``mode`` accept every correct index and reject wrong ones."""

from __future__ import annotations

import torch

from conformance.oracle.relations.registry import RELATIONS
from conformance.samples.operators import Sample


def test_the_relation_of_kthvalue_reads_dim_after_k() -> None:
    values = torch.tensor([[3.0, 1.0, 2.0], [6.0, 5.0, 4.0]])
    for args, kwargs in (((2,), {}), ((2, 1), {}), ((2,), {"dim": 1}), ((1, 0), {}), ((2, -1, True), {})):
        sample = Sample(0, values, args, kwargs)
        result = sample.call(torch.kthvalue)
        equations = RELATIONS["kthvalue"](result, result, sample)
        assert equations is not None
        assert all(torch.equal(equation.actual, equation.expected) for equation in equations)


def _relation_holds(actual: tuple[torch.Tensor, torch.Tensor], sample: Sample) -> bool:
    equations = RELATIONS["mode"](actual, sample.call(torch.mode), sample)
    assert equations is not None
    return all(torch.equal(equation.actual, equation.expected) for equation in equations)


def test_mode_may_return_any_most_frequent_value() -> None:
    values = torch.tensor([[3.0, 1.0, 3.0, 1.0, 2.0], [6.0, 6.0, 6.0, 4.0, 4.0]])
    for keepdim in (False, True):
        sample = Sample(0, values, (1, keepdim))

        def result(row: float, value: int, keepdim: bool = keepdim) -> tuple[torch.Tensor, torch.Tensor]:
            parts = torch.tensor([row, 6.0]), torch.tensor([value, 2])
            return (parts[0].unsqueeze(1), parts[1].unsqueeze(1)) if keepdim else parts

        assert _relation_holds(result(1.0, 3), sample)
        assert _relation_holds(result(3.0, 0), sample)
        assert not _relation_holds(result(2.0, 4), sample)
        assert not _relation_holds(result(1.0, 2), sample)
