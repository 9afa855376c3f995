"""``ci.vendor_results`` accepts results only from the workflow that the registry lists for the vendor, and
only with a valid signature.
"""

from __future__ import annotations

import datetime
import hashlib
import json

import pytest

from conformance.ci import vendor_results
from conformance.results import document
from conformance.site import registry, submissions
from tests.support.sample_passing_leg import fixed_suite_digest, leg

REPOSITORY = "vendor/backend"
WORKFLOW = ".github/workflows/conformance.yml"
TODAY = datetime.date(2026, 1, 10)
COMMIT = "c" * 40


def registry_backend(**changes):
    fields = {"device": "cpu", "repository": REPOSITORY, "workflow": WORKFLOW}
    fields["expires"] = datetime.date(2027, 1, 1)
    return registry.Backend("cpu", "CPU", **{**fields, **changes})


@pytest.fixture
def add_vendor_run_to_github(fake_github_folder):
    """Return a function that adds a run of the vendor's workflow with a signed artifact to the
    fake GitHub.
    """
    runs = []

    def add_vendor_run(number=11, signed=True, artifact=vendor_results.ARTIFACT, content=None, **changes):
        run_record = {
            "id": number,
            "path": WORKFLOW,
            "head_sha": COMMIT,
            "event": "schedule",
            "head_repository": {"full_name": REPOSITORY},
            "head_branch": "main",
            "listed": "main",
            **changes,
        }
        runs.insert(0, run_record)
        folder = fake_github_folder / REPOSITORY / "artifacts" / str(number) / artifact
        folder.mkdir(parents=True)
        with fixed_suite_digest():
            signed_leg = {**leg("bringup"), "started": "2026-01-09T03:04:05+00:00"}
            signed_leg["target"] = {**signed_leg["target"], "device": "cpu", "simulated": False}
            document.write_results(folder / "results.json", document.results_document([signed_leg]))
        if content is not None:
            (folder / "results.json").write_text(content)
        if signed:
            digest = hashlib.sha256((folder / "results.json").read_bytes()).hexdigest()
            (fake_github_folder / "attestations").mkdir(exist_ok=True)
            (fake_github_folder / "attestations" / digest).write_text(
                f"{REPOSITORY}/{WORKFLOW} refs/heads/main {COMMIT}"
            )
        (fake_github_folder / REPOSITORY / "runs.json").write_text(json.dumps(runs))
        return folder

    return add_vendor_run


def pull_messages(tmp_path, **changes):
    with fixed_suite_digest():
        return list(
            vendor_results.pull_new_runs(
                registry_backend(**changes), tmp_path / "new", tmp_path / "present", TODAY
            )
        )


def test_a_signed_run_is_accepted_and_shown(add_vendor_run_to_github, tmp_path):
    add_vendor_run_to_github()
    (line,) = pull_messages(tmp_path)
    assert "fetched and verified" in line
    (run,) = (tmp_path / "new" / "cpu").iterdir()
    origin = json.loads((run / "provenance.json").read_text())
    assert (origin["channel"], origin["run_id"], origin["commit"]) == ("vendor-workflow", "11", COMMIT)
    with fixed_suite_digest():
        refused: list[submissions.RefusedRun] = []
        (accepted,) = submissions.read_submissions(
            tmp_path / "new", {"cpu": registry_backend()}, datetime.date.today(), refused
        )
    assert not refused and accepted[0].provenance.channel == "vendor-workflow"


def test_a_run_is_accepted_once(add_vendor_run_to_github, tmp_path):
    add_vendor_run_to_github()
    pull_messages(tmp_path)
    (tmp_path / "new").rename(tmp_path / "present")
    assert pull_messages(tmp_path) == []


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"signed": False}, "no attestation matches"),
        ({"head_sha": "d" * 40}, "no attestation matches"),
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
def test_unsigned_or_unexpected_runs_are_rejected(changes, says, add_vendor_run_to_github, tmp_path):
    add_vendor_run_to_github(**changes)
    (line,) = pull_messages(tmp_path)
    assert "is not taken" in line and says in line
    assert not list((tmp_path / "new").glob("*/*"))


def test_a_too_large_artifact_is_rejected(add_vendor_run_to_github, tmp_path, monkeypatch):
    add_vendor_run_to_github()
    monkeypatch.setattr(vendor_results, "LARGEST", 100)
    (line,) = pull_messages(tmp_path)
    assert "bytes; the maximum is 100" in line


def test_a_symbolic_link_in_an_artifact_is_rejected(add_vendor_run_to_github, tmp_path):
    folder = add_vendor_run_to_github()
    (folder / "results.json").unlink()
    (folder / "results.json").symlink_to("/etc/hostname")
    (line,) = pull_messages(tmp_path)
    assert "is not a plain file" in line


def test_an_artifact_that_is_larger_than_stated_is_rejected(add_vendor_run_to_github, tmp_path, monkeypatch):
    folder = add_vendor_run_to_github(content=" " * 2_000_000)
    monkeypatch.setattr(vendor_results, "LARGEST", 1_000_000)
    monkeypatch.setattr(
        vendor_results.github, "get_json", with_small_artifact_sizes(vendor_results.github.get_json)
    )
    (line,) = pull_messages(tmp_path)
    assert "more than 1000000 bytes" in line and folder.exists()


def with_small_artifact_sizes(get):
    """Return a replacement of ``get`` whose responses state a size of 3000 bytes for each artifact."""

    def answer(path, **fields):
        response = get(path, **fields)
        for listed_artifact in response.get("artifacts", ()):
            listed_artifact["size_in_bytes"] = 3000
        return response

    return answer


def test_runs_of_other_branches_do_not_hide_the_vendor_run(add_vendor_run_to_github, tmp_path):
    add_vendor_run_to_github(11)
    for number in range(20, 35):
        add_vendor_run_to_github(number, listed="feature", head_branch="feature")
    (line,) = pull_messages(tmp_path)
    assert "fetched and verified" in line


def test_an_artifact_that_is_not_a_zip_is_rejected(add_vendor_run_to_github, tmp_path, monkeypatch):
    add_vendor_run_to_github()
    monkeypatch.setattr(vendor_results.github, "download", lambda path, file: file.write_bytes(b"<html>"))
    (line,) = pull_messages(tmp_path)
    assert "cannot be read" in line


def test_one_bad_run_does_not_hide_a_good_one(add_vendor_run_to_github, tmp_path):
    add_vendor_run_to_github(11)
    add_vendor_run_to_github(12, signed=False, content='{"x": 1}')
    lines = pull_messages(tmp_path)
    assert len(lines) == 2 and len(list((tmp_path / "new" / "cpu").iterdir())) == 1


def test_an_expired_registry_entry_is_ignored(add_vendor_run_to_github, tmp_path):
    add_vendor_run_to_github()
    (line,) = pull_messages(tmp_path, expires=datetime.date(2026, 1, 9))
    assert "expired on 2026-01-09" in line
    assert not (tmp_path / "new").exists()


def test_a_backend_without_a_workflow_has_no_vendor_results(add_vendor_run_to_github, tmp_path):
    add_vendor_run_to_github()
    assert pull_messages(tmp_path, repository="", workflow="") == []
