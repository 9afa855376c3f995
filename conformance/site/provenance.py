"""Where a run comes from: what the publisher has written down of the channel, never what the run says."""

from __future__ import annotations

import dataclasses
import datetime
import json
import re
from pathlib import Path
from typing import Any

from conformance.errors import UsageError
from conformance.site.registry import Backend

#: Channels, the most trusted first, with the words for them.
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
    """The channel of a run, and the workflow run where there is one. ``received``: when it was got."""

    channel: str
    received: datetime.datetime
    repository: str = ""
    workflow: str = ""
    commit: str = ""
    run_id: str = ""

    @property
    def words(self) -> str:
        """The channel in words."""
        return CHANNELS[self.channel]

    @property
    def link(self) -> str | None:
        """The page of the workflow's run."""
        if not (self.repository and self.run_id):
            return None
        return f"https://github.com/{self.repository}/actions/runs/{self.run_id}"


def read(file: Path, backend: Backend, today: datetime.date, ours: str = "") -> Provenance:
    """What stands in ``provenance.json``; without one a run is self-reported, of the date of its file.

    UsageError where it is unreadable, or names a workflow that the registry does not have for the backend, or
    this project's channel with another repository than ``ours``.
    """
    if not file.exists():
        folder = file.parent / "results.json"
        when = datetime.datetime.fromtimestamp(folder.stat().st_mtime, datetime.timezone.utc)
        return Provenance("self-reported", when)
    if file.is_symlink() or file.stat().st_size > _LARGEST:
        raise UsageError(f"{file.name} is a link or larger than {_LARGEST} bytes")
    try:
        data: Any = json.loads(file.read_text())
        received = datetime.datetime.fromisoformat(data.pop("received"))
        found = Provenance(received=received, **data)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise UsageError(
            f"{file.name} is no provenance ({type(error).__name__}: {str(error)[:200]})"
        ) from None
    if not isinstance(found.channel, str) or found.channel not in CHANNELS:
        raise UsageError(
            f"{file.name} names channel {str(found.channel)[:40]!r}; known are {', '.join(CHANNELS)}"
        )
    if received.tzinfo is None:
        raise UsageError(f"{file.name} has a time without a zone")
    for value, pattern in ((found.repository, _REPOSITORY), (found.commit, _COMMIT), (found.run_id, _NUMBER)):
        if not isinstance(value, str) or (value and not pattern.fullmatch(value)):
            raise UsageError(f"{file.name} holds {str(value)[:60]!r}, which is no repository, commit or run")
    if received.date() > today + datetime.timedelta(days=1):
        raise UsageError(f"{file.name} says that it was received on {received.date()}, which is yet to come")
    if found.channel == "our-workflow" and (not ours or found.repository != ours):
        raise UsageError(
            f"it says that it ran in this project's workflow, whose repository is {ours or 'not given'}"
        )
    if found.channel == "vendor-workflow":
        _check_vendor(found, backend, today)
    return found


def _check_vendor(found: Provenance, backend: Backend, today: datetime.date) -> None:
    if not backend.repository or found.repository != backend.repository or found.workflow != backend.workflow:
        raise UsageError(
            f"it says that {found.repository} {found.workflow} has attested it, which is not the workflow "
            f"that the registry has for {backend.id}"
        )
    if backend.expires is not None and backend.expires < today:
        raise UsageError(f"the registration of {backend.id} ended on {backend.expires}")
