"""What becomes of a result whose samples have nothing to be held against."""

from __future__ import annotations

import pytest
import torch

from conformance.checking.invocation import Outcome
from conformance.checking.recorder import Recorder
from conformance.checking.tolerances import rule
from conformance.model.verdicts import CaseId, Result, ResultId, Verdict
from conformance.oracle import operators as oracle
from conformance.properties.operators import _transforms as transforms
from conformance.properties.registry import find
from conformance.samples.operators import Sample
from conformance.subjects.databases import find as find_subject
from conformance.target import file as target_file

TRANSFORMS = ("vmap", "vjp", "jvp", "vmap-vjp", "vjp-vmap", "vjp-vjp", "vmap-vjp-vjp", "vmap-jvp", "jvp-vmap")


def checked(name: str, subject: str) -> Result:
    recorder = Recorder(ResultId(CaseId(name, subject), "float64"), seed=5)
    target = target_file.load("cpu").target("eager")
    find("operator", name).check(target, find_subject("operator", subject), recorder)
    return recorder.result()


@pytest.mark.parametrize("name", TRANSFORMS)
def test_nothing_to_compare_with_is_no_pass(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert checked(name, "sin").verdict is Verdict.PASS
    monkeypatch.setattr(transforms, "host", lambda call: Outcome(error=RuntimeError("no reference")))
    assert checked(name, "sin").verdict is Verdict.VACUOUS


@pytest.mark.parametrize(
    "subject", ["native_layer_norm", "nn.functional.soft_margin_loss", "_batch_norm_with_update"]
)
def test_what_is_differentiated_is_what_the_database_marks(subject: str) -> None:
    result = checked("vjp-vjp", subject)
    assert result.verdict is Verdict.PASS
    assert not any("no reference" in note for note in result.notes), result.notes


@pytest.mark.parametrize(
    ("operator", "name"), [("__rmatmul__", "matrix"), ("matmul", "matrix"), ("__radd__", "elementwise")]
)
def test_reflected_operators_have_the_tolerance_of_what_they_compute(operator: str, name: str) -> None:
    assert rule(operator, torch.float32).name == name


def remainder_bounds(dividend: list[float], divisor: list[float], dtype: torch.dtype) -> torch.Tensor:
    """What the suite allows for torch.remainder of these, in units of the dtype."""
    subject = find_subject("operator", "remainder")
    sample = Sample(0, torch.tensor(dividend, dtype=dtype), (torch.tensor(divisor, dtype=dtype),), {})
    expected = oracle.compute(subject, dtype, sample)
    (spread,) = expected.spread
    assert spread is not None
    allowed = rule("remainder", dtype).tolerance(dtype).allowed(expected.precise.abs() + spread)
    return allowed / torch.finfo(dtype).eps


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_remainder_is_held_to_units_of_its_dividend(dtype: torch.dtype) -> None:
    bounds = remainder_bounds([7.5, -7.5, 0.3, 100.0], [2.0, 2.0, 0.5, 3.0], dtype)
    sizes = torch.tensor([7.5, 7.5, 0.3, 100.0], dtype=torch.float64)
    assert bool((bounds >= sizes).all()) and bool((bounds <= 7 * sizes).all()), bounds
    # 6 lies on a multiple of 2: its own remainder may be 0 or 2, the others are held as before.
    with_jump = remainder_bounds([7.5, -7.5, 0.3, 100.0, 6.0], [2.0, 2.0, 0.5, 3.0, 2.0], dtype)
    assert torch.equal(with_jump[:4], bounds)
    assert with_jump[4] * torch.finfo(dtype).eps >= 2.0


def test_the_documented_formula_of_remainder_is_within_its_bounds() -> None:
    generator = torch.Generator().manual_seed(3)
    a = torch.rand(20_000, generator=generator) * 200 - 100
    b = torch.rand(20_000, generator=generator) * 9 + 0.1
    allowed = remainder_bounds(a.tolist(), b.tolist(), torch.float32) * torch.finfo(torch.float32).eps
    exact = torch.remainder(a.double(), b.double())
    assert bool(((a - (a / b).floor() * b - exact).abs() <= allowed).all())
