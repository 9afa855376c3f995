"""``conformance ci gather`` merges the artifacts of all legs. It uses the newest attempt of a leg, reports
missing legs, and omits unexpected files.
"""

from __future__ import annotations

import dataclasses
import json

import pytest

from conformance import cli
from conformance.ci import merge_artifacts
from conformance.matrix import plan
from conformance.results import document as results
from tests.support.sample_passing_leg import fixed_suite_digest, leg, with_rows, write_output_folder


@pytest.fixture
def write_result_artifact(tmp_path):
    """Write a plan of the modes eager and compile. Return a function ``(mode, attempt, leg)`` that writes the
    leg's artifact into the folder of downloaded artifacts.
    """
    cells = [
        plan.Cell(f"2.13.0-public-{mode}", "mine", "2.13.0-public", "2.13.0", "public", mode, "bringup")
        for mode in ("eager", "compile")
    ]
    (tmp_path / "plan.json").write_text(plan.plan_json(cells))

    def write_artifact(mode, attempt, leg_record):
        (tmp_path / "artifacts").mkdir(exist_ok=True)
        with fixed_suite_digest():
            write_output_folder(
                tmp_path / "artifacts" / f"conformance-leg-2.13.0-public-{mode}-{attempt}", leg_record
            )

    return write_artifact


def gather_exit_code(tmp_path, **changes):
    with fixed_suite_digest():
        return cli.main(
            [
                *("ci", "gather", str(tmp_path / "plan.json"), str(tmp_path / "artifacts")),
                *("-o", str(tmp_path / "out")),
                *(f"--{name}={value}" for name, value in changes.items()),
            ]
        )


def with_a_failure(leg_record):
    name = leg_record["results"][0]["id"]
    row = {"verdict": "fail", "failures": [{"kind": "value", "message": "no"}], "failure_count": 1}
    return {**with_rows(leg_record, {name: row}), "exit": 1}


def test_all_legs_become_one_results_document(write_result_artifact, tmp_path, step_outputs_file):
    write_result_artifact("eager", 1, leg("bringup", "eager"))
    write_result_artifact("compile", 1, leg("bringup", "compile"))
    assert gather_exit_code(tmp_path) == 0
    document = json.loads((tmp_path / "out" / "results.json").read_text())
    assert sorted(merged["mode"] for merged in document["legs"]) == ["compile", "eager"]
    assert (
        "true" in step_outputs_file.read_text().splitlines()
        and "0" in step_outputs_file.read_text().splitlines()
    )
    assert "compile" in (tmp_path / "summary.md").read_text()


def test_a_leg_without_an_artifact_is_missing(write_result_artifact, tmp_path, step_outputs_file, capsys):
    write_result_artifact("eager", 1, leg("bringup", "eager"))
    assert gather_exit_code(tmp_path) == 3
    assert "MISSING" in capsys.readouterr().out
    assert "MISSING" in (tmp_path / "out" / "matrix.md").read_text()


def test_a_single_artifact_has_no_folder(write_result_artifact, tmp_path, step_outputs_file):
    """If there is only one artifact, GitHub's download action writes its files without the
    artifact's folder.
    """
    write_result_artifact("compile", 3, leg("bringup", "compile"))
    (own,) = (tmp_path / "artifacts").iterdir()
    (own / merge_artifacts.NAMED).write_text(f"{own.name}\n")
    for file in own.iterdir():
        file.rename(tmp_path / "artifacts" / file.name)
    own.rmdir()
    assert gather_exit_code(tmp_path) == 3
    document = json.loads((tmp_path / "out" / "results.json").read_text())
    assert [merged["mode"] for merged in document["legs"]] == ["compile"]


def test_results_of_other_cells_in_an_artifact_are_omitted(
    write_result_artifact, tmp_path, step_outputs_file
):
    write_result_artifact("eager", 1, leg("bringup", "eager"))
    results_path = tmp_path / "artifacts" / "conformance-leg-2.13.0-public-eager-1" / "results.json"
    with fixed_suite_digest():
        results.write_results(
            results_path, results.results_document([leg("bringup", "eager"), leg("bringup", "compile")])
        )
    assert gather_exit_code(tmp_path) == 3
    document = json.loads((tmp_path / "out" / "results.json").read_text())
    assert [merged["mode"] for merged in document["legs"]] == ["eager"]
    assert "was omitted" in (tmp_path / "out" / "matrix.md").read_text()


def test_two_cells_that_ran_on_the_same_torch_are_reported(
    write_result_artifact, tmp_path, step_outputs_file
):
    write_result_artifact("eager", 1, leg("bringup", "eager"))
    write_result_artifact("compile", 1, leg("bringup", "compile"))
    with fixed_suite_digest():
        write_output_folder(
            tmp_path / "artifacts" / "conformance-leg-newest-public-eager-1", leg("bringup", "eager")
        )
    cells = plan.read_plan(tmp_path / "plan.json")
    newest = plan.Cell("newest-public-eager", "mine", "newest-public", "newest", "public", "eager", "bringup")
    (tmp_path / "plan.json").write_text(plan.plan_json([*cells, newest]))
    assert gather_exit_code(tmp_path) == 0
    document = json.loads((tmp_path / "out" / "results.json").read_text())
    assert sorted(merged["mode"] for merged in document["legs"]) == ["compile", "eager"]
    assert "ran on the torch of" in (tmp_path / "out" / "matrix.md").read_text().replace("\\", "")


