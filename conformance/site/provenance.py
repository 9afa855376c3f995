"""The origin of a run: the publisher's record of the channel, never a claim of the run itself."""

from __future__ import annotations

import dataclasses
import datetime
import json
import re
from pathlib import Path
from typing import Any

from conformance.errors import UsageError
from conformance.site.registry import Backend

#: Channels with their descriptions, the most trusted first.
CHANNELS = {
    "our-workflow": "ran in this project's workflow",
    "vendor-workflow": "attested by the vendor's workflow",
    "self-reported": "self-reported",
}
_REPOSITORY = re.compile(r"[A-Za-z0-9_.-]{1,100}/[A-Za-z0-9_.-]{1,100}")
_COMMIT = re.compile(r"[0-9a-f]{40}|")
_NUMBER = re.compile(r"[0-9]{0,20}")
_LARGEST = 64 << 10


@dataclasses.dataclass(frozen=True)
class Provenance:
    """The channel of a run, the workflow run if there is one, and the time at which it was ``received``."""

    channel: str
    received: datetime.datetime
    repository: str = ""
    workflow: str = ""
    commit: str = ""
    run_id: str = ""

    @property
    def words(self) -> str:
        """The description of the channel."""
        return CHANNELS[self.channel]

    @property
    def link(self) -> str | None:
        """The page of the workflow's run, or None."""
        if not (self.repository and self.run_id):
            return None
        return f"https://github.com/{self.repository}/actions/runs/{self.run_id}"


def read_provenance(file: Path, backend: Backend, today: datetime.date, ours: str = "") -> Provenance:
    """Read ``provenance.json``; without one a run is self-reported, and its date is that of its file.

    UsageError if it is unreadable, names a workflow that the registry does not have for the backend, or names
    this project's channel with another repository than ``ours``.
    """
    if not file.exists():
        results = file.parent / "results.json"
        when = datetime.datetime.fromtimestamp(results.stat().st_mtime, datetime.timezone.utc)
        return Provenance("self-reported", when)
    if file.is_symlink() or file.stat().st_size > _LARGEST:
        raise UsageError(f"{file.name} is a link or larger than {_LARGEST} bytes")
    try:
        data: Any = json.loads(file.read_text())
        received = datetime.datetime.fromisoformat(data.pop("received"))
        provenance = Provenance(received=received, **data)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise UsageError(
            f"{file.name} is not a provenance record ({type(error).__name__}: {str(error)[:200]})"
        ) from None
    if not isinstance(provenance.channel, str) or provenance.channel not in CHANNELS:
        raise UsageError(
            f"{file.name} names channel {str(provenance.channel)[:40]!r}; known are {', '.join(CHANNELS)}"
        )
    if received.tzinfo is None:
        raise UsageError(f"{file.name} has a time without a zone")
    for value, pattern in (
        (provenance.repository, _REPOSITORY),
        (provenance.commit, _COMMIT),
        (provenance.run_id, _NUMBER),
    ):
        if not isinstance(value, str) or (value and not pattern.fullmatch(value)):
            raise UsageError(
                f"{file.name} holds {str(value)[:60]!r}, which is not a repository, a commit or a run"
            )
    if received.date() > today + datetime.timedelta(days=1):
        raise UsageError(f"{file.name} says that it was received on {received.date()}, which is yet to come")
    if provenance.channel == "our-workflow" and (not ours or provenance.repository != ours):
        raise UsageError(
            f"it says that it ran in this project's workflow, whose repository is {ours or 'not given'}"
        )
    if provenance.channel == "vendor-workflow":
        _check_vendor(provenance, backend, today)
    return provenance


def _check_vendor(provenance: Provenance, backend: Backend, today: datetime.date) -> None:
    if (
        not backend.repository
        or provenance.repository != backend.repository
        or provenance.workflow != backend.workflow
    ):
        raise UsageError(
            f"it says that {provenance.repository} {provenance.workflow} has attested it, which is not the "
            f"workflow that the registry has for {backend.id}"
        )
    if backend.expires is not None and backend.expires < today:
        raise UsageError(f"the registration of {backend.id} ended on {backend.expires}")
