"""Results of vendors: fetched by the publisher from the workflow that the registry names, and verified there.

No vendor's run starts anything here, and no file says of itself where it comes from.
"""

from __future__ import annotations

import datetime
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from conformance.ci import github, store
from conformance.errors import UsageError
from conformance.site.registry import Backend
from conformance.site.submissions import LARGEST

#: Name of the artifact that a vendor's workflow leaves, as the template has it.
ARTIFACT = "conformance-results"
#: Events whose runs come from the vendor's own branches.
EVENTS = ("schedule", "push", "workflow_dispatch", "repository_dispatch", "release")
#: Runs of a workflow that are looked at.
_RUNS = 10


def pull(backend: Backend, into: Path, present: Path, today: datetime.date) -> Iterator[str]:
    """Fetch the newest runs of a backend's workflow into ``into/BACKEND/RUN``; a sentence about each.

    What lies in ``present`` already is left alone. A run that cannot be verified is not taken.
    """
    if not (backend.repository and backend.workflow):
        return
    if backend.expires is not None and backend.expires < today:
        yield f"{backend.id}: its entry expired on {backend.expires}; renew it by a pull request"
        return
    name = backend.workflow.rpartition("/")[2]
    listed = github.get(
        f"repos/{backend.repository}/actions/workflows/{name}/runs", status="completed", per_page=str(_RUNS)
    )
    for run in listed["workflow_runs"]:
        number = str(int(run["id"]))
        if any(path.name.split("-")[1:2] == [number] for path in (present / backend.id).glob("*")):
            continue
        why = _foreign(run, backend)
        if why:
            yield f"{backend.id}: run {number} is not taken, since {why}"
            continue
        try:
            target = _fetch(backend, run, into)
        except UsageError as error:
            yield f"{backend.id}: run {number} is not taken: {str(error)[:300]}"
            continue
        yield f"{backend.id}: {target.name} fetched and verified"


def _foreign(run: Any, backend: Backend) -> str:
    """Why a run is not the vendor's own, or the empty string."""
    if run.get("path", "").partition("@")[0] != backend.workflow:
        return f"it is of workflow {str(run.get('path'))[:100]}"
    if (run.get("head_repository") or {}).get("full_name") != backend.repository:
        return "its commit is another repository's"
    if run.get("event") not in EVENTS:
        return f"its event is {str(run.get('event'))[:40]}"
    return ""


def _fetch(backend: Backend, run: Any, into: Path) -> Path:
    number = str(int(run["id"]))
    listed = github.get(f"repos/{backend.repository}/actions/runs/{number}/artifacts", per_page="100")
    sizes = [int(one["size_in_bytes"]) for one in listed["artifacts"] if one["name"] == ARTIFACT]
    if not sizes:
        raise UsageError(f"it has no artifact {ARTIFACT}")
    if max(sizes) > LARGEST:
        raise UsageError(f"its artifact has {max(sizes)} bytes; at most {LARGEST} are taken")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        command = ["run", "download", number, "--repo", backend.repository, "--name", ARTIFACT]
        github.gh(*command, "--dir", scratch)
        file = folder / "results.json"
        if file.is_symlink() or not file.is_file():
            raise UsageError(f"artifact {ARTIFACT} has no results.json")
        github.gh(
            *("attestation", "verify", str(file), "--repo", backend.repository),
            *("--signer-workflow", f"{backend.repository}/{backend.workflow}"),
            *("--source-digest", str(run["head_sha"])),
        )
        origin = {
            "channel": "vendor-workflow",
            "received": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "repository": backend.repository,
            "workflow": backend.workflow,
            "commit": str(run["head_sha"]),
            "run_id": number,
        }
        kept = folder / "kept.json"
        shutil.move(file, kept)
        return store.entry(kept, backend.id, origin, into)
