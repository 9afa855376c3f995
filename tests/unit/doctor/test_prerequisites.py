"""``doctor.prerequisites`` checks the features of a device that the suite itself needs."""

from __future__ import annotations

import pytest
import torch

from conformance.doctor import prerequisites
from conformance.model.verdicts import Kind
from conformance.samples.copies import Copier, WrongCopy
from conformance.target.file import load


def test_the_cpu_has_all_prerequisites() -> None:
    facts = list(prerequisites.collect_prerequisite_facts(load("cpu").target("eager")))
    assert [fact.ok for fact in facts] == [True] * len(facts)


def test_a_failing_prerequisite_names_the_missing_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    def copy_tree(self: Copier, tensors: list[torch.Tensor]) -> None:
        if not tensors[0].is_contiguous():
            raise WrongCopy(Kind.EXCEPTION, "strided memory", "neither works")
        raise NotImplementedError("Could not run 'aten::empty_strided'")

    monkeypatch.setattr(Copier, "copy_tree", copy_tree)
    dense, strided = prerequisites.collect_prerequisite_facts(load("cpu").target("eager"))
    assert (dense.subject, dense.ok) == ("prerequisite copies", False)
    assert dense.text == "NotImplementedError: Could not run 'aten::empty_strided'"
    assert (strided.subject, strided.ok, strided.text) == (
        "prerequisite strided memory",
        False,
        "neither works",
    )
    assert "aten::as_strided" in strided.step and "whatever the operator" in strided.step
