"""The CPU's answers to calls of overloads: computed once, with what they write, within their tolerance."""

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


def known(subject: Subject, dtype: str) -> list[OverloadReference]:
    recorder = Recorder(ResultId(CaseId("overload-forms", subject.name), dtype), seed=0)
    return list(references(TARGET, subject, recorder, 8))


def test_an_answer_is_computed_once() -> None:
    subject = find("overload", "mul.Tensor")
    assert all(
        one is other for one, other in zip(known(subject, "int32"), known(subject, "int32"), strict=True)
    )


def test_another_subject_of_the_same_name_has_answers_of_its_own() -> None:
    subject = find("overload", "mul.Tensor")
    other = Subject(subject.kind, subject.name, dataclasses.replace(subject.info))
    assert known(subject, "int32")[0].subject is subject
    assert known(other, "int32")[0].subject is other


def test_other_calls_of_a_subject_have_answers_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = find("overload", "mul.Tensor")
    assert known(subject, "int32")
    none = SampleSet(subject.name, [])
    monkeypatch.setattr(_references, "calls_of", lambda subject, dtype: none)
    assert known(subject, "int32") == []


def test_items_are_remembered_however_looks_at_them_alternate() -> None:
    items = _references._CachedIterable(iter(range(5)))  # type: ignore[arg-type]
    one, other = iter(items), iter(items)
    seen = [next(one), next(one), next(other), next(one), next(other), next(other), next(other)]
    assert seen == [0, 1, 0, 2, 1, 2, 3]
    assert list(one) == [3, 4] and list(other) == [4]


def test_a_converted_call_has_the_tolerance_of_its_own_operator() -> None:
    for name, own in (
        ("remainder.Scalar", "remainder"),
        ("rsub.Scalar", "elementwise"),
        ("ge.Scalar", "exact"),
    ):
        info = find("overload", name).info
        for dtype in info.converted:
            assert rule_of_overload(name, info, dtype_of(dtype), Sample(0, None)).name == own


def test_ways_to_grow_are_looked_for_once() -> None:
    found = known(find("overload", "mul.Tensor"), "float32")[0]
    first = next(iter(found.ways))
    assert next(iter(found.ways)) is first
    assert list(found.ways) == list(found.ways)


@pytest.mark.parametrize("name", ["native_batch_norm", "_batch_norm_with_update"])
def test_what_a_call_writes_besides_has_a_value_in_raised_precision(name: str) -> None:
    for found in known(find("overload", name), "float32"):
        assert found.expected.ok
        assert found.expected.has_high_precision


def test_a_gradient_of_a_normalisation_is_as_far_off_as_its_own_parts() -> None:
    subject = find("overload", "native_layer_norm_backward")
    samples = calls_of(subject, "float32")
    general = rule(subject.info.operators[0], torch.float32, "backward").scale
    for sample in (samples[index] for index in range(samples.available)):
        own = rule_of_overload(subject.name, subject.info, torch.float32, sample).scale
        deviations = sample.args[3]  # their inverses
        assert 0 < own <= general
        assert own == general or not deviations.numel() or own >= float(deviations.detach().abs().max())


def test_the_cache_is_of_the_subject_used_last() -> None:
    subject = find("overload", "mul.Tensor")
    first = known(subject, "int32")[0]
    for name in ("add.Tensor", "sub.Tensor", "div.Tensor", "eq.Tensor"):
        known(find("overload", name), "float32")
    assert subject.name not in _references._cached_references
    assert known(subject, "int32")[0] is not first
