"""``tools.generate.overload_table`` writes the table of overloads, and records which properties check nothing
on the CPU.
"""

import json
from pathlib import Path

import pytest
import torch

from conformance import torch_testing_internals
from conformance.device import process_state
from conformance.framework.property import Property
from conformance.framework.recorder import CHECKED_NOTHING, Recorder
from conformance.model.verdicts import CaseId, ResultId
from conformance.plan import levels
from conformance.properties.registry import find_property as property_named
from conformance.properties.registry import properties
from conformance.subjects.torch_databases import find, subjects
from conformance.target import file as target_file
from tools.generate import overload_table


def results_folder(tmp_path: Path, target: str) -> Path:
    results = [
        {"id": "overload-options/sin@float32", "notes": [f"{CHECKED_NOTHING}the calls have no options"]},
        {"id": "overload-forms/sin@float32", "notes": ["the CPU fails the same check"]},
        {"id": "overload-forms/sin@float64"},
    ]
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"legs": [{"target": {"name": target}, "results": results}]}))
    return path


def test_properties_that_checked_nothing_on_the_cpu_are_added(tmp_path: Path) -> None:
    rows = {"sin": {"operators": ["sin"]}}
    assert overload_table.add_idle_results(rows, results_folder(tmp_path, "cpu")) == 1
    assert rows["sin"] == {"operators": ["sin"], "idle": {"overload-options": ["float32"]}}


def test_results_of_other_targets_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is a run of target mine"):
        overload_table.add_idle_results({}, results_folder(tmp_path, "mine"))


def test_a_property_does_not_apply_if_the_table_lists_it_as_idle() -> None:
    subject = find("overload", "sin")
    assert "float32" in subject.info.idle["overload-options"]
    target = target_file.load("cpu").target("eager")
    assert "float32" not in property_named("overload", "overload-options").applies(target, subject)
    assert "float32" in property_named("overload", "overload-forms").applies(target, subject)


@pytest.mark.nightly("nox -s lint regenerates the table")
@pytest.mark.parametrize("entry", list(properties("overload")), ids=lambda entry: entry.name)
def test_overloads_that_the_table_lists_as_idle_still_check_nothing(entry: Property) -> None:
    target = target_file.load("cpu").target("eager")
    state = process_state.capture_global_state()
    busy = []
    for subject in subjects("overload"):
        for dtype in subject.info.idle.get(entry.name, ()):
            recorder = Recorder(ResultId(CaseId(entry.name, subject.name), dtype), seed=0)
            process_state.seed(0, target)
            entry.check(target, subject, recorder)
            if not any(note.startswith(CHECKED_NOTHING) for note in recorder.result().notes):
                busy.append(f"{subject.name}@{dtype}")
    process_state.restore_global_state(state)
    assert not busy, (
        "remove these entries from the table, run the suite on target cpu, and add current entries with "
        "python -m tools.generate.overload_table --idle"
    )


def test_level_core_contains_the_overloads_that_its_operators_call(monkeypatch: pytest.MonkeyPatch) -> None:
    of_kind: dict[str, set[str]] = {"operator": set(), "overload": set()}
    for take in levels.load("core").takes:
        if take.kind in of_kind and take.properties is None:
            of_kind[take.kind] |= take.subjects or set()
    wanted = [subject for subject in subjects("operator") if subject.name in of_kind["operator"]]
    monkeypatch.setattr(overload_table, "subjects", lambda kind: wanted)
    for name in ("forward_dtypes", "backward_dtypes"):
        able = getattr(torch_testing_internals, name)
        monkeypatch.setattr(
            torch_testing_internals, name, lambda info, able=able: {torch.float32} & set(able(info))
        )
    called = {
        name
        for *_, dtypes_by_overload in overload_table.recorded_dtypes()
        for name, dtypes in dtypes_by_overload.items()
        if dtypes
    }
    assert len(called) > 200
    overload_names = {subject.name for subject in subjects("overload")}
    assert called & overload_names <= of_kind["overload"]
