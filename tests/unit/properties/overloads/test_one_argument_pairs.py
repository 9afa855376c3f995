"""``_one_argument_pairs`` creates pairs of overload calls that differ in one number, and compares the results
of the two calls.
"""

import torch

from conformance.properties.overloads import _one_argument_pairs
from conformance.properties.overloads._modified_calls import reference_bits_differ
from conformance.properties.overloads._references import overload_reference
from conformance.samples.operators import Sample
from conformance.samples.recorded_calls import calls_of
from conformance.subjects.torch_databases import find


def test_views_of_one_base_are_compared_by_their_elements() -> None:
    subject, base = find("overload", "select.int"), torch.arange(12.0).reshape(3, 4)
    first, second, first_copy = (
        overload_reference(subject, "float32", Sample(0, base, (0, row))) for row in (1, 2, 1)
    )
    assert first is not None and second is not None and first_copy is not None
    assert reference_bits_differ(first, second) and _one_argument_pairs.results_differ(first, second)
    assert not reference_bits_differ(first, first_copy) and not _one_argument_pairs.results_differ(
        first, first_copy
    )
    assert "index" in dict(_one_argument_pairs.neighbouring_numbers(first))


def test_no_pair_contains_a_call_with_undefined_behaviour() -> None:
    for name, argument in (("scatter.src", "dim"), ("index_copy", "dim"), ("_ctc_loss", "blank")):
        subject = find("overload", name)
        calls = calls_of(subject, "float32")
        for index in range(calls.available):
            reference = overload_reference(subject, "float32", calls[index])
            assert reference is None or argument not in dict(
                _one_argument_pairs.neighbouring_numbers(reference)
            )


def test_pairs_of_internal_overloads_come_from_calls_of_operators() -> None:
    subject = find("overload", "_softmax_backward_data")
    names = {name for name, _, _ in _one_argument_pairs.pairs_made_by_operators(subject, "float32")}
    assert "dim" in names
    reference = overload_reference(subject, "float32", calls_of(subject, "float32")[0])
    assert reference is not None and not list(_one_argument_pairs.neighbouring_numbers(reference))
