"""Results of vendors are taken from the workflow that the registry names, verified, and from nowhere else."""

from __future__ import annotations

import datetime
import hashlib
import json

import pytest

from conformance.ci import vendor_results
from conformance.results import document
from conformance.site import registry, submissions
from tests.support.sample_passing_leg import leg, settled

REPOSITORY = "vendor/backend"
WORKFLOW = ".github/workflows/conformance.yml"
TODAY = datetime.date(2026, 1, 10)
COMMIT = "c" * 40


def backend(**changes):
    known = {"device": "cpu", "repository": REPOSITORY, "workflow": WORKFLOW}
    known["expires"] = datetime.date(2027, 1, 1)
    return registry.Backend("cpu", "CPU", **{**known, **changes})


@pytest.fixture
def vendor(github):
    """Makes a run of the vendor's workflow, with its artifact and its signature."""
    runs = []

    def run(number=11, signed=True, artifact=vendor_results.ARTIFACT, content=None, **changes):
        known = {
            "id": number,
            "path": WORKFLOW,
            "head_sha": COMMIT,
            "event": "schedule",
            "head_repository": {"full_name": REPOSITORY},
            "head_branch": "main",
            "listed": "main",
            **changes,
        }
        runs.insert(0, known)
        folder = github / REPOSITORY / "artifacts" / str(number) / artifact
        folder.mkdir(parents=True)
        with settled():
            found = {**leg("bringup"), "started": "2026-01-09T03:04:05+00:00"}
            found["target"] = {**found["target"], "device": "cpu", "simulated": False}
            document.write(folder / "results.json", document.document([found]))
        if content is not None:
            (folder / "results.json").write_text(content)
        if signed:
            digest = hashlib.sha256((folder / "results.json").read_bytes()).hexdigest()
            (github / "attestations").mkdir(exist_ok=True)
            (github / "attestations" / digest).write_text(f"{REPOSITORY}/{WORKFLOW} refs/heads/main {COMMIT}")
        (github / REPOSITORY / "runs.json").write_text(json.dumps(runs))
        return folder

    return run


def pulled(tmp_path, **changes):
    with settled():
        return list(
            vendor_results.pull_new_runs(backend(**changes), tmp_path / "new", tmp_path / "present", TODAY)
        )


def test_a_signed_run_is_taken_and_shown(vendor, tmp_path):
    vendor()
    (line,) = pulled(tmp_path)
    assert "fetched and verified" in line
    (run,) = (tmp_path / "new" / "cpu").iterdir()
    origin = json.loads((run / "provenance.json").read_text())
    assert (origin["channel"], origin["run_id"], origin["commit"]) == ("vendor-workflow", "11", COMMIT)
    with settled():
        refused: list[submissions.Refused] = []
        (found,) = submissions.read_submissions(
            tmp_path / "new", {"cpu": backend()}, datetime.date.today(), refused
        )
    assert not refused and found[0].provenance.channel == "vendor-workflow"


def test_it_is_taken_once(vendor, tmp_path):
    vendor()
    pulled(tmp_path)
    (tmp_path / "new").rename(tmp_path / "present")
    assert pulled(tmp_path) == []


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"signed": False}, "no attestation that fits"),
        ({"head_sha": "d" * 40}, "no attestation that fits"),
        ({"event": "pull_request"}, "its event is pull_request"),
        ({"event": "pull_request_target"}, "its event is"),
        ({"head_repository": {"full_name": "someone/fork"}}, "another repository's"),
        ({"head_repository": None}, "another repository's"),
        ({"head_branch": "feature"}, "its branch is feature"),
        ({"path": "other/.github/workflows/conformance.yml"}, "of workflow other/"),
        ({"artifact": "something"}, "has no artifact conformance-results"),
        ({"content": "[]"}, "is not taken"),
        ({"content": '{"schema": 1}'}, "is not taken"),
    ],
)
def test_what_is_not_the_vendors_is_not_taken(changes, says, vendor, tmp_path):
    vendor(**changes)
    (line,) = pulled(tmp_path)
    assert "is not taken" in line and says in line
    assert not list((tmp_path / "new").glob("*/*"))


def test_an_artifact_that_is_too_large(vendor, tmp_path, monkeypatch):
    vendor()
    monkeypatch.setattr(vendor_results, "LARGEST", 100)
    (line,) = pulled(tmp_path)
    assert "at most 100 are taken" in line


def test_a_link_in_an_artifact(vendor, tmp_path):
    folder = vendor()
    (folder / "results.json").unlink()
    (folder / "results.json").symlink_to("/etc/hostname")
    (line,) = pulled(tmp_path)
    assert "is not a plain file" in line


def test_an_artifact_that_unpacks_to_more_than_it_says(vendor, tmp_path, monkeypatch):
    folder = vendor(content=" " * 2_000_000)
    monkeypatch.setattr(vendor_results, "LARGEST", 1_000_000)
    monkeypatch.setattr(vendor_results.github, "get_json", smaller(vendor_results.github.get_json))
    (line,) = pulled(tmp_path)
    assert "more than the 1000000 bytes" in line and folder.exists()


def smaller(get):
    """Answers in which artifacts are as small as their zips."""

    def answer(path, **fields):
        found = get(path, **fields)
        for one in found.get("artifacts", ()):
            one["size_in_bytes"] = 3000
        return found

    return answer


def test_runs_of_other_branches_do_not_crowd_out(vendor, tmp_path):
    vendor(11)
    for number in range(20, 35):
        vendor(number, listed="feature", head_branch="feature")
    (line,) = pulled(tmp_path)
    assert "fetched and verified" in line


def test_an_artifact_that_is_no_zip(vendor, tmp_path, monkeypatch):
    vendor()
    monkeypatch.setattr(vendor_results.github, "download", lambda path, file: file.write_bytes(b"<html>"))
    (line,) = pulled(tmp_path)
    assert "cannot be read" in line


def test_one_bad_run_does_not_hide_a_good_one(vendor, tmp_path):
    vendor(11)
    vendor(12, signed=False, content='{"x": 1}')
    lines = pulled(tmp_path)
    assert len(lines) == 2 and len(list((tmp_path / "new" / "cpu").iterdir())) == 1


def test_an_entry_that_expired(vendor, tmp_path):
    vendor()
    (line,) = pulled(tmp_path, expires=datetime.date(2026, 1, 9))
    assert "expired on 2026-01-09" in line
    assert not (tmp_path / "new").exists()


def test_a_backend_without_a_workflow(vendor, tmp_path):
    vendor()
    assert pulled(tmp_path, repository="", workflow="") == []
