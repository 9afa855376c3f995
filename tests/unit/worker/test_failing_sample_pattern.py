"""``worker.failing_sample_pattern`` finds a feature that failing samples have and passing samples do not
have. Reports show the feature.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind, Result, ResultId
from conformance.plan.plan import Case
from conformance.report import causes
from conformance.samples.operators import Sample
from conformance.target.file import load
from conformance.worker import failing_sample_pattern
from conformance.worker.executor import Executor
from conformance.worker.failing_sample_pattern import SampleFeatureRecorder
from tests.support.sample_legs import leg


def features_of(*inputs: Any, **keywords: list[Any]) -> dict[int, set[str]]:
    watch = SampleFeatureRecorder()
    for index, value in enumerate(inputs):
        tensors = value if isinstance(value, tuple) else (value,)
        keyword_values = {
            name: values[index] for name, values in keywords.items() if values[index] is not ...
        }
        watch(Sample(index, tensors[0], tensors[1:], keyword_values))
    return watch.features


DENSE, STRIDED = torch.ones(4, 4), torch.ones(4, 4).t()
BASE = torch.arange(1.0, 5.0)


@pytest.mark.parametrize(
    ("bad", "good", "when"),
    [
        (torch.ones(4, 6).t(), torch.ones(4, 6), "an input is not contiguous"),
        (torch.ones(1, 2, 3, 4).contiguous(memory_format=torch.channels_last), torch.ones(1, 2, 3, 4),
         "an input is channels_last"),
        (torch.ones(8)[2:], torch.ones(6), "an input has an offset into its storage"),
        (torch.ones(1).expand(4), torch.ones(4), "an input is expanded"),
        (torch.ones(0), torch.ones(1), "an input has no elements"),
        (torch.ones(()), torch.ones(1), "an input has rank 0"),
        (torch.ones(2000), torch.ones(1024), "an input has more than 1,024 elements"),
        (torch.ones(1, 1, 1, 1, 1), torch.ones(1, 1, 1, 1), "an input has rank 5 or more"),
        ((torch.ones(2), torch.ones(3)), (torch.ones(2), torch.ones(2)), "the inputs have several shapes"),
        ((torch.ones(2), torch.ones(2).int()), (torch.ones(2), torch.ones(2)),
         "the inputs have several dtypes"),
        (torch.tensor([1.0, float("nan")]), BASE, "an input holds NaN"),
        (torch.tensor([1.0, float("inf")]), BASE, "an input holds an infinity"),
        (torch.tensor([1.0, 1e-40]), BASE, "an input holds a subnormal number"),
        (torch.tensor([1, 0]), torch.tensor([1, 2]), "an input holds a zero"),
        (torch.tensor([1, -3], dtype=torch.int8), torch.tensor([1, 2], dtype=torch.int8),
         "an input holds a negative number"),
    ],
)  # fmt: skip
def test_the_feature_that_distinguishes_failing_samples_is_found(bad: Any, good: Any, when: str) -> None:
    pattern_found = failing_sample_pattern.find_pattern(features_of(bad, good, bad, good, good), [0, 2])
    assert pattern_found == {"when": when, "failed": 2, "such": 2, "others": 3}
    turned = failing_sample_pattern.find_pattern(features_of(bad, good, bad, good, good), [1, 3, 4])
    assert turned is not None and (turned["failed"], turned["such"], turned["others"]) == (3, 3, 2)
    assert turned["when"] == f"not: {when}" or not turned["when"].startswith("not: ")


def test_options_are_features_too() -> None:
    features = features_of(*[BASE] * 4, dim=[-1, 0, -2, 1], keepdim=[True, False, True, ...])
    pattern_found = failing_sample_pattern.find_pattern(features, [0, 2])
    assert pattern_found is not None and pattern_found["when"] in ("`dim` is negative", "`keepdim` is True")


def test_a_feature_of_some_passing_samples_is_reported_with_counts() -> None:
    features = features_of(STRIDED, DENSE, STRIDED, STRIDED, DENSE, DENSE)
    assert failing_sample_pattern.find_pattern(features, [0, 2]) is not None
    pattern_found = failing_sample_pattern.find_pattern({**features, 3: features[3] | {"x"}}, [0, 2])
    assert pattern_found == {"when": "not: x", "failed": 2, "such": 5, "others": 1} or pattern_found == {
        "when": "an input is not contiguous", "failed": 2, "such": 3, "others": 3
    }  # fmt: skip


@pytest.mark.parametrize("failed", [[0], [0, 1, 2, 3], [0, 1, 2], [0, 7]])
def test_too_few_or_unknown_samples_have_no_pattern(failed: list[int]) -> None:
    assert failing_sample_pattern.find_pattern(features_of(STRIDED, STRIDED, DENSE, DENSE), failed) is None


def test_samples_without_a_common_feature_have_no_pattern() -> None:
    assert failing_sample_pattern.find_pattern(features_of(BASE, BASE, BASE, BASE), [0, 1]) is None


def wrong_op_if(condition: Callable[[torch.Tensor], bool]) -> Callable[..., Any]:
    def op(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(input: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(input, *args, **kwargs)
            return result + 1 if isinstance(input, torch.Tensor) and condition(input) else result

        return call

    return op


def test_a_failing_result_contains_the_pattern(monkeypatch: pytest.MonkeyPatch) -> None:
    executor = Executor(load("cpu").target("eager"), repeats=True)
    info = executor.subject("operator", "sum").info
    op = info.op
    fault = wrong_op_if(lambda tensor: tensor.dim() == 0)
    # The reference calls the same operator. The replacement therefore changes only calls by the property.
    from conformance.properties.operators import value as property_module

    run = property_module.run_operator
    monkeypatch.setattr(
        property_module, "run_operator", lambda target, called, copy: run(target, fault(op), copy)
    )
    (result,) = executor.run(Case("operator", "value", "sum", ("float32",)))
    assert result.pattern is not None
    assert result.pattern["when"] == "an input has rank 0"
    assert result.pattern["failed"] == len(result.failed_samples)
    assert Result.from_json(result.to_json()).pattern == result.pattern


def test_a_passing_result_has_no_pattern() -> None:
    (result,) = Executor(load("cpu").target("eager"), repeats=True).run(
        Case("operator", "value", "add", ("float32",))
    )
    assert result.pattern is None
    assert Recorder(ResultId.parse("value/add@float32"), seed=0).watch is None


def cause_with_patterns(*patterns: dict[str, Any] | None) -> causes.Cause:
    rows = []
    for number, pattern in enumerate(patterns):
        row = {
            "id": f"value/add{number}@float32",
            "verdict": "fail",
            "seconds": 0.1,
            "failures": [{"kind": Kind.EXCEPTION.value, "message": "the call raised RuntimeError: same"}],
        }
        rows.append(row | ({"pattern": pattern} if pattern else {}))
    cases = {row["id"].rpartition("@")[0]: "fail" for row in rows}
    (group,) = causes.causes_of([leg("eager", results=rows, cases=cases, exit=1)])
    return group


def pattern_record(when: str, failed: int, such: int, other_count: int) -> dict[str, Any]:
    return {"when": when, "failed": failed, "such": such, "others": other_count}


def test_a_cause_sums_the_patterns_of_its_results() -> None:
    strided = "an input is not contiguous"
    group = cause_with_patterns(
        pattern_record(strided, 20, 20, 100), pattern_record(strided, 11, 11, 12), None
    )
    assert group.sample_pattern_sentence() == (
        "fails in 31 of 31 samples in which an input is not contiguous, and in 0 of 112 others"
    )
    group = cause_with_patterns(pattern_record(f"not: {strided}", 3, 5, 1000))
    assert group.sample_pattern_sentence() == (
        "fails in 0 of 1,000 samples in which an input is not contiguous, and in 3 of 5 others"
    )
    assert (
        cause_with_patterns(
            pattern_record(strided, 2, 2, 2), pattern_record("an input holds NaN", 2, 2, 2)
        ).sample_pattern_sentence()
        == ""
    )
    assert cause_with_patterns(None).sample_pattern_sentence() == ""
