"""``properties.overloads._references`` computes the reference of an overload call once, with the written
arguments and a tolerance rule.
"""

from __future__ import annotations

import dataclasses

import pytest
import torch

from conformance.framework.recorder import Recorder
from conformance.framework.tolerances import rule
from conformance.model.verdicts import CaseId, ResultId
from conformance.oracle.overload_tolerance import rule_of_overload
from conformance.properties.overloads import _references
from conformance.properties.overloads._references import OverloadReference, references
from conformance.samples.operators import Sample, SampleSet, dtype_of
from conformance.samples.recorded_calls import calls_of
from conformance.subjects.torch_databases import Subject, find
from conformance.target import file as target_file

TARGET = target_file.load("cpu").target("eager")


def references_of(subject: Subject, dtype: str) -> list[OverloadReference]:
    recorder = Recorder(ResultId(CaseId("overload-forms", subject.name), dtype), seed=0)
    return list(references(TARGET, subject, recorder, 8))


def test_a_reference_is_computed_once() -> None:
    subject = find("overload", "mul.Tensor")
    assert all(
        left is right
        for left, right in zip(references_of(subject, "int32"), references_of(subject, "int32"), strict=True)
    )


def test_another_subject_of_the_same_name_has_its_own_references() -> None:
    subject = find("overload", "mul.Tensor")
    same_name = Subject(subject.kind, subject.name, dataclasses.replace(subject.info))
    assert references_of(subject, "int32")[0].subject is subject
    assert references_of(same_name, "int32")[0].subject is same_name


def test_other_calls_of_a_subject_have_their_own_references(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = find("overload", "mul.Tensor")
    assert references_of(subject, "int32")
    none = SampleSet(subject.name, [])
    monkeypatch.setattr(_references, "calls_of", lambda subject, dtype: none)
    assert references_of(subject, "int32") == []


def test_a_cached_iterable_supports_alternating_iterators() -> None:
    items = _references._CachedIterable(iter(range(5)))  # type: ignore[arg-type]
    first_pass, second_pass = iter(items), iter(items)
    items_read = [
        next(first_pass),
        next(first_pass),
        next(second_pass),
        next(first_pass),
        next(second_pass),
        next(second_pass),
        next(second_pass),
    ]
    assert items_read == [0, 1, 0, 2, 1, 2, 3]
    assert list(first_pass) == [3, 4] and list(second_pass) == [4]


def test_a_converted_call_has_the_tolerance_of_its_own_operator() -> None:
    for name, own in (
        ("remainder.Scalar", "remainder"),
        ("rsub.Scalar", "elementwise"),
        ("ge.Scalar", "exact"),
    ):
        info = find("overload", name).info
        for dtype in info.converted:
            assert rule_of_overload(name, info, dtype_of(dtype), Sample(0, None)).name == own


def test_enlargements_of_a_sample_are_computed_once() -> None:
    reference = references_of(find("overload", "mul.Tensor"), "float32")[0]
    first = next(iter(reference.enlargements))
    assert next(iter(reference.enlargements)) is first
    assert list(reference.enlargements) == list(reference.enlargements)


@pytest.mark.parametrize("name", ["native_batch_norm", "_batch_norm_with_update"])
def test_written_arguments_have_high_precision_values(name: str) -> None:
    for reference in references_of(find("overload", name), "float32"):
        assert reference.has_high_precision


def test_the_tolerance_of_a_normalisation_gradient_depends_on_its_deviations() -> None:
    subject = find("overload", "native_layer_norm_backward")
    samples = calls_of(subject, "float32")
    general = rule(subject.info.operators[0], torch.float32, "backward").scale
    for sample in (samples[index] for index in range(samples.available)):
        own = rule_of_overload(subject.name, subject.info, torch.float32, sample).scale
        deviations = sample.args[3]  # the inverses of the standard deviations
        assert 0 < own <= general
        assert own == general or not deviations.numel() or own >= float(deviations.detach().abs().max())


def test_the_cache_holds_only_recently_used_subjects() -> None:
    subject = find("overload", "mul.Tensor")
    first = references_of(subject, "int32")[0]
    for name in ("add.Tensor", "sub.Tensor", "div.Tensor", "eq.Tensor"):
        references_of(find("overload", name), "float32")
    assert subject.name not in _references._cached_references
    assert references_of(subject, "int32")[0] is not first
