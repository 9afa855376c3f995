"""``doctor.precision_trials`` determines the precision class of a device."""

from collections.abc import Iterator

import pytest
import torch

from conformance.doctor import precision_trials, target_draft
from conformance.target.file import PRECISIONS


@pytest.fixture
def flush_subnormals() -> Iterator[None]:
    if not torch.set_flush_denormal(True):
        pytest.skip("the processor does not flush subnormal numbers")
    yield
    torch.set_flush_denormal(False)


def test_every_precision_class_but_ieee_has_a_trial() -> None:
    assert {*precision_trials.CLASSES, "ieee"} == set(PRECISIONS)


@pytest.mark.parametrize("name", precision_trials.CLASSES)
def test_the_cpu_has_no_deviation(name: str) -> None:
    assert precision_trials.deviation_from_ieee(name, "cpu") == ""


def test_flushed_subnormals_are_found(flush_subnormals: None) -> None:
    assert (
        precision_trials.deviation_from_ieee("flush-denormals", "cpu") == "in float32, 1.175e-38 * 0.25 is 0"
    )
    assert precision_trials.deviation_from_ieee("tf32", "cpu") == ""


def test_rounded_factors_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = torch.Tensor.__matmul__

    def rounded(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        bits = left.view(torch.int32) + 0x1000 & -0x2000  # TF32 does not have the 13 lowest bits
        return exact(bits.view(torch.float32), right)

    monkeypatch.setattr(torch.Tensor, "__matmul__", rounded)
    text = precision_trials.deviation_from_ieee("tf32", "cpu")
    assert text == "a product of float32 matrices rounds 1.000244140625 to 1.0"


def test_a_failed_call_says_nothing_about_precision() -> None:
    assert precision_trials.deviation_from_ieee("flush-denormals", "no_such_device") == ""


def test_a_draft_declares_the_class_and_names_the_deviation() -> None:
    assert list(target_draft._precision_lines({})) == ['precision = "ieee"']
    lines = list(target_draft._precision_lines({"flush-denormals": "zeros"}))
    assert lines == ["# flush-denormals: zeros", 'precision = "flush-denormals"']
    both = list(target_draft._precision_lines({"tf32": "a", "flush-denormals": "b"}))
    assert both[-1] == 'precision = "tf32"' and "one precision class" in both[-2]
