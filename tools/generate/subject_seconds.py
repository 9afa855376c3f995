"""``python -m tools.generate.subject_seconds``: write the table of seconds that balances the shards."""

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

#: The number of steps per power of two to which seconds are rounded. The error is at most 20 per cent.
_STEPS = 2
#: The smallest number of seconds in the table. Smaller numbers are rounded up to this number.
_LEAST_SECONDS = 2.0**-4
#: The maximum seconds of one table entry of an API area. An area with more seconds has one entry per
#: property.
_MAX_ENTRY_SECONDS = 6.0
_AREA = "api"


def round_seconds(seconds: float) -> float:
    """Return the seconds rounded to one of the logarithmic steps that the table uses."""
    if seconds <= _LEAST_SECONDS:
        return _LEAST_SECONDS
    power = round(math.log2(seconds) * _STEPS) / _STEPS
    return float(f"{2.0**power:.3g}")


def make_table(legs: Iterable[Leg], kinds: Mapping[tuple[str, str], str]) -> shards.RecordedSeconds:
    """Return the table of seconds by mode, computed from the results of legs.

    Seconds of several legs of one mode are averaged. ``kinds`` maps (property, subject) to the kind of
    subject.
    """
    sums: dict[str, dict[tuple[str, str], float]] = {}
    runs: dict[str, dict[tuple[str, str], int]] = {}
    for leg in legs:
        seconds_by_case: dict[tuple[str, str], float] = {}
        for row in leg["results"]:
            name, _, rest = row["id"].partition("/")
            case = (name, rest.rpartition("@")[0])
            if case in kinds:
                seconds_by_case[case] = seconds_by_case.get(case, 0.0) + row["seconds"]
        totals, run_counts = sums.setdefault(leg["mode"], {}), runs.setdefault(leg["mode"], {})
        for case, seconds in seconds_by_case.items():
            totals[case] = totals.get(case, 0.0) + seconds
            run_counts[case] = run_counts.get(case, 0) + 1
    modes: dict[str, dict[str, list[str]]] = {}
    for mode in sorted(sums):
        means = {case: seconds / runs[mode][case] for case, seconds in sums[mode].items()}
        groups: dict[float, list[str]] = {}
        for entry_name, seconds in seconds_by_entry_name(means, kinds).items():
            groups.setdefault(round_seconds(seconds), []).append(entry_name)
        modes[mode] = {f"{seconds:g}": sorted(groups[seconds]) for seconds in sorted(groups, reverse=True)}
    return {"schema": shards.SCHEMA, "modes": modes}


def seconds_by_entry_name(
    seconds: Mapping[tuple[str, str], float], kinds: Mapping[tuple[str, str], str]
) -> dict[str, float]:
    """Return the seconds of each table entry. ``seconds`` maps (property, subject) to seconds.

    An entry is a subject, or one property of an area that is too long for one entry.
    """
    subjects: dict[str, float] = {}
    for case, case_seconds in seconds.items():
        entry_name = shards.seconds_table_entry_name(kinds[case], case[1])
        subjects[entry_name] = subjects.get(entry_name, 0.0) + case_seconds
    seconds_by_entry: dict[str, float] = {}
    for case, case_seconds in seconds.items():
        kind, (name, subject) = kinds[case], case
        entry_name = shards.seconds_table_entry_name(kind, subject)
        if kind == _AREA and subjects[entry_name] > _MAX_ENTRY_SECONDS:
            entry_name = shards.seconds_table_entry_name(kind, subject, name)
        seconds_by_entry[entry_name] = seconds_by_entry.get(entry_name, 0.0) + case_seconds
    return seconds_by_entry


def main(arguments: list[str] | None = None) -> int:
    """Write the table from the output folders of runs. Modes without a run keep their entries."""
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
                raise UsageError(
                    f"leg {leg['name']} is not a complete run of level full. Run level full without -k."
                )
        kinds = {}
        for name, mode in sorted({(leg["target"]["name"], leg["mode"]) for leg in legs}):
            for case in plan.build_plan(target_file.load(name).target(mode), "full", [mode]).cases:
                kinds[(case.property, case.subject)] = case.kind
    except UsageError as error:
        print(f"tools.generate.subject_seconds: {error}", file=sys.stderr)
        return 2
    table = make_table(legs, kinds)
    if options.output.is_file():
        table["modes"] = {**json.loads(options.output.read_text())["modes"], **table["modes"]}
    options.output.write_text(json.dumps(table, indent=0, sort_keys=False).replace('",\n"', '", "') + "\n")
    for mode, groups in table["modes"].items():
        total = sum(float(seconds) * len(names) for seconds, names in groups.items())
        print(f"{mode}: {sum(map(len, groups.values()))} entries, {total:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
