"""Read and update the results branch, which contains append-only folders ``BACKEND/RUN`` and the site's
store.

This module runs only git.
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
#: The files of a run on the results branch. Only matrix runs have ``matrix.json``.
FILES = ("results.json", "provenance.json", "matrix.json")
#: The maximum number of runs that are fetched for each backend: the runs with the newest names. The branch
#: keeps all runs.
KEPT = 60
#: The folder of the site's store on the results branch. Its name begins with a dot, so it differs from the
#: folder of every backend.
STORE = ".store"
_TRIES = 5


def run_name(file: Path, started: str, run_id: str) -> str:
    """Return the folder name of a run: start, run id and content digest.

    Names sort by date. The same results file of the same run always gets the same name.
    """
    when = re.sub(r"\D", "", started)[:14]
    return f"{when}-{run_id or 'local'}-{hashlib.sha256(file.read_bytes()).hexdigest()[:12]}"


def provenance_of_this_workflow_run(
    channel: str, *, variables: Mapping[str, str] = os.environ
) -> dict[str, Any]:
    """Return the provenance record of this workflow run, from GitHub's environment variables.

    Outside a workflow the channel is ``self-reported``.
    """
    workflow = variables.get("GITHUB_WORKFLOW_REF", "").partition("@")[0]
    repository = variables.get("GITHUB_REPOSITORY", "")
    return {
        "channel": channel if repository and variables.get("GITHUB_RUN_ID") else "self-reported",
        "received": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "repository": repository,
        "workflow": workflow.removeprefix(f"{repository}/"),
        "commit": variables.get("GITHUB_SHA", ""),
        "run_id": variables.get("GITHUB_RUN_ID", ""),
    }


def write_run_entry(
    file: Path, backend: str, origin: Mapping[str, Any], folder: Path, table: Path | None = None
) -> Path:
    """Write a results file, its provenance and its table to ``folder/BACKEND/RUN``; return that folder.

    Raise UsageError if the file is not a valid results file, or the backend is not registered.
    """
    backends = registry.load()
    if backend not in backends:
        raise UsageError(f"the registry has no backend {backend!r}; known are {', '.join(sorted(backends))}")
    document = results.read_results(file, limit=LARGEST)
    started = min(leg["started"] for leg in document["legs"])
    target = folder / backend / run_name(file, started, str(origin.get("run_id", "")))
    if target.exists():
        raise UsageError(f"{target.name} exists already; published results are never changed")
    target.mkdir(parents=True)
    shutil.copyfile(file, target / "results.json")
    if table is not None:
        shutil.copyfile(table, target / "matrix.json")
    (target / "provenance.json").write_text(json.dumps(dict(origin), indent=1, sort_keys=True) + "\n")
    return target


def add_runs(repository: str, branch: str, source: Path, token: str = "") -> str:
    """Add all runs of ``source/BACKEND/RUN`` to the results branch in one commit, and return the commit hash.

    If the branch gets a different commit at the same time, the push is retried on top of that commit. The
    token is passed to git in an environment variable, not on the command line. Raise UsageError if the branch
    has one of the runs with different results, or if the push is rejected.
    """
    runs = sorted(path for path in source.glob("*/*") if path.is_dir())
    if not runs:
        raise UsageError(f"{source} contains no run; it must contain folders BACKEND/RUN")

    def add_runs_to_index(git: _Git) -> str:
        new = [run for run in runs if not _is_on_branch(git, run)]
        for run in new:
            path = f"{run.parent.name}/{run.name}"
            _copy_run(run, git.folder / path)
            git("add", "--", path)
        return f"{len(runs)} runs of {runs[0].parent.name}" if new else ""

    return _commit_and_push(repository, branch, token, add_runs_to_index)


def replace_site_store(repository: str, branch: str, source: Path, token: str = "") -> str:
    """Replace the site's store on the results branch, and return the commit hash.

    Raise UsageError if ``source`` is not a store, or the push is rejected.
    """
    stores.check_store_folder(source)
    if not (source / stores.MARK).is_file():
        raise UsageError(
            f"{source} is not a store; create one with 'conformance site RESULTS --store {source}'"
        )

    def replace_store_in_index(git: _Git) -> str:
        git("rm", "-r", "--quiet", "--cached", "--ignore-unmatch", "--", STORE)
        shutil.copytree(source, git.folder / STORE)
        git("add", "--force", "--", STORE)
        return "" if git.succeeds("diff", "--cached", "--quiet", "HEAD") else "The store of the site"

    return _commit_and_push(repository, branch, token, replace_store_in_index)


def _commit_and_push(repository: str, branch: str, token: str, change: Callable[[_Git], str]) -> str:
    """Commit a change on the newest commit of the branch, push it, and return the commit hash.

    ``change`` adds its files to the index and returns the commit message, or an empty text if there is
    nothing to commit. The push is retried if the branch has a new commit.
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
            ):  # read the tree into the index only, so that files of earlier runs are not checked out
                git("update-ref", f"refs/heads/{branch}", "FETCH_HEAD")
                git("read-tree", "FETCH_HEAD")
            git("symbolic-ref", "HEAD", f"refs/heads/{branch}")
            message = change(git)
            if not message:
                return git("rev-parse", "HEAD").strip()  # the branch already has all files
            git("commit", "--quiet", "-m", message)
            if git.succeeds("push", "--quiet", "origin", f"HEAD:refs/heads/{branch}"):
                return git("rev-parse", "HEAD").strip()
    raise UsageError(f"the push to branch {branch} was rejected {_TRIES} times: {git.errors[-300:]}")


def fetch_branch(
    repository: str, branch: str, folder: Path, token: str = "", *, with_store: bool = False
) -> bool:
    """Fetch the results branch into a folder. Return False if the branch does not exist.

    With ``with_store``, fetch the site's store, and only the runs that are not in the store. Raise UsageError
    if git cannot determine whether the branch exists, so that an error is not mistaken for a first run.
    """
    if not BRANCH.fullmatch(branch):
        raise UsageError(f"{branch!r} is not a name of a branch of results; use letters, digits and dashes")
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty; choose a folder that does not exist")
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
    """Fetch the branch, without file contents if the server supports that, and read its tree into the index.
    Return False if the branch does not exist.
    """
    if not git("ls-remote", "--heads", "origin", f"refs/heads/{branch}").strip():
        return False
    git("fetch", "--quiet", "--depth=1", "--filter=blob:none", "origin", branch)
    return True


def _is_on_branch(git: _Git, run: Path) -> bool:
    """Return True if the branch already has this run with equal results.

    Raise UsageError if the branch has this run with different results.
    """
    path = f"{run.parent.name}/{run.name}"
    listed = git("ls-files", "--stage", "--", f"{path}/results.json").split()
    if not listed:
        return False
    if git("hash-object", str((run / "results.json").absolute())).strip() != listed[1]:
        raise UsageError(f"{run.name} exists already with other content; published results are never changed")
    return True


def _copy_run(run: Path, target: Path) -> None:
    for file in sorted(run.iterdir()):
        if file.name not in FILES or file.is_symlink():
            raise UsageError(f"{run.name} contains {file.name}; the files of a run are {', '.join(FILES)}")
        target.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target / file.name)


class _Git:
    """Runs git in a folder. The author of commits is the suite and not the user."""

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

    def succeeds(self, *arguments: str) -> bool:
        return self._run(*arguments).returncode == 0

    def __call__(self, *arguments: str) -> str:
        done = self._run(*arguments)
        if done.returncode:
            raise UsageError(f"git {arguments[0]} failed: {done.stderr.strip()[-300:]}")
        return done.stdout
