"""Calls that differ in one number alone: which are made, and whether their results count as different."""

import torch

from conformance.properties.overloads import _one_argument_pairs
from conformance.properties.overloads._modified_calls import differ
from conformance.properties.overloads._references import overload_reference
from conformance.samples.operators import Sample
from conformance.samples.recorded_calls import calls_of
from conformance.subjects.torch_databases import find


def test_views_of_one_base_differ_by_their_own_elements() -> None:
    subject, base = find("overload", "select.int"), torch.arange(12.0).reshape(3, 4)
    first, second, again = (
        overload_reference(subject, "float32", Sample(0, base, (0, row))) for row in (1, 2, 1)
    )
    assert first is not None and second is not None and again is not None
    assert differ(first, second) and _one_argument_pairs.results_differ(first, second)
    assert not differ(first, again) and not _one_argument_pairs.results_differ(first, again)
    assert "index" in dict(_one_argument_pairs.neighbouring_numbers(first))


def test_no_call_is_made_that_is_undefined_somewhere() -> None:
    for name, argument in (("scatter.src", "dim"), ("index_copy", "dim"), ("_ctc_loss", "blank")):
        subject = find("overload", name)
        known = calls_of(subject, "float32")
        for index in range(known.available):
            found = overload_reference(subject, "float32", known[index])
            assert found is None or argument not in dict(_one_argument_pairs.neighbouring_numbers(found))


def test_numbers_of_calls_that_only_operators_make_are_theirs() -> None:
    subject = find("overload", "_softmax_backward_data")
    names = {name for name, _, _ in _one_argument_pairs.pairs_of_callers(subject, "float32")}
    assert "dim" in names
    found = overload_reference(subject, "float32", calls_of(subject, "float32")[0])
    assert found is not None and not list(_one_argument_pairs.neighbouring_numbers(found))
