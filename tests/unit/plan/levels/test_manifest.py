"""The committed manifest of level requirements has current digests, unique ids, and valid waivers."""

from __future__ import annotations

import dataclasses
import json
import re

import pytest

from conformance.errors import UsageError
from conformance.model.verdicts import Kind
from conformance.model.vocabulary import LEVELS
from conformance.plan.levels import manifest
from conformance.plan.levels.manifest import Manifest, ManifestGroup, ManifestProperty
from tests.support import ROOT

MODES = ("eager", "lazy", "compile", "graph", "distributed")


@pytest.fixture(scope="module")
def committed_manifest() -> Manifest:
    return manifest.load()


def test_the_digests_of_level_requirements_are_current(committed_manifest: Manifest) -> None:
    digests = manifest.digests(committed_manifest)
    assert json.loads(manifest.PATH.read_text())["digests"] == digests
    every = [
        digest
        for by_mode in digests.values()
        for by_level in by_mode.values()
        for digest in by_level.values()
    ]
    assert len(set(every)) == len(every) == len(committed_manifest.minors) * len(MODES) * len(LEVELS)


@pytest.mark.parametrize("mode", MODES)
def test_every_id_occurs_once(committed_manifest: Manifest, mode: str) -> None:
    ids = [
        f"{statement.name}/{subject}@{dtype}"
        for statement, subject, dtype in committed_manifest.ids((2, 13), mode)
    ]
    assert len(ids) == len(set(ids)) > 600


def _statement(*groups: ManifestGroup, name: str = "value", kind: str = "operator") -> ManifestProperty:
    return ManifestProperty(kind, name, "bringup", ("eager",), (), (), groups)


def test_a_duplicate_id_is_an_error() -> None:
    recent_group = ManifestGroup((2, 13), None, ("float32",), ("add", "mul"))
    older_group = ManifestGroup((2, 12), None, ("int64", "float32"), ("add",))
    manifest = Manifest(((2, 12), (2, 13)), (_statement(recent_group, older_group),), ())
    assert len(list(manifest.ids((2, 12), "eager"))) == 2
    with pytest.raises(UsageError, match=r"lists value/add@float32 twice for torch 2\.13 in mode eager"):
        list(manifest.ids((2, 13), "eager"))
    with pytest.raises(UsageError, match=r"lists value/add@float32 twice for torch 2\.13 in mode eager"):
        manifest.level_requirements("2.13.0", "eager", "full")


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("2.13.0+cpu", "2.13.0+cpu"),
        ("2.9.1", "2.9.1"),
        ("2.11.0", "2.11.0"),
        ("2.14.0.dev20270101", "2.13"),
        ("3.0.0", "2.13"),
        ("unknown", "unknown"),
    ],
)
def test_a_newer_torch_is_judged_by_the_latest_release(
    monkeypatch: pytest.MonkeyPatch, version: str, expected: str
) -> None:
    monkeypatch.setattr(manifest, "_measured_minors", lambda: ((2, 9), (2, 13)))
    assert manifest.version_for_expectations(version) == expected


def test_a_torch_minor_without_entry_is_an_error(committed_manifest: Manifest) -> None:
    with pytest.raises(manifest.UnknownMinor, match=r"no entry for torch 2\.5 \(it has 2\.6, "):
        committed_manifest.level_requirements("2.5.0+cpu", "eager", "core")
    assert committed_manifest.level_requirements("2.13.1a0+git12", "eager", "core").minor == (2, 13)


@pytest.mark.parametrize("change", ["entry", "floor", "native", "waiver", "capability"])
def test_each_part_of_the_requirements_changes_the_digest(committed_manifest: Manifest, change: str) -> None:
    demand = committed_manifest.level_requirements("2.13", "eager", "core")
    entries = dict(demand.entries)
    name, entry = next(iter(entries.items()))
    if change == "entry":
        del entries[name]
    elif change == "floor":
        entries[name] = dataclasses.replace(entry, floor=not entry.floor)
    elif change == "capability":
        entries[name] = dataclasses.replace(entry, capabilities=(*entry.capabilities, "nested"))
    native = demand.native[1:] if change == "native" else demand.native
    waived = {**demand.waived, name: frozenset({"value"})} if change == "waiver" else demand.waived
    changed = dataclasses.replace(demand, entries=entries, native=native, waived=waived)
    assert changed.digest() != demand.digest()


def test_waivers_are_for_existing_results_and_have_a_link(committed_manifest: Manifest) -> None:
    ids = {
        mode: {
            f"{statement.name}/{subject}@{dtype}"
            for statement, subject, dtype in committed_manifest.ids((2, 13), mode)
        }
        for mode in MODES
    }
    assert committed_manifest.waivers
    for waiver in committed_manifest.waivers:
        assert all(waiver.id in ids[mode] for mode in waiver.modes) and waiver.modes
        assert Kind(waiver.kind) not in (Kind.VACUOUS, Kind.HARNESS)
        page, _, heading = waiver.link.partition("#")
        if page.startswith("docs/"):
            titles = re.findall(r"(?m)^#+ (.+)$", (ROOT / page).read_text())
            assert heading in {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
        assert waiver.until is not None


def test_a_result_that_replaces_a_waived_result_is_waived() -> None:
    link = {"value": "docs/torch-bugs.md#roll"}
    assert manifest.waiver_links("2.13.0", "eager")["vmap/roll@float64"] == link
    # The result in float32 replaces the waived result in float64 if the target does not declare float64.
    assert manifest.waiver_links("2.13.0", "eager", ["vmap/roll@float32"])["vmap/roll@float32"] == link
    # If the leg has both results, the result in float32 replaces nothing and is not waived. The result of
    # out_grad/prod is not waived either.
    both = ["vmap/roll@float64", "vmap/roll@float32"]
    assert "vmap/roll@float32" not in manifest.waiver_links("2.13.0", "eager", both)
    assert "out_grad/prod@float32" not in manifest.waiver_links("2.13.0", "eager", ["out_grad/prod@float32"])
