"""Without a run, ``conformance expect check`` finds wrong names, modes and dates, and duplicates."""

from __future__ import annotations

from expecttest import assert_expected_inline

from conformance.expectations import check
from conformance.expectations.entries import TargetExpectations
from tests.support.sample_legs import DAY, expectation


def test_static_problems_of_expectations() -> None:
    plans = {"eager": frozenset(["value/add@float32"]), "lazy": frozenset(["value/sub@float32"])}
    entries = (
        expectation("value/ad@float32", "value"),
        expectation("value/add@float32", "value", modes=("lazy", "graph")),
        expectation("value/add@*", "value", "2029-01-01"), expectation("value/add@*", "value"),
    )  # fmt: skip
    problems = check.static_problems(TargetExpectations(entries, ""), plans, DAY, ["2.13.0"])
    assert_expected_inline(
        "\n".join(problems),
        """\
expectation value/ad@float32 (value) in file.toml matches no result of this target; rename it to value/add@float32, or remove it
expectation value/add@float32 (value) in file.toml matches no result in mode 'lazy'; remove the mode from its modes
expectation value/add@float32 (value) in file.toml names mode 'graph', which the target does not have; remove it or use eager, lazy
expectation value/add@* (value) in file.toml expired on 2029-01-01; see https://example.org and set a later day, or remove it
expectation value/add@* (value) in file.toml is also in file.toml; remove one of them""",  # noqa: E501
    )
