"""``tools.generate.manifest`` regenerates the manifest of level requirements, and reports an outdated one."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from conformance.plan.levels import manifest
from conformance.plan.levels.manifest import ManifestGroup, ManifestProperty
from tools.generate import manifest as generate


@pytest.mark.nightly("regenerates the manifest, as nox -s lint does")
def test_an_outdated_manifest_is_reported_with_the_command_that_regenerates_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = manifest.PATH.read_text().replace('"name": "value"', '"name": "worth"', 1)
    (tmp_path / "manifest.json").write_text(changed)
    lines = generate.manifest_difference(tmp_path / "manifest.json")
    assert any(line.startswith("+") and '"name": "value"' in line for line in lines)
    monkeypatch.setattr(generate, "manifest_difference", lambda: lines)
    assert generate.main(["--check"]) == 1
    assert f"Run '{manifest.COMMAND}'" in capsys.readouterr().out


def _statement(*groups: ManifestGroup, name: str = "value", kind: str = "operator") -> ManifestProperty:
    return ManifestProperty(kind, name, "bringup", ("eager",), (), (), groups)


def test_the_range_of_a_result_contains_the_measured_torch_minors() -> None:
    minors = ((2, 6), (2, 9), (2, 13))
    before = _statement(
        ManifestGroup((2, 6), None, ("float32",), ("add",)),
        ManifestGroup((2, 6), (2, 9), ("float32",), ("gone",)),
        ManifestGroup((2, 6), None, ("int64",), ("add",)),
    )
    spans = generate._validity_spans(
        before, {"add": ("float32", "bool"), "fresh": ("float32",)}, (2, 13), minors
    )
    assert spans == {
        "add": [("float32", (2, 6), None), ("bool", (2, 13), None), ("int64", (2, 6), (2, 13))],
        "gone": [("float32", (2, 6), (2, 9))],
        "fresh": [("float32", (2, 13), None)],
    }
    # If the suite runs on an older torch minor for the first time, the span of a result starts earlier.
    new_spans = generate._validity_spans(before, {"fresh": ("float32",)}, (2, 9), ((2, 6), (2, 9)))
    assert new_spans["add"] == [("float32", (2, 6), (2, 9)), ("int64", (2, 6), (2, 9))]


def test_a_new_property_is_added_to_other_minors_with_its_subjects() -> None:
    minors = ((2, 6), (2, 9), (2, 13))
    assumed = {("add", "int64"): {(2, 9)}, ("add", "float32"): {(2, 6), (2, 9)}}
    observed = {"add": ("float32", "int64")}
    assert generate._validity_spans(None, observed, (2, 13), minors, assumed) == {
        "add": [("float32", (2, 6), None), ("int64", (2, 9), None)]
    }
    # Of this property, the manifest already states the results on 2.9.
    before = _statement(ManifestGroup((2, 9), None, ("float32",), ("add",)))
    assert generate._validity_spans(before, observed, (2, 13), minors, assumed) == {
        "add": [("float32", (2, 6), None), ("int64", (2, 13), None)]
    }


def test_hooks_that_only_an_older_torch_needs_are_stated_for_its_minor() -> None:
    minors = ((2, 6), (2, 13))
    before = _statement(ManifestGroup((2, 13), None, ("float32",), ("add",)))
    assert generate._hooks_by_minor(before, ("graph",), (2, 6), minors) == {(2, 6): ("graph",), (2, 13): ()}
    stated = dataclasses.replace(before, other_hooks=(((2, 6), ("graph",)),))
    assert generate._hooks_by_minor(stated, (), (2, 13), minors) == {(2, 6): ("graph",), (2, 13): ()}
    manifest_with_hooks = manifest.Manifest(minors, (stated,), ())
    text = generate.manifest_text(manifest_with_hooks)
    assert manifest.from_json(json.loads(text)).statements[0].hooks_on((2, 6)) == ("graph",)
