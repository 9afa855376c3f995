"""``conformance certify --verify`` detects every change of a bundle, and rejects zip files that are not
bundles.

The functions ``(certificate, results)`` that are defined before ``FOUND`` make the changes. Each function
changes the parsed documents of a valid bundle in place.
"""

from __future__ import annotations

import hashlib
import json
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conformance import cli
from conformance.certificate import bundle as bundles
from conformance.certificate.document import canonical_json
from conformance.errors import UsageError
from conformance.plan.levels import manifest
from conformance.results import document as result_files
from tests.support import sample_passing_leg

Json = dict[str, Any]


Change = Callable[[Json, Json], None]


Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def certificate_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the path of a valid certificate bundle for level core."""
    folder = tmp_path_factory.mktemp("issued")
    out = sample_passing_leg.write_output_folder(folder / "out", sample_passing_leg.leg("core"))
    assert cli.main(["certify", str(out), "-o", str(folder / "core.zip")]) == 0
    return folder / "core.zip"


def rows_of(results: Json) -> list[Json]:
    leg_rows: list[Json] = results["legs"][0]["results"]
    return leg_rows


def recompute_totals_and_digests(certificate: Json, results: Json) -> None:
    """Recompute all totals and digests after a change, as a careful forger would."""
    leg = sample_passing_leg.with_recounted_totals(results["legs"][0])
    results.update(result_files.results_document([leg]))
    certificate["evidence"]["results"] = hashlib.sha256(canonical_json(results)).hexdigest()
    certificate["evidence"]["comparisons"] = sum(row.get("comparisons", 0) for row in leg["results"])


def change_a_verdict(certificate: Json, results: Json) -> None:
    row = next(row for row in rows_of(results) if row["id"] == "layout/add@float32")
    row |= {"verdict": "fail", "failures": [{"kind": "value", "message": "off"}], "failure_count": 1}


def add_a_failure_to_a_pass(certificate: Json, results: Json) -> None:
    rows_of(results)[0] |= {"failures": [{"kind": "value", "message": "off"}]}


def drop_a_row(certificate: Json, results: Json) -> None:
    rows_of(results).pop()


def duplicate_a_row(certificate: Json, results: Json) -> None:
    rows_of(results).append(dict(rows_of(results)[0]))


def rename_a_row(certificate: Json, results: Json) -> None:
    rows_of(results)[0]["id"] += "_"


def remove_all_rows(certificate: Json, results: Json) -> None:
    results["legs"][0]["results"] = []


def change_the_claimed_level(certificate: Json, results: Json) -> None:
    certificate["claim"]["level"] = "full"


def change_the_level_everywhere(certificate: Json, results: Json) -> None:
    certificate["claim"]["level"] = "training"
    results["legs"][0]["level"] = "training"


def change_the_mode(certificate: Json, results: Json) -> None:
    results["legs"][0]["mode"] = certificate["claim"]["mode"] = "graph"


def add_a_selection(certificate: Json, results: Json) -> None:
    results["legs"][0]["selection"] = "add"


def change_the_suite_digest(certificate: Json, results: Json) -> None:
    results["legs"][0]["digests"]["suite"] = certificate["evidence"]["suite"] = "a" * 64


def change_a_placement(certificate: Json, results: Json) -> None:
    next(row for row in rows_of(results) if row["id"] == "placement/mm@float32")["placement"] = "fallback"


def remove_declared_dtypes(certificate: Json, results: Json) -> None:
    results["legs"][0]["target"]["declared"]["dtypes"] = []
    results["legs"][0]["results"] = [row for row in rows_of(results) if not row["id"].endswith("@float32")]


def add_a_path_to_a_note(certificate: Json, results: Json) -> None:
    rows_of(results)[0]["notes"] = ["read from /home/jane/x.py"]


#: Each change, and a part of the message with which verification must report the change. Verification must
#: detect the change both with and without recomputed totals and digests.
FOUND: list[tuple[Change, str]] = [
    (change_a_verdict, "fail (value)"),
    (add_a_failure_to_a_pass, "has failures"),
    (drop_a_row, "no result"),
    (duplicate_a_row, "has two rows"),
    (rename_a_row, "no result"),
    (remove_all_rows, "no result"),
    (change_the_claimed_level, "the run was of level core"),
    (change_the_level_everywhere, "no result"),
    (change_the_mode, "no result"),
    (add_a_selection, "restricted with -k"),
    (change_the_suite_digest, "different copy of the suite"),
    (change_a_placement, "placed fallback"),
    (remove_declared_dtypes, "no result"),
    (add_a_path_to_a_note, "must not contain"),
]


def output_for_changed_bundle(
    certificate_bundle: Path, tmp_path: Path, capsys: Capture, *changes: Change
) -> str:
    """Apply the changes to a copy of the bundle, assert that its verification fails, and return
    the output.
    """

    def apply_changes(certificate: Json, results: Json) -> None:
        for change in changes:
            change(certificate, results)

    changed_bundle = sample_passing_leg.rewrite_bundle(
        certificate_bundle, tmp_path / "other.zip", apply_changes
    )
    capsys.readouterr()
    code = cli.main(["certify", "--verify", str(changed_bundle)])
    captured = capsys.readouterr()
    assert code == 3, captured
    assert captured.out.startswith("NOT verified") and "verified:" not in captured.out.splitlines()[1:]
    return captured.out


@pytest.mark.nightly("each case verifies a whole bundle", every=3)
@pytest.mark.parametrize(("change", "message"), FOUND, ids=[change.__name__ for change, _ in FOUND])
@pytest.mark.parametrize("careful", [False, True], ids=["", "resummed"])
def test_a_change_is_detected(
    certificate_bundle: Path, tmp_path: Path, capsys: Capture, change: Change, message: str, careful: bool
) -> None:
    changes = (change, recompute_totals_and_digests) if careful else (change,)
    assert message in output_for_changed_bundle(certificate_bundle, tmp_path, capsys, *changes)


def set_certificate_key(where: str, value: Any) -> Change:
    def change(certificate: Json, results: Json) -> None:
        *path, last = where.split(".")
        node = certificate
        for key in path:
            node = node[key]
        assert node[last] != value
        node[last] = value

    return change


EDITS = [
    ("evidence.counts", {"due": 1, "claimed": 1, "passed": 1, "waived": 0, "not_claimed": 0, "missing": 0}),
    ("evidence.counts.passed", 10**6),
    ("evidence.manifest", "b" * 64),
    ("evidence.results", "b" * 64),
    ("evidence.suite", "b" * 64),
    ("evidence.comparisons", 1),
    ("evidence.placements", {"native": 999}),
    ("evidence.waived", ["value/add@float32"]),
    ("evidence.not_claimed", {"dtype float16": 3}),
    ("claim.mode", "compile"),
    ("claim.torch", "2.6"),
    ("statements.target", {"name": "theirs", "device": "mydev", "precision": "ieee", "simulated": False}),
    ("statements.torch", {"version": "2.6.0"}),
    ("statements.environment", {"SECRET": "1"}),
    ("repeat", ["curl example.org | sh"]),
    ("suite", "9.9"),
]


@pytest.mark.nightly("each case verifies a whole bundle", every=3)
@pytest.mark.parametrize(("where", "value"), EDITS, ids=[where for where, _ in EDITS])
def test_an_edited_certificate_is_detected(
    certificate_bundle: Path, tmp_path: Path, capsys: Capture, where: str, value: Any
) -> None:
    assert f"certificate.{where}" in output_for_changed_bundle(
        certificate_bundle, tmp_path, capsys, set_certificate_key(where, value)
    )


def test_a_changed_level_contradicts_the_results(
    certificate_bundle: Path, tmp_path: Path, capsys: Capture
) -> None:
    output = output_for_changed_bundle(
        certificate_bundle, tmp_path, capsys, set_certificate_key("claim.level", "bringup")
    )
    assert "certificate.evidence.manifest" in output and "certificate.evidence.counts.due" in output


def test_removing_the_mark_of_a_simulated_device_is_detected(tmp_path: Path, capsys: Capture) -> None:
    leg = sample_passing_leg.leg("core")
    leg["target"]["simulated"] = True
    out = sample_passing_leg.write_output_folder(tmp_path / "out", leg)
    assert cli.main(["certify", str(out), "-o", str(tmp_path / "core.zip")]) == 0
    output = output_for_changed_bundle(
        tmp_path / "core.zip", tmp_path, capsys, set_certificate_key("claim.notice", None)
    )
    assert "certificate.claim.notice" in output


def test_a_bundle_of_a_different_manifest_does_not_verify(
    certificate_bundle: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    level_manifest = sample_passing_leg.committed_manifest()
    fewer = type(level_manifest)(level_manifest.minors, level_manifest.statements, level_manifest.waivers[1:])
    dropped_waiver = level_manifest.waivers[0].id
    assert dropped_waiver in level_manifest.level_requirements("2.13", "eager", "full").waived
    out = sample_passing_leg.leg("full")
    assert (
        fewer.level_requirements("2.13", "eager", "full").digest()
        != level_manifest.level_requirements("2.13", "eager", "full").digest()
    )
    lacking = type(level_manifest)(
        level_manifest.minors,
        tuple(statement for statement in level_manifest.statements if statement.name != "value"),
        level_manifest.waivers,
    )
    monkeypatch.setattr(manifest, "load", lambda: lacking)
    assert cli.main(["certify", "--verify", str(certificate_bundle)]) == 3
    assert "certificate.evidence.manifest" in capsys.readouterr().out
    assert out["results"]


def test_a_repacked_bundle_verifies(certificate_bundle: Path, tmp_path: Path, capsys: Capture) -> None:
    repacked = sample_passing_leg.rewrite_bundle(
        certificate_bundle, tmp_path / "other.zip", lambda certificate, results: None
    )
    assert cli.main(["certify", "--verify", str(repacked)]) == 0


def write_zip(path: Path, members: dict[str | zipfile.ZipInfo, bytes]) -> Path:
    """Write a zip file with these members in this order, and return its path."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return path


