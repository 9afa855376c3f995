"""Tolerances are wide enough for good kernels and narrow enough for bad kernels (docs/tolerances.md)."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from conformance.framework import trees
from conformance.framework.compare import excess_over_tolerance
from conformance.oracle.reference import cached_reference
from conformance.samples.operators import samples_of
from conformance.subjects import catalogue
from tools import tolerance_margins

#: Operators of each tolerance class -> limit for the operator's narrowest tolerance in float32, in units of
#: the result (docs/tolerances.md).
OPERATORS = {
    "exp": 9,
    "tanh": 9,
    "mul": 17,
    "div.no_rounding_mode": 17,
    "nn.functional.gelu": 100,
    "special.bessel_j0": 200,
    "sum": 100,
    "logsumexp": 17,
    "softmax": 100,
    "mm": 200,
    "nn.functional.layer_norm": 100,
    "nn.functional.group_norm": 300,
    "linalg.solve": 1000,
}


def find_operator(name: str) -> catalogue.Subject:
    """Return the operator with the shortest name that starts with ``name``."""
    matching = [subject for subject in catalogue.subjects("operator") if subject.name.startswith(name)]
    return min(matching, key=lambda subject: len(subject.name))


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_good_kernels_use_less_than_half_of_the_tolerance(name: str, dtype: torch.dtype) -> None:
    if dtype not in find_operator(name).info.dtypes:
        assert dtype is not torch.float32
        return
    margin = tolerance_margins.tolerance_margin_of(find_operator(name), dtype)
    assert margin is not None
    assert margin.cpu < 0.5 and (margin.decomposed or 0.0) < 0.5
    assert dtype is not torch.float32 or margin.narrowest < OPERATORS[name]


@pytest.mark.parametrize("name", OPERATORS)
def test_a_kernel_twice_as_inexact_as_the_tolerance_fails(name: str) -> None:
    margin = tolerance_margins.tolerance_margin_of(find_operator(name), torch.float32)
    assert margin is not None
    samples = samples_of(find_operator(name), torch.float32)
    excesses = []
    for sample in samples.chosen(tolerance_margins.SAMPLES):
        reference = cached_reference(find_operator(name), torch.float32, sample.index, samples)
        for index, wide, _ in tolerance_margins.values_and_allowed_errors(reference):
            wrong = (wide * (1 + 2 * margin.narrowest * torch.finfo(torch.float32).eps)).float()
            excess = excess_over_tolerance(
                wrong,
                trees.tensors(reference.high_precision)[index],
                tolerance=tolerance_margins.tolerance_of(reference, index),
                sensitivity=reference.sensitivity[index],
            )
            excesses.append(excess.factor)
    assert max(excesses) > 1.5


def test_the_table_is_written_between_the_marks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- margins -->\nold\n<!-- end of margins -->\nafter\n")
    assert tolerance_margins.main(["-k", "expm1", "--page", str(page)]) == 0
    text = page.read_text()
    assert text.startswith("before\n") and text.endswith("after\n") and "old" not in text
    assert "| elementwise | float32 | 1 |" in text and capsys.readouterr().out.strip() in text
    page.write_text("no marks")
    with pytest.raises(SystemExit):
        tolerance_margins.main(["-k", "expm1", "--page", str(page)])