def test_a_plan_without_any_artifact_is_reported(write_result_artifact, tmp_path, step_outputs_file):
    assert gather_exit_code(tmp_path) == 3
    assert "no artifact is called" in (tmp_path / "out" / "matrix.md").read_text()
    assert "false" in step_outputs_file.read_text().splitlines()
    assert not (tmp_path / "out" / "results.json").exists()


@pytest.mark.parametrize(("attempts", "code"), [(("bad", "good"), 0), (("good", "bad"), 1)])
def test_the_newest_attempt_counts(attempts, code, write_result_artifact, tmp_path, step_outputs_file):
    write_result_artifact("compile", 1, leg("bringup", "compile"))
    for number, condition in zip((9, 10), attempts, strict=True):
        passing_leg = leg("bringup", "eager")
        write_result_artifact(
            "eager", number, with_a_failure(passing_leg) if condition == "bad" else passing_leg
        )
    assert gather_exit_code(tmp_path) == code


def test_artifacts_of_another_workflow_call_are_ignored(write_result_artifact, tmp_path, step_outputs_file):
    write_result_artifact("eager", 1, leg("bringup", "eager"))
    assert gather_exit_code(tmp_path, name="other") == 3
    assert not list((tmp_path / "out" / "legs").iterdir())


def test_unexpected_files_of_an_artifact_are_omitted(
    write_result_artifact, tmp_path, step_outputs_file, monkeypatch
):
    write_result_artifact("eager", 1, leg("bringup", "eager"))
    write_result_artifact("compile", 1, leg("bringup", "compile"))
    own = tmp_path / "artifacts" / "conformance-leg-2.13.0-public-eager-1"
    (own / "run.sh").write_text("true")
    secret = tmp_path / "secret"
    secret.write_text("a")
    (own / "junit.xml").unlink(missing_ok=True)
    (own / "junit.xml").symlink_to(secret)
    other_folder = tmp_path / "artifacts" / "conformance-leg-2.13.0-public-compile-1"
    monkeypatch.setattr(merge_artifacts, "LARGEST", (other_folder / "results.json").stat().st_size - 1)
    assert gather_exit_code(tmp_path) == 3
    copied_names = {path.name for path in (tmp_path / "out" / "legs" / "2.13.0-public-eager").iterdir()}
    assert not copied_names & {"run.sh", "junit.xml"}
    assert "was omitted" in (tmp_path / "out" / "matrix.md").read_text()


def test_a_declared_refusal_is_reported(write_result_artifact, tmp_path, step_outputs_file):
    write_result_artifact("eager", 1, leg("bringup", "eager"))
    refused_leg = leg("bringup", "compile")
    refused_leg.update(exit=2, complete=False, problems=["it needs a fork"], results=[], planned=0)
    refused_leg.update(totals={}, cases={}, case_totals={})
    write_result_artifact("compile", 1, refused_leg)
    cells = plan.read_plan(tmp_path / "plan.json")
    refused = dataclasses.replace(cells[1], expect="refusal", says="needs a fork")
    (tmp_path / "plan.json").write_text(plan.plan_json([cells[0], refused]))
    assert gather_exit_code(tmp_path) == 0
    document = json.loads((tmp_path / "out" / "results.json").read_text())
    assert {merged["mode"]: merged["exit"] for merged in document["legs"]} == {"eager": 0, "compile": 2}


def test_a_broken_leg_does_not_stop_the_others(write_result_artifact, tmp_path, step_outputs_file):
    write_result_artifact("eager", 1, leg("bringup", "eager"))
    broken = tmp_path / "artifacts" / "conformance-leg-2.13.0-public-compile-1"
    broken.mkdir()
    (broken / "results.json").write_text('{"schema": 1, "legs": [')
    assert gather_exit_code(tmp_path) == 3
    document = json.loads((tmp_path / "out" / "results.json").read_text())
    assert [merged["mode"] for merged in document["legs"]] == ["eager"]


def test_a_lone_surrogate_in_one_leg_does_not_lose_other_legs(
    write_result_artifact, tmp_path, step_outputs_file, capsys
):
    write_result_artifact("eager", 1, leg("bringup", "eager"))
    refused_leg = leg("bringup", "compile")
    refused_leg.update(
        exit=2, complete=False, problems=["file 'a\udcff' is \ud800 damaged"], results=[], planned=0
    )
    refused_leg.update(totals={}, cases={}, case_totals={})
    write_result_artifact("compile", 1, refused_leg)
    assert gather_exit_code(tmp_path) == 3
    assert "is ? damaged" in capsys.readouterr().out
    assert "true" in step_outputs_file.read_text().splitlines()
    legs = results.read_results(tmp_path / "out" / "results.json")["legs"]
    assert sorted(merged["mode"] for merged in legs) == ["compile", "eager"]
    json.dumps(legs, ensure_ascii=False).encode()  # must not raise, because the site encodes the legs
