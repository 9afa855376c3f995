"""Read the provenance of a run from the publisher's record. A run cannot claim its own provenance."""

from __future__ import annotations

import dataclasses
import datetime
import json
import re
from pathlib import Path
from typing import Any

from conformance.errors import UsageError
from conformance.site.registry import Backend

#: The channels with their descriptions, the most trusted first.
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
    """The channel of a run, the time at which the publisher received it, and its workflow run, if any."""

    channel: str
    received: datetime.datetime
    repository: str = ""
    workflow: str = ""
    commit: str = ""
    run_id: str = ""

    @property
    def channel_description(self) -> str:
        """The description of the channel."""
        return CHANNELS[self.channel]

    @property
    def link(self) -> str | None:
        """The address of the workflow run on GitHub, or None."""
        if not (self.repository and self.run_id):
            return None
        return f"https://github.com/{self.repository}/actions/runs/{self.run_id}"


def read_provenance(
    file: Path, backend: Backend, today: datetime.date, own_repository: str = ""
) -> Provenance:
    """Read ``provenance.json``.

    A run without this file is self-reported, and its time is the modification time of its results file.

    Raise UsageError if the file is invalid, or if it claims a channel that it may not use:
    ``vendor-workflow`` for a workflow that is not the registered one, or ``our-workflow`` for a repository
    that is not ``own_repository``.
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
            f"{file.name} has channel {str(provenance.channel)[:40]!r}; use one of {', '.join(CHANNELS)}"
        )
    if received.tzinfo is None:
        raise UsageError(f"{file.name} has a time without a time zone")
    for value, pattern in (
        (provenance.repository, _REPOSITORY),
        (provenance.commit, _COMMIT),
        (provenance.run_id, _NUMBER),
    ):
        if not isinstance(value, str) or (value and not pattern.fullmatch(value)):
            raise UsageError(
                f"{file.name} contains {str(value)[:60]!r}, which is not a repository, a commit or a run id"
            )
    if received.date() > today + datetime.timedelta(days=1):
        raise UsageError(f"{file.name} has the time of receipt {received.date()}, which is in the future")
    if provenance.channel == "our-workflow" and (
        not own_repository or provenance.repository != own_repository
    ):
        raise UsageError(
            f"{file.name} has the channel our-workflow and the repository {provenance.repository or 'none'}; "
            f"this project's repository is {own_repository or 'unknown'}"
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
            f"it claims an attestation by {provenance.repository} {provenance.workflow}, which is not the "
            f"registered workflow of {backend.id}"
        )
    if backend.expires is not None and backend.expires < today:
        raise UsageError(f"the registration of {backend.id} ended on {backend.expires}")
