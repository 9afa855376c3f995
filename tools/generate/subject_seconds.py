"""``python -m tools.generate.subject_seconds``: writes the table of seconds by which shards are balanced."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from conformance.errors import UsageError
from conformance.model.records import Leg
from conformance.plan import shards

#: Seconds are kept as powers of two, in these steps: no value is off by more than 20 per cent.
_STEPS = 2
#: Subjects that took less share one entry of the table; in seconds.
_LEAST = 2.0**-4
#: The table has the properties of a longer area instead of the area; in seconds. Nothing ties these together.
_LONGEST = 6.0
_AREA = "api"


def rounded(seconds: float) -> float:
    """Round seconds to the steps of the table."""
    if seconds <= _LEAST:
        return _LEAST
    power = round(math.log2(seconds) * _STEPS) / _STEPS
    return float(f"{2.0**power:.3g}")


def record(legs: Iterable[Leg], kinds: Mapping[tuple[str, str], str]) -> shards.Seconds:
    """Make a table from legs; the mean if a mode was run several times. ``kinds``: by property and
    subject.
    """
    sums: dict[str, dict[tuple[str, str], float]] = {}
    runs: dict[str, dict[tuple[str, str], int]] = {}
    for leg in legs:
        took: dict[tuple[str, str], float] = {}
        for row in leg["results"]:
            name, _, rest = row["id"].partition("/")
            case = (name, rest.rpartition("@")[0])
            if case in kinds:
                took[case] = took.get(case, 0.0) + row["seconds"]
        so_far, seen = sums.setdefault(leg["mode"], {}), runs.setdefault(leg["mode"], {})
        for case, seconds in took.items():
            so_far[case] = so_far.get(case, 0.0) + seconds
            seen[case] = seen.get(case, 0) + 1
    modes: dict[str, dict[str, list[str]]] = {}
    for mode in sorted(sums):
        means = {case: seconds / runs[mode][case] for case, seconds in sums[mode].items()}
        groups: dict[float, list[str]] = {}
        for word, seconds in entries(means, kinds).items():
            groups.setdefault(rounded(seconds), []).append(word)
        modes[mode] = {f"{seconds:g}": sorted(groups[seconds]) for seconds in sorted(groups, reverse=True)}
    return {"schema": shards.SCHEMA, "modes": modes}


def entries(
    seconds: Mapping[tuple[str, str], float], kinds: Mapping[tuple[str, str], str]
) -> dict[str, float]:
    """Seconds by entry of the table, from those by property and subject: subjects, and split areas."""
    subjects: dict[str, float] = {}
    for case, took in seconds.items():
        word = shards.entry_name(kinds[case], case[1])
        subjects[word] = subjects.get(word, 0.0) + took
    found: dict[str, float] = {}
    for case, took in seconds.items():
        kind, (name, subject) = kinds[case], case
        word = shards.entry_name(kind, subject)
        if kind == _AREA and subjects[word] > _LONGEST:
            word = shards.entry_name(kind, subject, name)
        found[word] = found.get(word, 0.0) + took
    return found


def main(arguments: list[str] | None = None) -> int:
    """Write the table from the output folders of runs; modes that were not run stay as they are."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.generate.subject_seconds", description=main.__doc__
    )
    parser.add_argument(
        "directories", nargs="+", type=Path, metavar="DIR", help="output folder of a full run"
    )
    parser.add_argument("-o", "--output", type=Path, default=shards.FILE, metavar="FILE")
    options = parser.parse_args(arguments)
    from conformance.plan import plan
    from conformance.report import output_files
    from conformance.target import file as target_file

    try:
        legs = [leg for folder in options.directories for leg in output_files.read_legs(folder)]
        for leg in legs:
            if not (leg["complete"] and leg["level"] == "full" and leg["selection"] is None):
                raise UsageError(f"leg {leg['name']} is not a complete run of the full level; run it so")
        kinds = {}
        for name, mode in sorted({(leg["target"]["name"], leg["mode"]) for leg in legs}):
            for case in plan.build_plan(target_file.load(name).target(mode), "full", [mode]).cases:
                kinds[(case.property, case.subject)] = case.kind
    except UsageError as error:
        print(f"tools.generate.subject_seconds: {error}", file=sys.stderr)
        return 2
    table = record(legs, kinds)
    if options.output.is_file():
        table["modes"] = {**json.loads(options.output.read_text())["modes"], **table["modes"]}
    options.output.write_text(json.dumps(table, indent=0, sort_keys=False).replace('",\n"', '", "') + "\n")
    for mode, groups in table["modes"].items():
        total = sum(float(seconds) * len(names) for seconds, names in groups.items())
        print(f"{mode}: {sum(map(len, groups.values()))} entries, {total:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
