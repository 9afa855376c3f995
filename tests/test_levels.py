"""Levels, what they ask for, and the committed manifest of it."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.errors import UsageError
from conformance.model import vocabulary
from conformance.model.verdicts import Kind
from conformance.model.vocabulary import LEVELS
from conformance.plan import levels, needs, plan
from conformance.plan.levels import manifest
from conformance.plan.levels.manifest import Group, Manifest, Statement
from conformance.properties.registry import properties
from conformance.subjects.catalogue import subjects
from conformance.target import file as target_file
from conformance.target.neutral import neutral
from conformance.upkeep import manifest as generate

MODES = ("eager", "lazy", "compile", "graph", "distributed")
#: Kinds whose subjects come from torch's databases.
KINDS = ("operator", "module", "optimizer")


@pytest.fixture(scope="module")
def committed() -> Manifest:
    return manifest.load()


def test_every_name_in_a_level_exists() -> None:
    names = {kind: {subject.name for subject in subjects(kind)} for kind in (*KINDS, "collective")}
    known = {
        kind: {entry.name for entry in properties(kind)}
        for kind in (*KINDS, "device", "api", "collective", "world")
    }
    for level in map(levels.load, LEVELS):
        assert set(level.native) <= names["operator"]
        for take in level.takes:
            assert (take.properties or set()) <= known[take.kind]
            if take.kind in names:
                assert (take.subjects or set()) <= names[take.kind], level.name
    for kind, name in needs._of_subjects():
        assert name in names[kind]


@pytest.mark.parametrize("mode", MODES)
def test_each_level_takes_all_of_the_narrower_one_and_more(committed: Manifest, mode: str) -> None:
    demands = [committed.demand("2.13.0", mode, level) for level in LEVELS]
    for narrow, broad in itertools.pairwise(demands):
        assert narrow.entries.keys() < broad.entries.keys()
        due = {name for name, entry in narrow.entries.items() if entry.floor}
        assert due <= {name for name, entry in broad.entries.items() if entry.floor}


def test_bringup_needs_a_handful_of_operators_in_float32(committed: Manifest) -> None:
    entries = committed.demand("2.13", "eager", "bringup").entries.values()
    operators = [entry for entry in entries if entry.kind == "operator"]
    assert {entry.id.dtype for entry in operators} == {"float32"}
    assert {entry.id.case.property for entry in operators} == {"value", "views"}
    assert len({entry.id.case.subject for entry in operators}) < 100
    assert all(entry.floor for entry in operators)


def test_native_operators_are_placed_from_core_up(committed: Manifest) -> None:
    assert not committed.demand("2.13", "eager", "bringup").native
    for level in ("core", "training", "full"):
        demand = committed.demand("2.13", "eager", level)
        placed = {e.id.case.subject for e in demand.entries.values() if e.id.case.property == "placement"}
        assert set(levels.load("core").native) == set(demand.native) <= placed


def test_floors_name_words_without_which_a_result_still_exists() -> None:
    for level in map(levels.load, LEVELS):
        for mode in vocabulary.MODES:
            floor = level.floor(mode)
            assert floor.capabilities <= set(vocabulary.CAPABILITIES) - vocabulary.WITHOUT_REFUSAL
            assert floor.dtypes <= set(target_file.DTYPES)
            assert "float32" in floor.dtypes


def test_kinds_of_extra_modules_go_by_the_level_of_their_properties() -> None:
    core = levels.load("core")
    assert core.chosen("mine", "anything", "core", "a", ("int8",)) == ("int8",)
    assert core.chosen("mine", "anything", "training", "a", ("int8",)) == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[extra]\na = 1\n", "unknown key 'extra'"),
        ('[[take]]\nkind = "operator"\nlevel = "core"\nonly = 1\n', "unknown key 'only'"),
        ('[[take]]\nkind = "operators"\nlevel = "core"\n', "a known kind"),
        ('[[take]]\nkind = "operator"\n', "either a level or properties"),
        ('[[take]]\nkind = "operator"\nlevel = "smoke"\n', "'smoke' is not a level"),
    ],
)
def test_a_mistake_in_a_level_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, words: str
) -> None:
    (tmp_path / "bringup.toml").write_text(text)
    monkeypatch.setattr(levels, "FOLDER", tmp_path)
    levels.load.cache_clear()
    try:
        with pytest.raises(ValueError, match=words):
            levels.load("bringup")
    finally:
        levels.load.cache_clear()


def test_the_manifest_is_that_of_the_suite() -> None:
    # In a process of its own: other tests here register properties that are not the suite's.
    command = [sys.executable, "-m", "conformance.upkeep.manifest", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONHASHSEED": "0"})
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_check_says_that_it_drifted_and_how_to_mend_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = manifest.PATH.read_text().replace('"name": "value"', '"name": "worth"', 1)
    (tmp_path / "manifest.json").write_text(changed)
    lines = generate.difference(tmp_path / "manifest.json")
    assert any(line.startswith("+") and '"name": "value"' in line for line in lines)
    monkeypatch.setattr(generate, "difference", lambda: lines)
    assert generate.main(["--check"]) == 1
    assert f"run '{manifest.COMMAND}'" in capsys.readouterr().out


def test_its_digests_are_those_of_what_levels_ask_for(committed: Manifest) -> None:
    assert json.loads(manifest.PATH.read_text())["digests"] == manifest.digests(committed)
    every = [
        digest
        for table in manifest.digests(committed).values()
        for by in table.values()
        for digest in by.values()
    ]
    assert len(set(every)) == len(every) == len(committed.minors) * len(MODES) * len(LEVELS)


@pytest.mark.parametrize("mode", MODES)
def test_every_id_is_in_it_once(committed: Manifest, mode: str) -> None:
    found = [f"{one.name}/{subject}@{dtype}" for one, subject, dtype in committed.ids((2, 13), mode)]
    assert len(found) == len(set(found)) > 600


@pytest.mark.parametrize("mode", MODES)
def test_the_reference_device_has_every_result_that_the_neutral_target_has(mode: str) -> None:
    target = target_file.load("hpu-reference").target(mode)
    built = [set(plan.build(one, "full").result_ids()) for one in (target, neutral(mode))]
    assert built[0] == built[1]


def _statement(*groups: Group, name: str = "value", kind: str = "operator") -> Statement:
    return Statement(kind, name, "bringup", ("eager",), (), (), groups)


def test_an_id_that_is_there_twice_is_an_error() -> None:
    one = Group((2, 13), None, ("float32",), ("add", "mul"))
    other = Group((2, 12), None, ("int64", "float32"), ("add",))
    found = Manifest(((2, 12), (2, 13)), (_statement(one, other),), ())
    assert len(list(found.ids((2, 12), "eager"))) == 2
    with pytest.raises(
        UsageError, match=r"value/add@float32 is in the manifest of torch 2\.13, eager, twice"
    ):
        list(found.ids((2, 13), "eager"))


def test_since_and_until_are_what_was_seen() -> None:
    minors = ((2, 6), (2, 9), (2, 13))
    before = _statement(
        Group((2, 6), None, ("float32",), ("add",)),
        Group((2, 6), (2, 9), ("float32",), ("gone",)),
        Group((2, 6), None, ("int64",), ("add",)),
    )
    spans = generate._spans(before, {"add": ("float32", "bool"), "fresh": ("float32",)}, (2, 13), minors)
    assert spans == {
        "add": [("float32", (2, 6), None), ("bool", (2, 13), None), ("int64", (2, 6), (2, 13))],
        "gone": [("float32", (2, 6), (2, 9))],
        "fresh": [("float32", (2, 13), None)],
    }
    # An older minor that is looked at later moves the beginning back.
    again = generate._spans(before, {"fresh": ("float32",)}, (2, 9), ((2, 6), (2, 9)))
    assert again["add"] == [("float32", (2, 6), (2, 9)), ("int64", (2, 6), (2, 9))]


def test_a_minor_that_it_does_not_know_certifies_nothing(committed: Manifest) -> None:
    with pytest.raises(manifest.UnknownMinor, match=r"knows no torch 2\.6, only 2\.13"):
        committed.demand("2.6.0+cpu", "eager", "core")
    assert committed.demand("2.13.1a0+git12", "eager", "core").minor == (2, 13)


@pytest.mark.parametrize("change", ["entry", "floor", "native", "waiver", "capability"])
def test_whatever_decides_a_level_changes_its_digest(committed: Manifest, change: str) -> None:
    demand = committed.demand("2.13", "eager", "core")
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
    other = dataclasses.replace(demand, entries=entries, native=native, waived=waived)
    assert other.digest() != demand.digest()


def test_waivers_are_of_results_that_exist_and_say_where_they_are_tracked(committed: Manifest) -> None:
    root = Path(__file__).parents[1]
    ids = {
        mode: {f"{one.name}/{subject}@{dtype}" for one, subject, dtype in committed.ids((2, 13), mode)}
        for mode in MODES
    }
    assert committed.waivers
    for waiver in committed.waivers:
        assert all(waiver.id in ids[mode] for mode in waiver.modes) and waiver.modes
        assert Kind(waiver.kind) not in (Kind.VACUOUS, Kind.HARNESS)
        page, _, heading = waiver.link.partition("#")
        if page.startswith("docs/"):
            titles = re.findall(r"(?m)^#+ (.+)$", (root / page).read_text())
            assert heading in {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
        assert waiver.until is not None
