"""Promises of operators that return indices."""

from __future__ import annotations

import torch

from conformance.oracle.promises.table import PROMISES
from conformance.samples.operators import Sample


def test_kthvalue_finds_its_dimension_after_k() -> None:
    values = torch.tensor([[3.0, 1.0, 2.0], [6.0, 5.0, 4.0]])
    for args, kwargs in (((2,), {}), ((2, 1), {}), ((2,), {"dim": 1}), ((1, 0), {}), ((2, -1, True), {})):
        sample = Sample(0, values, args, kwargs)
        result = sample.call(torch.kthvalue)
        claims = PROMISES["kthvalue"](result, result, sample)
        assert claims is not None
        assert all(torch.equal(claim.actual, claim.expected) for claim in claims)
