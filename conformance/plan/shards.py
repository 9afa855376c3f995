"""Divide subjects among shards that take about the same time, by the recorded seconds of earlier runs.

All properties of a subject are in one shard, because they share samples and reference values. The behaviours
of an API area do not share data, so that the table may split a long area: it then lists the properties of the
area, each with its seconds, instead of the area.

``python -m tools.generate.subject_seconds DIR ...`` regenerates the committed table ``seconds.json`` from
output folders of runs. The seconds are rounded, so that the table changes only if a duration changes
markedly.
"""

from __future__ import annotations

import functools
import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import TypedDict

from conformance.errors import UsageError

FILE = Path(__file__).parent / "seconds.json"
SCHEMA = 1


class RecordedSeconds(TypedDict):
    """The content of ``seconds.json``. ``modes`` contains a table for each mode. This table maps a number of
    seconds to the names of all subjects and properties that take this time.
    """

    schema: int
    modes: dict[str, dict[str, list[str]]]


def seconds_table_entry_name(kind: str, subject: str, property_name: str | None = None) -> str:
    """Return the name under which the table lists a subject, or a property of a subject."""
    return "/".join(filter(None, (kind, subject, property_name)))


@functools.cache
def recorded_seconds(path: Path = FILE) -> dict[str, dict[str, float]]:
    """Return the committed table: mode -> name of an entry -> seconds."""
    if not path.is_file():
        return {}
    data = json.loads(path.read_text())
    if data.get("schema") != SCHEMA:
        raise UsageError(
            f"{path} has schema {data.get('schema')!r}; this version of the suite reads {SCHEMA}"
        )
    return {
        mode: {name: float(seconds) for seconds, names in groups.items() for name in names}
        for mode, groups in data["modes"].items()
    }


@functools.lru_cache(maxsize=64)
def shard_assignment(mode: str, count: int, path: Path = FILE) -> Mapping[str, int]:
    """Return the shard, counted from 0, of each entry that the table ``seconds.json`` contains for a mode.

    The assignment depends on the table alone, and not on a level or a target, so that it is the same on all
    machines.
    """
    return balanced_assignment(recorded_seconds(path).get(mode, {}), count)


def balanced_assignment(seconds: Mapping[str, float], count: int) -> dict[str, int]:
    """Return the shard of each entry, so that ``count`` shards take nearly the same time.

    The entries are assigned in the order of descending seconds, each to the shard with the fewest seconds so
    far.
    """
    loads = [0.0] * count
    shards = {}
    for name in sorted(seconds, key=lambda name: (-seconds[name], name)):
        shard = min(range(count), key=lambda number: (loads[number], number))
        loads[shard] += seconds[name]
        shards[name] = shard
    return shards


def shard_of(mode: str, kind: str, subject: str, count: int, property_name: str | None = None) -> int:
    """Return the shard, counted from 0, of a property of a subject.

    All properties of a subject are in one shard unless the table splits the subject. If the table lists
    neither the subject nor the property, a hash of the subject's name determines the shard.
    """
    shard_by_entry = shard_assignment(mode, count)
    name = seconds_table_entry_name(kind, subject)
    for entry in (seconds_table_entry_name(kind, subject, property_name), name):
        if entry in shard_by_entry:
            return shard_by_entry[entry]
    return zlib.crc32(name.encode()) % count
