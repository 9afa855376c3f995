"""``plan.levels`` loads the requirements of each level, and a broader level requires all results of a
narrower one.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from conformance.model import vocabulary
from conformance.model.vocabulary import LEVELS
from conformance.plan import capability_requirements, levels, plan
from conformance.plan.levels import manifest
from conformance.plan.levels.manifest import Manifest
from conformance.properties.registry import properties
from conformance.subjects.catalogue import subjects
from conformance.target import file as target_file
from conformance.target.unrestricted import unrestricted_target

MODES = ("eager", "lazy", "compile", "graph", "distributed")


#: Subject kinds whose subjects come from torch's databases.
KINDS = ("operator", "overload", "module", "optimizer")


@pytest.fixture(scope="module")
def committed_manifest() -> Manifest:
    return manifest.load()


def test_every_name_in_a_level_exists() -> None:
    names = {kind: {subject.name for subject in subjects(kind)} for kind in (*KINDS, "collective")}
    property_names = {
        kind: {entry.name for entry in properties(kind)}
        for kind in (*KINDS, "device", "api", "collective", "world")
    }
    for level in map(levels.load, LEVELS):
        assert set(level.native) <= names["operator"]
        for take in level.takes:
            assert (take.properties or set()) <= property_names[take.kind]
            if take.kind in names:
                assert (take.subjects or set()) <= names[take.kind], level.name
    for kind, name in capability_requirements._subject_capabilities():
        assert name in names[kind]


@pytest.mark.parametrize("mode", MODES)
def test_each_level_requires_all_results_of_the_narrower_level(
    committed_manifest: Manifest, mode: str
) -> None:
    demands = [committed_manifest.level_requirements("2.13.0", mode, level) for level in LEVELS]
    for narrow, broad in itertools.pairwise(demands):
        assert narrow.entries.keys() < broad.entries.keys()
        floor = {name for name, entry in narrow.entries.items() if entry.floor}
        assert floor <= {name for name, entry in broad.entries.items() if entry.floor}


def test_bringup_requires_few_operators_in_float32(committed_manifest: Manifest) -> None:
    entries = committed_manifest.level_requirements("2.13", "eager", "bringup").entries.values()
    operators = [entry for entry in entries if entry.kind == "operator"]
    assert {entry.id.dtype for entry in operators} == {"float32"}
    assert {entry.id.case.property for entry in operators} == {"value", "views"}
    assert len({entry.id.case.subject for entry in operators}) < 100
    assert all(entry.floor for entry in operators)


def test_native_placement_is_required_from_level_core_up(committed_manifest: Manifest) -> None:
    assert not committed_manifest.level_requirements("2.13", "eager", "bringup").native
    for level in ("core", "training", "full"):
        demand = committed_manifest.level_requirements("2.13", "eager", level)
        placed = {e.id.case.subject for e in demand.entries.values() if e.id.case.property == "placement"}
        assert set(levels.load("core").native) == set(demand.native) <= placed


def test_floors_list_only_capabilities_that_keep_their_results_in_the_plan() -> None:
    for level in map(levels.load, LEVELS):
        for mode in vocabulary.MODES:
            floor = level.floor(mode)
            assert floor.capabilities <= set(vocabulary.CAPABILITIES) - vocabulary.WITHOUT_REFUSAL
            assert floor.dtypes <= set(target_file.DTYPES)
            assert "float32" in floor.dtypes


def test_subject_kinds_of_extra_modules_have_the_level_of_their_properties() -> None:
    core = levels.load("core")
    assert core.selected_dtypes("mine", "anything", "core", "a", ("int8",)) == ("int8",)
    assert core.selected_dtypes("mine", "anything", "training", "a", ("int8",)) == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[extra]\na = 1\n", "unknown key 'extra'"),
        ('[[take]]\nkind = "operator"\nlevel = "core"\nonly = 1\n', "unknown key 'only'"),
        ('[[take]]\nkind = "operators"\nlevel = "core"\n', "an unknown kind"),
        ('[[take]]\nkind = "operator"\n', "exactly one of the keys 'level' and 'properties'"),
        ('[[take]]\nkind = "operator"\nlevel = "smoke"\n', "'smoke' is not a level"),
    ],
)
def test_a_mistake_in_a_level_file_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    (tmp_path / "bringup.toml").write_text(text)
    monkeypatch.setattr(levels, "FOLDER", tmp_path)
    levels.load.cache_clear()
    try:
        with pytest.raises(ValueError, match=message):
            levels.load("bringup")
    finally:
        levels.load.cache_clear()


@pytest.mark.parametrize("mode", MODES)
def test_the_reference_device_has_every_result_of_the_unrestricted_target(mode: str) -> None:
    target = target_file.load("hpu-reference").target(mode)
    built = [
        set(plan.build_plan(each_target, "full").result_ids())
        for each_target in (target, unrestricted_target(mode))
    ]
    assert built[0] == built[1]
