"""``expectations.entries`` reads and validates expectation files, and selects entries by mode, torch and
date.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from conformance.errors import UsageError
from conformance.expectations import edit, entries
from conformance.expectations.entries import TargetExpectations
from conformance.expectations.result_id_index import ResultIdIndex
from conformance.plan.levels import manifest
from tests.support.sample_legs import DAY, expectation

GOOD_ENTRY = {
    "id": "value/add@*",
    "kind": "value",
    "reason": "accuracy",
    "link": "https://example.org",
    "until": "2999-01-01",
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": "add"}, "is not of the form"),
        ({"kind": "harness"}, "kind 'harness' cannot be expected"),
        ({"kind": "vacuous"}, "kind 'vacuous' cannot be expected"),
        ({"reason": "because"}, "unknown reason 'because'; known are accuracy"),
        ({"link": "me"}, "is neither a web address nor a page below docs/"),
        ({"until": "soon"}, "is neither a date"),
        ({"until": "2030-02-30"}, "is not a calendar day"),
        ({"until": ""}, "it must be a non-empty string"),
        ({"owner": "me"}, "unknown key 'owner'"),
    ],
)
def test_mistakes_in_expectations_are_named(tmp_path: Path, change: dict[str, str], message: str) -> None:
    path = tmp_path / "known.toml"
    lines = [f'{key} = "{value}"' for key, value in {**GOOD_ENTRY, **change}.items()]
    path.write_text("schema = 1\n[[expect]]\n" + "\n".join(lines))
    with pytest.raises(UsageError) as error:
        entries.load_expectations([path])
    assert message in str(error.value)


def test_the_reference_device_has_only_expectations_of_the_cpu() -> None:
    cpu, device = (
        entries.load_expectations(entries.expectation_files(name)).entries
        for name in ("cpu", "hpu-reference")
    )
    # Failures of torch itself are waived for every backend and need no expectation. This result has an
    # expectation, because a backend can pass it although Inductor fails.
    assert {entry.id for entry in cpu if entry.reason != "upstream"} == {"compiled-state/programs@float32"}
    assert {entry.reason for entry in device} == {"upstream"}
    assert "compiled-state/programs@float32" not in manifest.waiver_links("2.13.0", "compile")
    # Results that a bug of torch fails on every device except the CPU (docs/torch-bugs.md#narrow).
    accelerators = {"compile_value/narrow", "compile_views/narrow"}
    rest = {(entry.id, entry.kind) for entry in device if entry.id.split("@")[0] not in accelerators}
    assert rest <= {(entry.id, entry.kind) for entry in cpu}


def test_expectations_expire_by_day_and_by_torch() -> None:
    book = TargetExpectations((expectation("a/a@a", "value", "2030-01-01"),
                 expectation("b/b@b", "value", "2030-01-02"),
                 expectation("c/c@c", "value", "torch 2.13"),
                 expectation("d/d@d", "value", "torch 2.14")), "")  # fmt: skip
    assert [entry.id for entry in book.active_entries("eager", DAY, "2.13.1+cpu")] == ["b/b@b", "d/d@d"]
    assert [entry.id for entry in book.expired_entries(DAY, "2.13.1+cpu")] == ["a/a@a", "c/c@c"]
    assert [entry.id for entry in book.active_entries("eager", DAY, "2.9.0")] == ["b/b@b", "c/c@c", "d/d@d"]


def test_expectations_apply_only_in_their_modes() -> None:
    book = TargetExpectations((expectation("a/a@a", "value", modes=("lazy",)),), "")
    assert not book.active_entries("eager", DAY, "2.13")
    assert book.active_entries("lazy", DAY, "2.13")


def test_expectations_that_match_nothing_are_found() -> None:
    ids = ["value/add@float32", "value/fft.fft@float32"]
    entries = [
        expectation(pattern, "value")
        for pattern in ("value/fft.*@*", "*/add@float3?", "value/[a]dd@*", "out/add@*")
    ]
    index = ResultIdIndex(ids)
    assert [entry.id for entry in entries if not index.ids_matching(entry.id)] == [
        "value/[a]dd@*",
        "out/add@*",
    ]


def test_an_entry_applies_only_to_its_modes_and_torch_versions() -> None:
    entry = dataclasses.replace(expectation("a/a@a", "value", modes=("lazy",)), torch="<2.10")
    book = TargetExpectations((entry,), "")
    assert book.active_entries("lazy", DAY, "2.9.1") == [entry]
    assert not book.active_entries("eager", DAY, "2.9.1") and not book.active_entries("lazy", DAY, "2.10.0")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('torch = "2.13"', "torch '2.13' is not a range of versions; write '<2.14'"),
        ('modes = ["fast"]', "unknown mode 'fast'; known are eager"),
        ('modes = "lazy"', "modes is 'lazy'; it must be a list of words"),
        ("detail = 3", "detail is 3; it must be a string"),
    ],
)
def test_mistakes_in_scopes_are_named(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "known.toml"
    path.write_text(f"{edit.HEAD}{edit.entry_toml(expectation('a/a@a', 'value'))}{line}\n")
    with pytest.raises(UsageError) as error:
        entries.load_expectations([path])
    assert message in str(error.value)


def test_an_entry_with_reason_unread_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "new.toml"
    entry = dataclasses.replace(expectation("a/b@c", "value"), reason=entries.UNREAD, link="")
    path.write_text(edit.HEAD + edit.entry_toml(entry))
    with pytest.raises(
        UsageError, match="entry 1: reason is still 'unread'; inspect a/b@c and set the reason to one of accu"
    ):
        entries.load_expectations([path])
    assert [entry.reason for entry in entries.load_expectations([path], unread=True).entries] == ["unread"]
