"""Fetch and verify the results of vendors' workflows, which the registry lists.

This project's own workflow runs this module on a schedule; a vendor's run cannot start it. The module makes
the provenance record from data of GitHub and the registry, never from a file of the vendor.
"""

from __future__ import annotations

import datetime
import stat
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from conformance.ci import github, results_branch
from conformance.errors import UsageError
from conformance.site.registry import Backend
from conformance.site.submissions import LARGEST

#: The name of the artifact that a vendor's workflow uploads, as in the template.
ARTIFACT = "conformance-results"
#: The events whose runs use code of the vendor's own branches.
EVENTS = ("schedule", "push", "workflow_dispatch", "repository_dispatch", "release")
#: The maximum number of considered runs of a workflow.
_RUNS = 10


def pull_new_runs(backend: Backend, into: Path, present: Path, today: datetime.date) -> Iterator[str]:
    """Fetch the newest runs of a backend's workflow into ``into/BACKEND/RUN``, and yield a message for each.

    Runs that ``present`` already contains are skipped. A run that cannot be verified is rejected.
    """
    if not (backend.repository and backend.workflow):
        return
    if backend.expires is not None and backend.expires < today:
        yield f"{backend.id}: its entry expired on {backend.expires}; renew it by a pull request"
        return
    name = backend.workflow.rpartition("/")[2]
    branch = str(github.get_json(f"repos/{backend.repository}")["default_branch"])
    listed = github.get_json(
        f"repos/{backend.repository}/actions/workflows/{name}/runs",
        status="completed",
        branch=branch,
        per_page=str(_RUNS),
    )
    for run in listed["workflow_runs"]:
        number = str(int(run["id"]))
        if any(path.name.split("-")[1:2] == [number] for path in (present / backend.id).glob("*")):
            continue
        why = _reason_not_vendor_run(run, backend, branch)
        if why:
            yield f"{backend.id}: run {number} is not taken, because {why}"
            continue
        try:
            target = _fetch_run(backend, run, branch, into)
        except UsageError as error:
            yield f"{backend.id}: run {number} is not taken: {str(error)[:300]}"
            continue
        yield f"{backend.id}: {target.name} fetched and verified"


def _reason_not_vendor_run(run: Any, backend: Backend, branch: str) -> str:
    """Return the reason why a workflow run is not a run of the vendor's own code, or an empty text."""
    if run.get("path", "").partition("@")[0] != backend.workflow:
        return f"it is of workflow {str(run.get('path'))[:100]}"
    if (run.get("head_repository") or {}).get("full_name") != backend.repository:
        return "its commit is another repository's"
    if run.get("head_branch") != branch:
        return f"its branch is {str(run.get('head_branch'))[:60]}, not {branch}"
    if run.get("event") not in EVENTS:
        return f"its event is {str(run.get('event'))[:40]}"
    return ""


def _fetch_run(backend: Backend, run: Any, branch: str, into: Path) -> Path:
    number = str(int(run["id"]))
    listed = github.get_json(f"repos/{backend.repository}/actions/runs/{number}/artifacts", per_page="100")
    artifacts = [entry for entry in listed["artifacts"] if entry["name"] == ARTIFACT]
    if not artifacts:
        raise UsageError(f"the run has no artifact {ARTIFACT}")
    size = int(artifacts[-1]["size_in_bytes"])
    if size > LARGEST:
        raise UsageError(f"artifact {ARTIFACT} has {size} bytes; the maximum is {LARGEST}")
    with tempfile.TemporaryDirectory() as scratch:
        archive, file = Path(scratch) / "artifact.zip", Path(scratch) / "results.json"
        github.download(
            f"repos/{backend.repository}/actions/artifacts/{int(artifacts[-1]['id'])}/zip", archive
        )
        _extract_results(archive, file)
        github.gh(
            *("attestation", "verify", str(file), "--repo", backend.repository),
            *("--signer-workflow", f"{backend.repository}/{backend.workflow}"),
            *("--source-ref", f"refs/heads/{branch}", "--source-digest", str(run["head_sha"])),
        )
        origin = {
            "channel": "vendor-workflow",
            "received": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "repository": backend.repository,
            "workflow": backend.workflow,
            "commit": str(run["head_sha"]),
            "run_id": number,
        }
        return results_branch.write_run_entry(file, backend.id, origin, into)


def _extract_results(archive: Path, file: Path) -> None:
    """Extract the results file of an artifact. Raise UsageError if it is missing, invalid or too large."""
    try:
        with zipfile.ZipFile(archive) as contents:
            member = contents.getinfo("results.json")
            mode = member.external_attr >> 16
            if mode and not stat.S_ISREG(mode) and stat.S_IFMT(mode):
                raise UsageError(f"results.json of artifact {ARTIFACT} is not a plain file")
            with contents.open(member) as source:
                content = source.read(LARGEST + 1)
    except KeyError:
        raise UsageError(f"artifact {ARTIFACT} has no results.json") from None
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError) as error:
        raise UsageError(f"artifact {ARTIFACT} cannot be read ({error})") from None
    if len(content) > LARGEST:
        raise UsageError(f"results.json of artifact {ARTIFACT} has more than {LARGEST} bytes, the maximum")
    file.write_bytes(content)
