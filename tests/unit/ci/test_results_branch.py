"""``ci.results_branch`` only adds runs to the results branch, even if several writers push at
the same time.
"""

from __future__ import annotations

import json
import subprocess

import pytest

from conformance import cli
from conformance.ci import results_branch
from conformance.errors import UsageError
from conformance.results import document
from tests.support.sample_passing_leg import fixed_suite_digest, leg


def git_output(folder, *arguments):
    done = subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout


@pytest.fixture
def remote_repository(tmp_path):
    folder = tmp_path / "remote.git"
    folder.mkdir()
    git_output(folder, "init", "--quiet", "--bare")
    return folder


def write_run(tmp_path, name="20260109", text="{}", folder_name="source"):
    folder = tmp_path / folder_name / "cpu" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(text)
    (folder / "provenance.json").write_text("{}")
    return tmp_path / folder_name


def file_names_in_branch(remote_repository):
    return git_output(remote_repository, "ls-tree", "-r", "--name-only", "results").split()


def test_runs_are_added(tmp_path, remote_repository):
    first = results_branch.add_runs(
        str(remote_repository), "results", write_run(tmp_path, "1", folder_name="a")
    )
    second = results_branch.add_runs(
        str(remote_repository), "results", write_run(tmp_path, "2", folder_name="b")
    )
    assert first != second
    assert file_names_in_branch(remote_repository) == [
        f"cpu/{n}/{file_name}.json" for n in "12" for file_name in ("provenance", "results")
    ]
    assert git_output(remote_repository, "rev-list", "--count", "results").strip() == "2"
    assert (
        results_branch.add_runs(str(remote_repository), "results", write_run(tmp_path, "2", folder_name="b"))
        == second
    )  # adding the same run again makes no commit


def test_a_run_is_never_changed(tmp_path, remote_repository):
    results_branch.add_runs(str(remote_repository), "results", write_run(tmp_path, "1", folder_name="a"))
    with pytest.raises(UsageError, match="never changed"):
        results_branch.add_runs(
            str(remote_repository), "results", write_run(tmp_path, "1", "{ }", folder_name="b")
        )


def test_a_concurrent_push_is_retried(tmp_path, remote_repository, monkeypatch):
    results_branch.add_runs(str(remote_repository), "results", write_run(tmp_path, "1", folder_name="a"))
    original, done = results_branch._Git.succeeds, []

    def ok(self, *arguments):
        if arguments[0] == "push" and not done:
            done.append(1)
            results_branch.add_runs(
                str(remote_repository), "results", write_run(tmp_path, "2", folder_name="b")
            )
        return original(self, *arguments)

    monkeypatch.setattr(results_branch._Git, "succeeds", ok)
    results_branch.add_runs(str(remote_repository), "results", write_run(tmp_path, "3", folder_name="c"))
    assert [name for name in file_names_in_branch(remote_repository) if name.endswith("results.json")] == [
        f"cpu/{n}/results.json" for n in "123"
    ]


def test_a_rejected_push_is_an_error(tmp_path, remote_repository, monkeypatch):
    (remote_repository / "hooks").mkdir(exist_ok=True)
    hook = remote_repository / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    monkeypatch.setattr(results_branch.time, "sleep", lambda seconds: None)
    with pytest.raises(UsageError, match="rejected 5 times"):
        results_branch.add_runs(str(remote_repository), "results", write_run(tmp_path))


def test_a_run_that_is_added_twice_is_stored_once(tmp_path, remote_repository):
    first = write_run(tmp_path, "1", folder_name="a")
    commit = results_branch.add_runs(str(remote_repository), "results", first)
    (first / "cpu" / "1" / "provenance.json").write_text('{"received": "later"}')
    assert results_branch.add_runs(str(remote_repository), "results", first) == commit


def test_fetching_a_branch_that_may_not_exist_yet(tmp_path, remote_repository):
    assert results_branch.fetch_branch(str(remote_repository), "results", tmp_path / "none") is False
    assert [path.name for path in (tmp_path / "none").iterdir()] == [".git"]
    results_branch.add_runs(str(remote_repository), "results", write_run(tmp_path, "1", folder_name="a"))
    assert results_branch.fetch_branch(str(remote_repository), "results", tmp_path / "there") is True
    assert (tmp_path / "there" / "cpu" / "1" / "results.json").exists()
    with pytest.raises(UsageError, match="not empty"):
        results_branch.fetch_branch(str(remote_repository), "results", tmp_path / "there")


