"""The branch of results: folders ``BACKEND/RUN`` that are added and never changed. It needs git only."""

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
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from conformance.errors import UsageError
from conformance.results import document as results
from conformance.site import registry
from conformance.site.submissions import LARGEST

BRANCH = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,60}")
#: The files of a run on the branch; the table is there if a matrix was run.
FILES = ("results.json", "provenance.json", "matrix.json")
#: Runs of a backend that are fetched, the newest by name; the others stay on the branch.
KEPT = 60
_TRIES = 5


def run_name(file: Path, started: str, run_id: str) -> str:
    """Name the folder of a run by time and content: names sort by date, and equal content has one name."""
    when = re.sub(r"\D", "", started)[:14]
    return f"{when}-{run_id or 'local'}-{hashlib.sha256(file.read_bytes()).hexdigest()[:12]}"


def provenance(channel: str, *, ours: Mapping[str, str] = os.environ) -> dict[str, Any]:
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


def entry(
    file: Path, backend: str, origin: Mapping[str, Any], folder: Path, table: Path | None = None
) -> Path:
    """Put a results file with its provenance, and the table of its cells, into ``folder/BACKEND/RUN``; return
    the new folder.

    UsageError if the file is not a valid results file, or the registry has no such backend.
    """
    known = registry.load()
    if backend not in known:
        raise UsageError(f"the registry has no backend {backend!r}; known are {', '.join(sorted(known))}")
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


def add(repository: str, branch: str, source: Path, token: str = "") -> str:
    """Add all of ``source/BACKEND/RUN`` to the branch of a repository in one commit, and return its hash.

    If another publisher pushes in between, its commit is fetched and the push tried again. The token is
    passed in a variable of git, not on a command line. UsageError if a run is there already with other
    content, or the push is refused.
    """
    if not BRANCH.fullmatch(branch):
        raise UsageError(f"{branch!r} is not a name of a branch of results; use letters, digits and dashes")
    runs = sorted(path for path in source.glob("*/*") if path.is_dir())
    if not runs:
        raise UsageError(f"there is no run in {source}; it has to hold folders BACKEND/RUN")
    for attempt in range(_TRIES):
        time.sleep(attempt)
        with tempfile.TemporaryDirectory() as scratch:
            tree = Path(scratch)
            git = _Git(tree, token)
            git("init", "--quiet")
            git("remote", "add", "origin", repository)
            if _fetched(git, branch):  # into the index only: files of earlier runs are not checked out
                git("update-ref", f"refs/heads/{branch}", "FETCH_HEAD")
                git("read-tree", "FETCH_HEAD")
            git("symbolic-ref", "HEAD", f"refs/heads/{branch}")
            new = [run for run in runs if not _there(git, run)]
            for run in new:
                place = f"{run.parent.name}/{run.name}"
                _copy(run, tree / place)
                git("add", "--", place)
            if not new:
                return git("rev-parse", "HEAD").strip()  # all runs are there
            git("commit", "--quiet", "-m", f"{len(runs)} runs of {runs[0].parent.name}")
            if git.ok("push", "--quiet", "origin", f"HEAD:refs/heads/{branch}"):
                return git("rev-parse", "HEAD").strip()
    raise UsageError(f"the push to branch {branch} was refused {_TRIES} times: {git.errors[-300:]}")


def fetch(repository: str, branch: str, folder: Path, token: str = "") -> bool:
    """Fetch the branch of results into a folder; return False if the branch does not exist yet.

    UsageError if that cannot be found out, so that no failure passes for a first run.
    """
    if not BRANCH.fullmatch(branch):
        raise UsageError(f"{branch!r} is not a name of a branch of results; use letters, digits and dashes")
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty; name a folder that does not exist yet")
    folder.mkdir(parents=True, exist_ok=True)
    git = _Git(folder, token)
    git("init", "--quiet")
    git("remote", "add", "origin", repository)
    if not _fetched(git, branch):
        return False
    runs: dict[str, list[str]] = {}
    for path in git("ls-tree", "-d", "-r", "--name-only", "FETCH_HEAD").splitlines():
        if path.count("/") == 1:
            runs.setdefault(path.partition("/")[0], []).append(path)
    newest = [path for paths in runs.values() for path in sorted(paths)[-KEPT:]]
    if newest:
        git("checkout", "--quiet", "FETCH_HEAD", "--", *newest)
    return True


def _fetched(git: _Git, branch: str) -> bool:
    """Fetch the branch, its files on demand if the server can; return False if there is no such branch."""
    if not git("ls-remote", "--heads", "origin", f"refs/heads/{branch}").strip():
        return False
    git("fetch", "--quiet", "--depth=1", "--filter=blob:none", "origin", branch)
    return True


def _there(git: _Git, run: Path) -> bool:
    """Return True if the branch has a run already; a run that is stored again stays as it was first stored.

    UsageError if it is there with other results.
    """
    place = f"{run.parent.name}/{run.name}"
    listed = git("ls-files", "--stage", "--", f"{place}/results.json").split()
    if not listed:
        return False
    if git("hash-object", str((run / "results.json").absolute())).strip() != listed[1]:
        raise UsageError(f"{run.name} is there already with other content; results are never changed")
    return True


def _copy(run: Path, target: Path) -> None:
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
            words = base64.b64encode(f"x-access-token:{token}".encode()).decode()
            self.environment |= {
                "GIT_CONFIG_COUNT": "1",
                "GIT_CONFIG_KEY_0": "http.extraHeader",
                "GIT_CONFIG_VALUE_0": f"Authorization: Basic {words}",
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
