"""``worker.plan_cache`` reuses a cached plan only if all inputs of the plan are unchanged. A damaged or
unwritable cache does not stop a run.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conformance.subjects import catalogue
from conformance.worker import plan_cache
from conformance.worker.plan_cache import Plans

FACTS: Any = {
    "torch": {"version": "2.13.0+cpu", "revision": "abc"},
    "backend": {"module": "mine", "version": "1", "digest": "1" * 64, "abi": "1"},
}
PLANS: Plans = {
    "plan": {"dtypes": [["float32"]], "cases": [("operator", "value", "add", 0)]},
    "full": {"dtypes": [["float32"]], "cases": [("operator", "value", "add", 0)]},
    "here": [("operator", "value")],
}


@pytest.fixture(autouse=True)
def plan_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(plan_cache.VARIABLE, raising=False)
    return tmp_path / "conformance" / "plans"


def cache_key(**changes: Any) -> str:
    fields = {"facts": FACTS, "target_digest": "2" * 64, "mode": "eager", "level": "core", **changes}
    return plan_cache.plan_key(**fields)


def test_stored_plans_are_loaded() -> None:
    assert plan_cache.load_plans(cache_key()) is None
    plan_cache.store_plans(cache_key(), PLANS)
    cached_plan = plan_cache.load_plans(cache_key())
    assert cached_plan is not None and json.loads(json.dumps(PLANS)) == cached_plan


@pytest.mark.parametrize(
    "changes",
    [
        {"target_digest": "3" * 64},
        {"mode": "compile"},
        {"level": "full"},
        {"facts": {**FACTS, "torch": {"version": "2.13.0+cpu", "revision": "abd"}}},
        {"facts": {**FACTS, "backend": {**FACTS["backend"], "digest": "4" * 64}}},
    ],
)
def test_each_input_of_a_plan_changes_its_key(changes: dict[str, Any]) -> None:
    plan_cache.store_plans(cache_key(), PLANS)
    assert plan_cache.load_plans(cache_key(**changes)) is None


def test_a_different_suite_has_a_different_key(monkeypatch: pytest.MonkeyPatch) -> None:
    before = cache_key()
    monkeypatch.setattr(plan_cache.digests, "suite_digest", lambda: "another")
    assert cache_key() != before


def test_a_selection_of_subject_kinds_has_a_different_key(monkeypatch: pytest.MonkeyPatch) -> None:
    before = cache_key()
    monkeypatch.setenv(catalogue.KINDS_VARIABLE, "device")
    assert cache_key() != before


def test_a_setting_of_torch_s_databases_has_a_different_key(monkeypatch: pytest.MonkeyPatch) -> None:
    before = cache_key()
    monkeypatch.setenv("PYTORCH_TEST_WITH_SLOW", "1")
    assert cache_key() != before


@pytest.mark.parametrize("content", ["", "{", "[]", "3", '{"plan": {}}'])
def test_a_damaged_cache_file_is_ignored(plan_cache_folder: Path, content: str) -> None:
    plan_cache_folder.mkdir(parents=True)
    (plan_cache_folder / f"{cache_key()}.json").write_text(content)
    assert plan_cache.load_plans(cache_key()) is None


def test_an_unwritable_cache_folder_is_not_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(file))
    plan_cache.store_plans(cache_key(), PLANS)
    assert plan_cache.load_plans(cache_key()) is None


def test_the_cache_can_be_disabled(plan_cache_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(plan_cache.VARIABLE, "0")
    plan_cache.store_plans(cache_key(), PLANS)
    assert not plan_cache_folder.exists()


def test_the_oldest_plans_are_removed_first(plan_cache_folder: Path) -> None:
    for number in range(plan_cache.MAX_FILES + 3):
        plan_cache.store_plans(f"key{number}", PLANS)
        os.utime(plan_cache_folder / f"key{number}.json", (number, number))
    names = {file.stem for file in plan_cache_folder.iterdir()}
    assert (
        len(names) == plan_cache.MAX_FILES
        and "key0" not in names
        and f"key{plan_cache.MAX_FILES + 2}" in names
    )


@pytest.mark.nightly("computes the whole plan twice")
def test_a_cached_plan_equals_the_computed_plan(tmp_path: Path, plan_cache_folder: Path) -> None:
    answers = []
    for number in range(2):
        file = tmp_path / f"{number}.json"
        command = [sys.executable, "-m", "conformance.worker.bring_up_and_plan", str(file)]
        command += ["--target", "cpu", "--mode", "eager", "--level", "bringup"]
        environment = os.environ | {"PYTHONHASHSEED": "0", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
        subprocess.run(command, check=True, env=environment)
        answers.append(json.loads(file.read_text()))
        assert len(list(plan_cache_folder.iterdir())) == 1
    assert answers[0] == answers[1]


@pytest.mark.parametrize(
    "content",
    [
        '{"plan": {}, "full": {}, "here": []}',
        '{"plan": {"dtypes": [], "cases": [["a"]]}, "full": 3, "here": []}',
    ],
)
def test_an_invalid_cached_plan_is_ignored(plan_cache_folder: Path, content: str) -> None:
    plan_cache_folder.mkdir(parents=True)
    (plan_cache_folder / f"{cache_key()}.json").write_text(content)
    assert plan_cache.load_plans(cache_key()) is None