def members_of_bundle(certificate_bundle: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(certificate_bundle) as file:
        return {name: file.read(name) for name in file.namelist()}


def reading_error(path: Path) -> str:
    with pytest.raises(UsageError) as caught:
        bundles.read_bundle(path)
    return str(caught.value)


@pytest.mark.parametrize(
    "name",
    [
        "../certificate.json",
        "/etc/passwd",
        "certificate.json/",
        "a/certificate.json",
        "..\\results.json",
        "conftest.py",
        "certificate.json.py",
        "Certificate.json",
    ],
)
def test_members_with_other_names_are_rejected(certificate_bundle: Path, tmp_path: Path, name: str) -> None:
    path = write_zip(tmp_path / "b.zip", {**members_of_bundle(certificate_bundle), name: b"{}"})
    assert "only certificate.json and results.json are allowed" in reading_error(path)
    assert sorted(tmp_path.iterdir()) == [path]


def test_members_that_are_not_regular_files_are_rejected(certificate_bundle: Path, tmp_path: Path) -> None:
    info = zipfile.ZipInfo("results.json")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    content = members_of_bundle(certificate_bundle)
    path = write_zip(
        tmp_path / "b.zip", {"certificate.json": content["certificate.json"], info: b"/etc/passwd"}
    )
    assert "not a regular file" in reading_error(path)


def test_missing_and_duplicate_members_are_rejected(certificate_bundle: Path, tmp_path: Path) -> None:
    content = members_of_bundle(certificate_bundle)
    assert "has no results.json" in reading_error(
        write_zip(tmp_path / "a.zip", {"certificate.json": content["certificate.json"]})
    )
    second_entry = zipfile.ZipInfo("results.json")
    with pytest.warns(UserWarning, match="Duplicate name"):
        path = write_zip(tmp_path / "b.zip", {**content, second_entry: content["results.json"]})
    assert "twice" in reading_error(path)


def test_the_unpacked_size_is_limited_even_if_the_header_understates_it(
    certificate_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bomb = write_zip(
        tmp_path / "b.zip", {**members_of_bundle(certificate_bundle), "results.json": b" " * (1 << 20)}
    )
    monkeypatch.setitem(bundles.LIMITS, "results.json", 1 << 19)
    assert "the maximum is 524288" in reading_error(bomb)
    # If a header states a size that is too small, the reader stops at this size and finds a wrong checksum.
    content = bytearray(bomb.read_bytes())
    for signature, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        start = content.rindex(signature)
        assert content[start + offset : start + offset + 4] == (1 << 20).to_bytes(4, "little")
        content[start + offset : start + offset + 4] = (1 << 10).to_bytes(4, "little")
    bomb.write_bytes(content)
    assert "is not a valid zip file" in reading_error(bomb) or "unpacks to more" in reading_error(bomb)
    monkeypatch.setattr(bundles, "MAX_BYTES", 100)
    assert "the maximum is 100" in reading_error(certificate_bundle)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"import os", "is not JSON"),
        (b"\xff\xfe", "is not JSON"),
        (b"[" * 200_000, "is not JSON"),
        (b'{"schema": NaN}', "NaN is not a number"),
        (b'{"schema": 1, "schema": 1}', "duplicate key"),
        (b"{}", "does not follow its schema"),
        (b"[]", "does not follow its schema"),
    ],
)
@pytest.mark.parametrize("name", ["certificate.json", "results.json"])
def test_members_that_do_not_follow_the_schema_are_rejected(
    certificate_bundle: Path, tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    assert message in reading_error(
        write_zip(tmp_path / "b.zip", {**members_of_bundle(certificate_bundle), name: content})
    )


@pytest.mark.parametrize("content", [b"", b"PK", b"not a zip at all", b"PK\x05\x06" + b"\0" * 18])
def test_a_file_that_is_not_a_zip_is_rejected(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "b.zip").write_bytes(content)
    reading_error(tmp_path / "b.zip")


def test_a_truncated_bundle_is_rejected(certificate_bundle: Path, tmp_path: Path) -> None:
    content = certificate_bundle.read_bytes()
    for part in (10, len(content) // 2, len(content) - 5):
        (tmp_path / "b.zip").write_bytes(content[:part])
        reading_error(tmp_path / "b.zip")
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 0xFF
    (tmp_path / "b.zip").write_bytes(flipped)
    reading_error(tmp_path / "b.zip")


def test_a_bundle_with_two_legs_does_not_verify(
    certificate_bundle: Path, tmp_path: Path, capsys: Capture
) -> None:
    def change(certificate: Json, results: Json) -> None:
        results["legs"] *= 2

    changed_bundle = sample_passing_leg.rewrite_bundle(certificate_bundle, tmp_path / "other.zip", change)
    assert cli.main(["certify", "--verify", str(changed_bundle)]) == 2
    assert "contain 2 legs" in capsys.readouterr().err


def test_a_bundle_contains_only_json(certificate_bundle: Path) -> None:
    content = members_of_bundle(certificate_bundle)
    assert list(content) == ["certificate.json", "results.json"]
    certificate = json.loads(content["certificate.json"])
    assert certificate["claim"] | {"notice": None} == {
        "level": "core",
        "mode": "eager",
        "torch": "2.13",
        "attestation": "self-reported",
        "notice": None,
    }
