"""Write the time profile of a run: ``conformance-profile.html`` and ``conformance-profile.json``."""

from __future__ import annotations

import collections
import dataclasses
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import jinja2

from conformance.model.records import TimeEvent
from conformance.model.time_phases import PHASES
from conformance.model.verdicts import ResultId
from conformance.report.format_duration import format_duration
from conformance.results.journal import JournalTail

SCHEMA = 1
_BINS = 240
_SLOWEST = 100
_SUBJECTS = 300
#: If no result runs for more than these seconds, the time is a pause and not part of the run.
_PAUSE = 120.0

_TEMPLATE = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
_TEMPLATE.filters["duration"] = format_duration


@dataclasses.dataclass
class TimeByPhase:
    """The time of a set of results in seconds, in total and by phase.

    The time of a phase is estimated from stack samples, and scaled so that all phases add up to the total.
    """

    name: str
    seconds: float = 0.0
    phases: dict[str, float] = dataclasses.field(default_factory=dict)
    _ids: set[str] = dataclasses.field(default_factory=set)

    @property
    def results(self) -> int:
        """The number of results. A result that ran twice counts once."""
        return len(self._ids)

    def add(self, event: TimeEvent) -> None:
        """Add the time of one result."""
        self._ids.add(event["id"])
        self.seconds += event["seconds"]
        for phase, share in event["phases"].items():
            self.phases[phase] = self.phases.get(phase, 0.0) + share

    def estimated_seconds_by_phase(self) -> dict[str, float]:
        """Return the estimated seconds of each phase, or an empty dict if there are no stack samples."""
        sampled = sum(self.phases.values())
        if sampled == 0:
            return {}
        return {phase: self.phases.get(phase, 0.0) * self.seconds / sampled for phase in PHASES}

    def to_json(self) -> dict[str, object]:
        """Return the fields as JSON."""
        return {
            "name": self.name,
            "results": self.results,
            "seconds": round(self.seconds, 3),
            "phases": {
                phase: round(seconds, 3) for phase, seconds in self.estimated_seconds_by_phase().items()
            },
        }


@dataclasses.dataclass
class WorkerTime:
    """The time of a worker process.

    Attributes:
        name: the name of the worker.
        spent: the time of its results.
        bins: equal time intervals from the first to the last result of the run; each has the share of every
            phase.
    """

    name: str
    spent: TimeByPhase
    bins: list[dict[str, float]]


@dataclasses.dataclass
class TimeProfile:
    """The time profile of a leg.

    Attributes:
        name: the name of the leg.
        seconds: the time from the start of the first result to the end of the last, without pauses.
        total: the time of all results.
        properties, subjects: the time by ``kind/name``, the slowest first.
        slowest: the time events of the slowest results.
        workers: the time of each worker, ordered by the start of its first result.
    """

    name: str
    seconds: float
    total: TimeByPhase
    properties: list[TimeByPhase]
    subjects: list[TimeByPhase]
    slowest: list[TimeEvent]
    workers: list[WorkerTime]

    def to_json(self) -> dict[str, object]:
        """Return the profile as JSON. All times are in seconds."""
        return {
            "name": self.name,
            "seconds": round(self.seconds, 3),
            "total": self.total.to_json(),
            "properties": [entry.to_json() for entry in self.properties],
            "subjects": [entry.to_json() for entry in self.subjects],
            "slowest": [{"id": entry["id"], "seconds": entry["seconds"]} for entry in self.slowest],
            "workers": [{**entry.spent.to_json(), "bins": entry.bins} for entry in self.workers],
        }


