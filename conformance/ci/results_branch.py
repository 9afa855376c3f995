"""The branch of results: folders ``BACKEND/RUN`` that are added and never changed, and the site's store.

It needs git only.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from conformance.errors import UsageError
from conformance.results import document as results
from conformance.site import registry
from conformance.site.store import store as stores
from conformance.site.submissions import LARGEST

BRANCH = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,60}")
#: The files of a run on the branch; the table is there if a matrix was run.
FILES = ("results.json", "provenance.json", "matrix.json")
#: Runs of a backend that are fetched, the newest by name; the others stay on the branch.
KEPT = 60
#: Folder of the site's store on the branch; hidden, so that it is no backend's.
STORE = ".store"
_TRIES = 5


def run_name(file: Path, started: str, run_id: str) -> str:
    """Name the folder of a run by time and content: names sort by date, and equal content has one name."""
    when = re.sub(r"\D", "", started)[:14]
    return f"{when}-{run_id or 'local'}-{hashlib.sha256(file.read_bytes()).hexdigest()[:12]}"


def own_provenance(channel: str, *, ours: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """Describe the publisher's own run by the variables that GitHub sets; outside of a workflow there are
    none, and the run is self-reported.
    """
    workflow = ours.get("GITHUB_WORKFLOW_REF", "").partition("@")[0]
    repository = ours.get("GITHUB_REPOSITORY", "")
    return {
        "channel": channel if repository and ours.get("GITHUB_RUN_ID") else "self-reported",
        "received": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "repository": repository,
        "workflow": workflow.removeprefix(f"{repository}/"),
        "commit": ours.get("GITHUB_SHA", ""),
        "run_id": ours.get("GITHUB_RUN_ID", ""),
    }


def write_run_entry(
    file: Path, backend: str, origin: Mapping[str, Any], folder: Path, table: Path | None = None
) -> Path:
    """Put a results file with its provenance, and the table of its cells, into ``folder/BACKEND/RUN``; return
    the new folder.

    UsageError if the file is not a valid results file, or the registry has no such backend.
    """
    backends = registry.load()
    if backend not in backends:
        raise UsageError(f"the registry has no backend {backend!r}; known are {', '.join(sorted(backends))}")
    document = results.read(file, limit=LARGEST)
    started = min(leg["started"] for leg in document["legs"])
    target = folder / backend / run_name(file, started, str(origin.get("run_id", "")))
    if target.exists():
        raise UsageError(f"{target.name} is there already; results are added, never changed")
    target.mkdir(parents=True)
    shutil.copyfile(file, target / "results.json")
    if table is not None:
        shutil.copyfile(table, target / "matrix.json")
    (target / "provenance.json").write_text(json.dumps(dict(origin), indent=1, sort_keys=True) + "\n")
    return target


def add_runs(repository: str, branch: str, source: Path, token: str = "") -> str:
    """Add all of ``source/BACKEND/RUN`` to the branch of a repository in one commit, and return its hash.

    If another publisher pushes in between, its commit is fetched and the push tried again. The token is
    passed in a variable of git, not on a command line. UsageError if a run is there already with other
    content, or the push is refused.
    """
    runs = sorted(path for path in source.glob("*/*") if path.is_dir())
    if not runs:
        raise UsageError(f"there is no run in {source}; it has to hold folders BACKEND/RUN")

    def change(git: _Git) -> str:
        new = [run for run in runs if not _is_on_branch(git, run)]
        for run in new:
            path = f"{run.parent.name}/{run.name}"
            _copy_run(run, git.folder / path)
            git("add", "--", path)
        return f"{len(runs)} runs of {runs[0].parent.name}" if new else ""

    return _commit_and_push(repository, branch, token, change)


def replace_site_store(repository: str, branch: str, source: Path, token: str = "") -> str:
    """Put the site's store in place of the one on the branch, and return the commit's hash.

    UsageError if ``source`` is no store, or the push is refused.
    """
    stores.check_folder(source)
    if not (source / stores.MARK).is_file():
        raise UsageError(f"{source} is no store; make one with 'conformance site RESULTS --store {source}'")

    def change(git: _Git) -> str:
        git("rm", "-r", "--quiet", "--cached", "--ignore-unmatch", "--", STORE)
        shutil.copytree(source, git.folder / STORE)
        git("add", "--force", "--", STORE)
        return "" if git.ok("diff", "--cached", "--quiet", "HEAD") else "The store of the site"

    return _commit_and_push(repository, branch, token, change)


def _commit_and_push(repository: str, branch: str, token: str, change: Callable[[_Git], str]) -> str:
    """Commit a change to the branch and push it, on top of whatever others push in between.

    ``change`` puts its files into the index and returns the commit's message; empty if there is nothing new.
    """
    if not BRANCH.fullmatch(branch):
        raise UsageError(f"{branch!r} is not a name of a branch of results; use letters, digits and dashes")
    for attempt in range(_TRIES):
        time.sleep(attempt)
        with tempfile.TemporaryDirectory() as scratch:
            git = _Git(Path(scratch), token)
            git("init", "--quiet")
            git("remote", "add", "origin", repository)
            if _fetch_into_index(
                git, branch
            ):  # into the index only: files of earlier runs are not checked out
                git("update-ref", f"refs/heads/{branch}", "FETCH_HEAD")
                git("read-tree", "FETCH_HEAD")
            git("symbolic-ref", "HEAD", f"refs/heads/{branch}")
            message = change(git)
            if not message:
                return git("rev-parse", "HEAD").strip()  # all of it is there
            git("commit", "--quiet", "-m", message)
            if git.ok("push", "--quiet", "origin", f"HEAD:refs/heads/{branch}"):
                return git("rev-parse", "HEAD").strip()
    raise UsageError(f"the push to branch {branch} was refused {_TRIES} times: {git.errors[-300:]}")


def fetch_branch(
    repository: str, branch: str, folder: Path, token: str = "", *, with_store: bool = False
) -> bool:
    """Fetch the branch of results into a folder; return False if the branch does not exist yet.

    ``with_store`` fetches the site's store, and only those runs that are not in it. UsageError if it cannot
    be found out whether there is a branch, so that no failure passes for a first run.
    """
    if not BRANCH.fullmatch(branch):
        raise UsageError(f"{branch!r} is not a name of a branch of results; use letters, digits and dashes")
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty; name a folder that does not exist yet")
    folder.mkdir(parents=True, exist_ok=True)
    git = _Git(folder, token)
    git("init", "--quiet")
    git("remote", "add", "origin", repository)
    if not _fetch_into_index(git, branch):
        return False
    runs: dict[str, list[str]] = {}
    folders = git("ls-tree", "-d", "-r", "--name-only", "FETCH_HEAD").splitlines()
    for path in folders:
        if path.count("/") == 1 and not path.startswith("."):
            runs.setdefault(path.partition("/")[0], []).append(path)
    newest = [path for paths in runs.values() for path in sorted(paths)[-KEPT:]]
    if with_store and STORE in folders:
        git("checkout", "--quiet", "FETCH_HEAD", "--", STORE)
        stored_runs = stores.Store.read(folder / STORE).stored_runs
        newest = [path for path in newest if path not in stored_runs]
    if newest:
        git("checkout", "--quiet", "FETCH_HEAD", "--", *newest)
    return True


def _fetch_into_index(git: _Git, branch: str) -> bool:
    """Fetch the branch, its files on demand if the server can; return False if there is no such branch."""
    if not git("ls-remote", "--heads", "origin", f"refs/heads/{branch}").strip():
        return False
    git("fetch", "--quiet", "--depth=1", "--filter=blob:none", "origin", branch)
    return True


def _is_on_branch(git: _Git, run: Path) -> bool:
    """Return True if the branch has a run already; a run that is stored again stays as it was first stored.

    UsageError if it is there with other results.
    """
    path = f"{run.parent.name}/{run.name}"
    listed = git("ls-files", "--stage", "--", f"{path}/results.json").split()
    if not listed:
        return False
    if git("hash-object", str((run / "results.json").absolute())).strip() != listed[1]:
        raise UsageError(f"{run.name} is there already with other content; results are never changed")
    return True


def _copy_run(run: Path, target: Path) -> None:
    for file in sorted(run.iterdir()):
        if file.name not in FILES or file.is_symlink():
            raise UsageError(f"{run.name} holds {file.name}; a run is {', '.join(FILES)}")
        target.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target / file.name)


class _Git:
    """git in a folder, with an author of its own instead of the user's."""

    def __init__(self, folder: Path, token: str) -> None:
        self.folder = folder
        self.errors = ""
        self.environment = {
            **os.environ,
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_CONFIG_NOSYSTEM": "1",
            **{f"GIT_{who}_NAME": "conformance" for who in ("AUTHOR", "COMMITTER")},
            **{f"GIT_{who}_EMAIL": "conformance@users.noreply.github.com" for who in ("AUTHOR", "COMMITTER")},
        }
        if token:
            credentials = base64.b64encode(f"x-access-token:{token}".encode()).decode()
            self.environment |= {
                "GIT_CONFIG_COUNT": "1",
                "GIT_CONFIG_KEY_0": "http.extraHeader",
                "GIT_CONFIG_VALUE_0": f"Authorization: Basic {credentials}",
            }

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            ["git", *arguments], cwd=self.folder, env=self.environment, capture_output=True, text=True
        )
        self.errors = done.stderr.strip() or self.errors
        return done

    def ok(self, *arguments: str) -> bool:
        return self._run(*arguments).returncode == 0

    def __call__(self, *arguments: str) -> str:
        done = self._run(*arguments)
        if done.returncode:
            raise UsageError(f"git {arguments[0]} failed: {done.stderr.strip()[-300:]}")
        return done.stdout
