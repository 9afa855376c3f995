"""Recorded seconds by mode and subject, and shards that take the same time.

The table ``seconds.json`` is committed; ``python -m conformance.plan.shards DIR ...`` makes it anew from the
output folders of runs. It holds rounded seconds, so that it changes only where something took markedly more
or less.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import sys
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from conformance.errors import UsageError

FILE = Path(__file__).parent / "seconds.json"
SCHEMA = 1
#: Seconds are kept as powers of two, in these steps: no value is off by more than 20 per cent.
_STEPS = 2
#: Subjects that took less stand in one entry of the table.
_LEAST = 2.0**-4

#: Seconds by mode, then by subject.
Table = Mapping[str, Mapping[str, float]]


def key(kind: str, subject: str) -> str:
    """The name of a subject in a table."""
    return f"{kind}/{subject}"


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
    """The shard, counted from 0, of every subject whose time is known in a mode.

    The dearest subject goes first, each to the shard that has the least so far. That depends on the table
    alone: not on what a level or a target has, so all shards of a run agree, whoever runs them.
    """
    return balanced(table(path).get(mode, {}), count)


def balanced(seconds: Mapping[str, float], count: int) -> dict[str, int]:
    """Subjects dealt out to ``count`` shards of nearly the same seconds."""
    loads = [0.0] * count
    found = {}
    for name in sorted(seconds, key=lambda name: (-seconds[name], name)):
        shard = min(range(count), key=lambda number: (loads[number], number))
        loads[shard] += seconds[name]
        found[name] = shard
    return found


def shard_of(mode: str, kind: str, subject: str, count: int) -> int:
    """The shard, counted from 0, of a subject. One whose time is unknown goes by its name."""
    name = key(kind, subject)
    known = assignment(mode, count)
    return known[name] if name in known else zlib.crc32(name.encode()) % count


def rounded(seconds: float) -> float:
    """Seconds as the table keeps them."""
    if seconds <= _LEAST:
        return _LEAST
    power = round(math.log2(seconds) * _STEPS) / _STEPS
    return float(f"{2.0**power:.3g}")


def record(legs: Iterable[dict[str, Any]], kinds: Mapping[tuple[str, str], str]) -> dict[str, Any]:
    """A table from legs; the mean where a mode was run several times. ``kinds``: of property and subject."""
    sums: dict[str, dict[str, list[float]]] = {}
    for leg in legs:
        took: dict[str, float] = {}
        for row in leg["results"]:
            name, _, rest = row["id"].partition("/")
            subject = rest.rpartition("@")[0]
            kind = kinds.get((name, subject))
            if kind is not None:
                word = key(kind, subject)
                took[word] = took.get(word, 0.0) + row["seconds"]
        for word, seconds in took.items():
            sums.setdefault(leg["mode"], {}).setdefault(word, []).append(seconds)
    modes: dict[str, dict[str, list[str]]] = {}
    for mode in sorted(sums):
        groups: dict[float, list[str]] = {}
        for word, each in sums[mode].items():
            groups.setdefault(rounded(sum(each) / len(each)), []).append(word)
        modes[mode] = {f"{seconds:g}": sorted(groups[seconds]) for seconds in sorted(groups, reverse=True)}
    return {"schema": SCHEMA, "modes": modes}


def main(arguments: list[str] | None = None) -> int:
    """Write the table from the output folders of runs; modes that they do not have stay as they are."""
    parser = argparse.ArgumentParser(prog="python -m conformance.plan.shards", description=main.__doc__)
    parser.add_argument(
        "directories", nargs="+", type=Path, metavar="DIR", help="output folder of a full run"
    )
    parser.add_argument("-o", "--output", type=Path, default=FILE, metavar="FILE")
    options = parser.parse_args(arguments)
    from conformance.plan import plan
    from conformance.report import files
    from conformance.target import file as target_file

    try:
        legs = [leg for folder in options.directories for leg in files.read(folder)]
        for leg in legs:
            if not (leg["complete"] and leg["level"] == "full" and leg["selection"] is None):
                raise UsageError(f"leg {leg['name']} is not a complete run of the full level; run it so")
        kinds = {}
        for name, mode in sorted({(leg["target"]["name"], leg["mode"]) for leg in legs}):
            for case in plan.build(target_file.load(name).target(mode), "full", [mode]).cases:
                kinds[(case.property, case.subject)] = case.kind
    except UsageError as error:
        print(f"conformance.plan.shards: {error}", file=sys.stderr)
        return 2
    found = record(legs, kinds)
    if options.output.is_file():
        found["modes"] = {**json.loads(options.output.read_text())["modes"], **found["modes"]}
    options.output.write_text(json.dumps(found, indent=0, sort_keys=False).replace('",\n"', '", "') + "\n")
    for mode, groups in found["modes"].items():
        total = sum(float(seconds) * len(names) for seconds, names in groups.items())
        print(f"{mode}: {sum(map(len, groups.values()))} subjects, {total:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