def time_profile_of_leg(name: str, events: Iterable[TimeEvent]) -> TimeProfile | None:
    """Return the time profile of a leg, or None if it has no time events."""
    times = _events_without_pauses(events)
    if not times:
        return None
    total = TimeByPhase("all")
    properties: dict[str, TimeByPhase] = {}
    subjects: dict[str, TimeByPhase] = {}
    for event in times:
        case = ResultId.parse(event["id"]).case
        for table, label in ((properties, case.property), (subjects, case.subject)):
            key = f"{event['kind']}/{label}"
            table.setdefault(key, TimeByPhase(key)).add(event)
        total.add(event)
    first = min(event["began"] for event in times)
    last = max(event["began"] + event["seconds"] for event in times)
    workers = collections.defaultdict(list)
    for event in times:
        workers[event["worker"]].append(event)
    return TimeProfile(
        name,
        last - first,
        total,
        sorted(properties.values(), key=lambda entry: -entry.seconds),
        sorted(subjects.values(), key=lambda entry: -entry.seconds)[:_SUBJECTS],
        sorted(times, key=lambda event: -event["seconds"])[:_SLOWEST],
        [
            _worker_time(worker, workers[worker], properties, first, last)
            for worker in sorted(workers, key=lambda worker: min(event["began"] for event in workers[worker]))
        ],
    )


def _events_without_pauses(events: Iterable[TimeEvent]) -> list[TimeEvent]:
    """Return the events ordered by start, with pauses removed from the start times.

    A pause is a long time without a result on any worker: the time between a run and its resumption.
    """
    ordered = sorted(events, key=lambda event: event["began"])
    shifted_events: list[TimeEvent] = []
    end, cut = 0.0, 0.0
    for event in ordered:
        if shifted_events and event["began"] - end > _PAUSE:
            cut += event["began"] - end
        end = max(end, event["began"] + event["seconds"])
        shifted_events.append({**event, "began": event["began"] - cut})
    return shifted_events


def _worker_time(
    name: str, events: list[TimeEvent], properties: Mapping[str, TimeByPhase], first: float, last: float
) -> WorkerTime:
    spent = TimeByPhase(name)
    bins: list[dict[str, float]] = [{} for _ in range(_BINS)]
    length = max(last - first, 1e-6) / _BINS
    for event in events:
        spent.add(event)
        # A short result often has no stack sample. Use the phases of all results of its property instead.
        property_name = f"{event['kind']}/{ResultId.parse(event['id']).case.property}"
        phases = event["phases"] or properties[property_name].estimated_seconds_by_phase() or {"harness": 1.0}
        whole = sum(phases.values()) or 1.0
        begin = (event["began"] - first) / length
        end = begin + event["seconds"] / length
        for number in range(int(begin), min(int(end), _BINS - 1) + 1):
            share = min(end, number + 1) - max(begin, number)
            for phase, seconds in phases.items():
                if seconds == 0:
                    continue
                bins[number][phase] = bins[number].get(phase, 0.0) + max(share, 0.0) * seconds / whole
    return WorkerTime(
        name, spent, [{phase: round(share, 3) for phase, share in shares.items()} for shares in bins]
    )


def profile_from_journal(folder: Path) -> TimeProfile | None:
    """Return the time profile from the journal in a folder, or None if the leg was not profiled."""
    name, times = "", []
    for event in JournalTail(folder / "journal.jsonl").read(final=True):
        if event["event"] == "run":
            name = event["name"]
        elif event["event"] == "time":
            times.append(event)
    return time_profile_of_leg(name, times)


def write_profile(folder: Path, journals: Iterable[Path]) -> list[Path]:
    """Write the time profile of a run.

    Args:
        folder: the folder for ``conformance-profile.html`` and ``conformance-profile.json``.
        journals: the journals of the legs.

    Returns:
        The written files. The list is empty if no leg was profiled.
    """
    profiles = [
        leg_profile for path in journals if (leg_profile := profile_from_journal(path.parent)) is not None
    ]
    if not profiles:
        return []
    data = folder / "conformance-profile.json"
    document = {
        "schema": SCHEMA,
        "phases": PHASES,
        "legs": [leg_profile.to_json() for leg_profile in profiles],
    }
    data.write_text(json.dumps(document, separators=(",", ":")) + "\n")
    page = folder / "conformance-profile.html"
    page.write_text(
        _TEMPLATE.get_template("time_profile.html").render(
            profiles=profiles, phases=PHASES, shown=60, bins=_BINS
        )
    )
    return [page, data]
