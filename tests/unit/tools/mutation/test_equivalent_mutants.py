"""``tools.mutation.equivalent_mutants`` decides from schemas, torch's database and documentation which
survivors are equivalent mutants.
"""

import pytest

from tools.mutation.equivalent_mutants import equivalence_reason
from tools.mutation.mutant import Mutant


def equivalence_reason_of(
    overload: str, operator: str, position: int = 0, value: int = 0, dtype: str | None = None
) -> str | None:
    return equivalence_reason(Mutant(f"aten::{overload}", operator, position, value, dtype))


@pytest.mark.parametrize(
    ("equivalent", "different"),
    [
        (("empty.memory_format", "last-element"), ("empty.memory_format", "leak")),
        (("new_empty_strided", "flaky"), ("zeros_like", "last-element")),
        (("sin", "signed-zero-lost"), ("clone", "signed-zero-lost")),
        (("exp_", "signed-zero-lost"), ("mul_.Tensor", "signed-zero-lost")),
        (("tanh.out", "subnormal-flushed"), ("div.out", "subnormal-flushed")),
        (("gelu", "subnormal-flushed"), ("cumsum", "subnormal-flushed")),
        (("eye.m", "stale-result"), ("full", "stale-result")),
        (("mul.Tensor", "swapped-arguments", 0, 1), ("sub.Tensor", "swapped-arguments", 0, 1)),
        (("addcmul", "swapped-arguments", 1, 2), ("addcdiv", "swapped-arguments", 1, 2)),
        (("_dirichlet_grad", "result-strides"), ("add.Tensor", "result-strides")),
        (("_convolution", "option-ignored", 9), ("_convolution", "option-ignored", 3)),
        (("sin", "leak", 0, 0, "uint16"), ("sin", "leak", 0, 0, "float16")),
    ],
)
def test_a_rule_applies_to_one_mutant_and_not_to_a_similar_one(
    equivalent: tuple[object, ...], different: tuple[object, ...]
) -> None:
    assert equivalence_reason_of(*equivalent) is not None  # type: ignore[arg-type]
    assert equivalence_reason_of(*different) is None  # type: ignore[arg-type]


@pytest.mark.parametrize("overload", ["add.Tensor", "mm", "cat", "native_layer_norm", "_fused_sgd_"])
@pytest.mark.parametrize("operator", ["last-element", "above-size", "strides-ignored", "leak", "flaky"])
def test_no_rule_applies_to_a_mutant_that_changes_specified_values(overload: str, operator: str) -> None:
    assert equivalence_reason_of(overload, operator, 0, 64) is None


def test_mutants_of_other_families_are_never_equivalent() -> None:
    assert equivalence_reason(Mutant("module::set_device", "ignored")) is None
