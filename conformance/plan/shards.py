"""Recorded seconds by mode and subject, and shards that take the same time.

A subject stays whole, since its properties share samples and oracle values. Areas of the API share nothing,
so the table may split a long one: it then has the properties of the area instead, each with its seconds.

The table ``seconds.json`` is committed; ``python -m tools.generate.subject_seconds DIR ...`` makes it anew from
output folders of runs. It holds rounded seconds, so that it changes only if something took markedly more
or less.
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


class Seconds(TypedDict):
    """The committed table: by mode, then by seconds, the subjects or properties that take them."""

    schema: int
    modes: dict[str, dict[str, list[str]]]


def key(kind: str, subject: str, property_name: str | None = None) -> str:
    """The name of a subject in a table, or that of one property of it."""
    return "/".join(filter(None, (kind, subject, property_name)))


@functools.cache
def table(path: Path = FILE) -> dict[str, dict[str, float]]:
    """The committed table."""
    if not path.is_file():
        return {}
    data = json.loads(path.read_text())
    if data.get("schema") != SCHEMA:
        raise UsageError(f"{path} has schema {data.get('schema')!r}; this version reads {SCHEMA}")
    return {
        mode: {name: float(seconds) for seconds, names in groups.items() for name in names}
        for mode, groups in data["modes"].items()
    }


@functools.lru_cache(maxsize=64)
def assignment(mode: str, count: int, path: Path = FILE) -> Mapping[str, int]:
    """The shard, counted from 0, of every entry of the table for a mode.

    The dearest entry goes first, each to the shard that has the least so far. That depends on the table
    alone: not on what a level or a target has, so all shards of a run agree, whoever runs them.
    """
    return balanced(table(path).get(mode, {}), count)


def balanced(seconds: Mapping[str, float], count: int) -> dict[str, int]:
    """Entries dealt out to ``count`` shards of nearly the same seconds."""
    loads = [0.0] * count
    shards = {}
    for name in sorted(seconds, key=lambda name: (-seconds[name], name)):
        shard = min(range(count), key=lambda number: (loads[number], number))
        loads[shard] += seconds[name]
        shards[name] = shard
    return shards


def shard_of(mode: str, kind: str, subject: str, count: int, property_name: str | None = None) -> int:
    """The shard, counted from 0, of a property of a subject.

    If the table has not split the subject, all its properties are in one shard. A subject whose time is
    unknown, and a new property of one that is split, go by the subject's name.
    """
    known = assignment(mode, count)
    name = key(kind, subject)
    for word in (key(kind, subject, property_name), name):
        if word in known:
            return known[word]
    return zlib.crc32(name.encode()) % count
