"""``upstream.import_expectations`` proposes expectations from a list of upstream tests.

A proposed expectation has the reason ``unread``, matches existing results, and repeats no existing
expectation.
"""

from __future__ import annotations

import pytest

from conformance.model.verdicts import Kind
from conformance.upstream import import_expectations
from conformance.upstream.matching_tests import UpstreamMethod
from conformance.upstream.upstream_list import ListedTest, Listing
from tests.support.sample_legs import expectation

OUT = UpstreamMethod("TestCommon", "test_out", "operator")
ERRORS = UpstreamMethod("TestCommon", "test_errors", "operator")
IDS = frozenset(
    {"out/add@float32", "out/add@int8", "error-type/add@any", "error-message/add@any", "out/mul@float32"}
)


def propose(*entries, kinds=None, existing=()):
    listing = Listing(entries, (), kinds or {})
    proposal = import_expectations.propose_expectations(listing, "list.txt", IDS, existing, "2999-01-01")
    assert all(
        (each.reason, each.link, each.until) == ("unread", "", "2999-01-01") for each in proposal.entries
    )
    return [(each.id, each.kind.value) for each in proposal.entries], proposal


def test_a_test_becomes_the_results_of_its_properties():
    assert propose(ListedTest(1, OUT, "add", ("int8",)))[0] == [("out/add@int8", "value")]
    names, _ = propose(ListedTest(1, ERRORS, "add"))
    assert names == [("error-type/add@any", "error-type"), ("error-message/add@any", "message")]


def test_a_test_without_a_dtype_becomes_a_wildcard():
    assert propose(ListedTest(1, OUT, "add"))[0] == [("out/add@*", "value")]
    assert propose(ListedTest(1, OUT, "mul"))[0] == [("out/mul@float32", "value")]


def test_the_detail_names_the_list_and_the_test():
    (entry,) = propose(ListedTest(1, OUT, "add", ("int8",)))[1].entries
    assert entry.detail == (
        "imported from list.txt (TestCommon.test_out): to be confirmed by a run; the kind is a guess"
    )


@pytest.mark.parametrize(
    ("reason", "kinds", "proposed"),
    [
        ("crash: signal 11", {}, ["crash"]),
        ("metadata, value: x", {}, ["metadata", "value"]),
        ("because", {}, ["value"]),
        ("vacuous: x", {}, ["value"]),
        ("", {"out/add@int8": ("aliasing",)}, ["aliasing"]),
        ("crash: x", {"out/add@int8": ("no such kind",)}, ["crash"]),
    ],
)
def test_the_failure_kind_comes_from_the_list_if_it_states_one(reason, kinds, proposed):
    names, proposal = propose(ListedTest(1, OUT, "add", ("int8",), reason), kinds=kinds)
    assert [kind for _, kind in names] == proposed
    guessed = [entry.detail.endswith("a guess") for entry in proposal.entries]
    assert guessed == [proposed == ["value"]] * len(proposed)


@pytest.mark.parametrize(
    ("listed", "message"),
    [
        (
            ListedTest(7, OUT, "add", ("float64",)),
            "list.txt:7: TestCommon.test_out of add in float64 matches no",
        ),
        (ListedTest(7, OUT, "no_such", ("int8",)), "of no_such in int8 matches no result"),
        (ListedTest(7, OUT, "no_such"), "of no_such matches no result"),
    ],
)
def test_listed_tests_without_results_are_reported(listed, message):
    names, proposal = propose(listed)
    assert names == [] and len(proposal.problems) == 1 and message in proposal.problems[0]


def test_existing_expectations_are_not_proposed_again():
    existing = [expectation("out/*@int8", "value")]
    names, proposal = propose(ListedTest(1, OUT, "add", ("int8", "float32")), existing=existing)
    assert names == [("out/add@float32", "value")] and proposal.already_expected == 1
    crash_proposal = propose(ListedTest(1, OUT, "add", ("int8",), "crash: x"), existing=existing)
    assert crash_proposal[0] == [("out/add@int8", Kind.CRASH.value)]


def test_a_result_that_is_listed_twice_gets_one_entry():
    assert (
        len(propose(ListedTest(1, OUT, "add", ("int8",)), ListedTest(2, OUT, "add", ("int8", "int8")))[0])
        == 1
    )