def test_only_the_newest_runs_are_fetched(tmp_path, remote_repository, monkeypatch):
    for number in range(5):
        results_branch.add_runs(
            str(remote_repository),
            "results",
            write_run(tmp_path, f"2026010{number}", folder_name=str(number)),
        )
    monkeypatch.setattr(results_branch, "KEPT", 2)
    results_branch.fetch_branch(str(remote_repository), "results", tmp_path / "there")
    assert sorted(path.name for path in (tmp_path / "there" / "cpu").iterdir()) == ["20260103", "20260104"]
    results_branch.add_runs(
        str(remote_repository), "results", write_run(tmp_path, "20260109", folder_name="new")
    )
    assert len(file_names_in_branch(remote_repository)) == 12


def test_a_failed_fetch_is_not_a_missing_branch(tmp_path):
    with pytest.raises(UsageError, match="git ls-remote failed"):
        results_branch.fetch_branch(str(tmp_path / "nowhere"), "results", tmp_path / "out")


def test_outside_a_workflow_the_provenance_is_self_reported():
    assert (
        results_branch.provenance_of_this_workflow_run("our-workflow", variables={})["channel"]
        == "self-reported"
    )


@pytest.mark.parametrize("branch", ["main;x", "--force", "a b", "../x", ""])
def test_invalid_branch_names_are_usage_errors(branch, tmp_path, remote_repository):
    with pytest.raises(UsageError, match="not a name of a branch"):
        results_branch.add_runs(str(remote_repository), branch, write_run(tmp_path))


def test_other_files_and_links_are_not_added(tmp_path, remote_repository):
    source = write_run(tmp_path)
    (source / "cpu" / "20260109" / "page.html").touch()
    with pytest.raises(UsageError, match=r"page\.html"):
        results_branch.add_runs(str(remote_repository), "results", source)
    (source / "cpu" / "20260109" / "page.html").unlink()
    (source / "cpu" / "20260109" / "matrix.json").symlink_to("/etc/hostname")
    with pytest.raises(UsageError, match=r"matrix\.json"):
        results_branch.add_runs(str(remote_repository), "results", source)


def test_the_token_is_not_on_a_command_line(tmp_path):
    repository = results_branch._Git(tmp_path, "secret-token")
    assert "secret-token" not in str(repository.environment)
    assert repository.environment["GIT_CONFIG_KEY_0"] == "http.extraHeader"


def test_the_command_that_adds_a_run(
    tmp_path, remote_repository, fake_github_folder, step_outputs_file, monkeypatch
):
    monkeypatch.setenv("GITHUB_WORKFLOW_REF", "owner/name/.github/workflows/nightly.yml@refs/heads/main")
    monkeypatch.setenv("GITHUB_SHA", "b" * 40)
    with fixed_suite_digest():
        bringup_leg = leg("bringup")
        (tmp_path / "out").mkdir()
        document.write_results(tmp_path / "out" / "results.json", document.results_document([bringup_leg]))
        command = ["ci", "store", str(tmp_path / "out"), "--repository", str(remote_repository)]
        assert cli.main([*command, "--backend", "nobody"]) == 2
        assert cli.main([*command, "--backend", "cpu"]) == 0
    (provenance_name,) = [
        name for name in file_names_in_branch(remote_repository) if name.endswith("provenance.json")
    ]
    origin = json.loads(git_output(remote_repository, "show", f"results:{provenance_name}"))
    assert origin["channel"] == "our-workflow" and origin["run_id"] == "7"
    assert origin["workflow"] == ".github/workflows/nightly.yml" and origin["commit"] == "b" * 40
    assert provenance_name.split("/")[1].split("-")[1] == "7"


def write_site_store(folder, *runs):
    """Write a site store that contains these runs, and return its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "schedules.jsonl").write_text("")
    head = {"schema": 1, "seen": [f"cpu/{name}" for name in runs], "refused": []}
    (folder / "store.json").write_text(json.dumps(head))
    return folder


def test_the_site_store_is_stored_next_to_the_runs_and_replaced(tmp_path, remote_repository):
    results_branch.add_runs(str(remote_repository), "results", write_run(tmp_path, "1", folder_name="a"))
    first = results_branch.replace_site_store(
        str(remote_repository), "results", write_site_store(tmp_path / "s", "1")
    )
    assert results_branch.replace_site_store(str(remote_repository), "results", tmp_path / "s") == first, (
        "no new commit"
    )
    (tmp_path / "s" / "cpu").mkdir()
    (tmp_path / "s" / "cpu" / "eager@x.jsonl").write_text("{}\n")
    results_branch.replace_site_store(str(remote_repository), "results", tmp_path / "s")
    assert ".store/cpu/eager@x.jsonl" in file_names_in_branch(
        remote_repository
    ) and "cpu/1/results.json" in file_names_in_branch(remote_repository)
    (tmp_path / "s" / "cpu" / "eager@x.jsonl").unlink()
    results_branch.replace_site_store(str(remote_repository), "results", tmp_path / "s")
    assert ".store/cpu/eager@x.jsonl" not in file_names_in_branch(remote_repository)


def test_runs_that_the_site_store_contains_are_not_fetched(tmp_path, remote_repository):
    for name in "123":
        results_branch.add_runs(
            str(remote_repository), "results", write_run(tmp_path, name, folder_name=name)
        )
    results_branch.replace_site_store(
        str(remote_repository), "results", write_site_store(tmp_path / "s", "1", "2")
    )
    assert results_branch.fetch_branch(str(remote_repository), "results", tmp_path / "with", with_store=True)
    fetched = {path.name for path in (tmp_path / "with").glob("cpu/*")}
    assert fetched == {"3"} and (tmp_path / "with" / ".store" / "store.json").is_file()
    assert results_branch.fetch_branch(str(remote_repository), "results", tmp_path / "without")
    assert sorted(path.name for path in (tmp_path / "without").glob("[a-z]*/*")) == ["1", "2", "3"]
    assert not (tmp_path / "without" / ".store").exists()


def test_a_folder_without_a_site_store_is_rejected(tmp_path, remote_repository):
    for source_folder in (write_run(tmp_path), tmp_path / "nothing"):
        with pytest.raises(UsageError):
            results_branch.replace_site_store(str(remote_repository), "results", source_folder)


def test_the_steps_of_the_workflow_one_after_the_other(tmp_path, remote_repository, monkeypatch):
    from tests.support.sample_site_runs import TODAY, site_leg

    monkeypatch.chdir(tmp_path)
    branch = ["--repository", str(remote_repository), "--branch", "results"]
    for night in range(2):
        run_folder = tmp_path / f"night-{night}" / "cpu" / f"2026010{night + 1}"
        run_folder.mkdir(parents=True)
        night_leg = site_leg(started=f"2026-01-0{night + 1}T00:00:00+00:00")
        document.write_results(run_folder / "results.json", document.results_document([night_leg]))
        (run_folder / "provenance.json").write_text(
            json.dumps({"channel": "self-reported", "received": "2026-01-09T00:00:00+00:00"})
        )
        results_branch.add_runs(str(remote_repository), "results", run_folder.parents[1])
        assert cli.main(["ci", "fetch", "--store", *branch, "-o", f"stored-{night}"]) == 0
        assert (
            cli.main(["site", f"stored-{night}", "--store", f"stored-{night}/.store", "--today", TODAY]) == 0
        )
        assert cli.main(["ci", "keep", f"stored-{night}/.store", *branch]) == 0
    assert cli.main(["ci", "fetch", "--store", *branch, "-o", "last"]) == 0
    assert [path.name for path in (tmp_path / "last").iterdir() if path.name != ".git"] == [".store"]
    assert cli.main(["site", "last", "--store", "last/.store", "-o", "site", "--today", TODAY]) == 0
    data = json.loads((tmp_path / "site" / "data.json").read_text())
    (cell,) = next(
        backend_entry["cells"] for backend_entry in data["backends"] if backend_entry["id"] == "cpu"
    )
    assert [backend_entry["run"] for backend_entry in cell["runs"]] == ["20260102", "20260101"]
