"""``python -m tools.generate.manifest``: writes the manifest anew for the installed torch.

With ``--check`` it only compares the committed one with that of the suite. Entries of other minors stay,
except results of properties that the suite no longer has.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import difflib
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from conformance.expectations import entries
from conformance.expectations.entries import Expectation
from conformance.expectations.index import Index
from conformance.framework.property import Property
from conformance.model.vocabulary import MODES
from conformance.plan.levels import manifest as manifests
from conformance.plan.levels.manifest import Manifest, ManifestProperty, Minor, Waiver
from conformance.target.file import HOOKS
from conformance.target.unrestricted import unrestricted_target

#: The dtypes of results by property and subject.
_Dtypes = dict[tuple[str, str], dict[str, tuple[str, ...]]]


def observed() -> tuple[_Dtypes, dict[tuple[str, str], Property]]:
    """List the suite's results on the installed torch: dtypes by property and subject, and the properties."""
    from conformance.plan import plan
    from conformance.properties.registry import properties
    from conformance.subjects import catalogue

    by_property: _Dtypes = {}
    for mode in MODES:
        for case in plan.build_plan(unrestricted_target(mode), "full").cases:
            known = by_property.setdefault((case.kind, case.property), {})
            if known.setdefault(case.subject, case.dtypes) != case.dtypes:
                raise ValueError(
                    f"{case.id} has other dtypes in {mode} than in other modes; make it two properties"
                )
    entries = {(kind, entry.name): entry for kind in catalogue.kinds() for entry in properties(kind)}
    return by_property, entries


def needed_hooks() -> dict[tuple[str, str], tuple[str, ...]]:
    """Return the hooks without which a property has no results, by property."""
    from conformance.plan import plan

    def all_of(without: str | None) -> set[tuple[str, str]]:
        built = plan.build_plan(unrestricted_target(missing_hook=without), "full", MODES)
        return {(case.kind, case.property) for case in built.cases}

    everything = all_of(None)
    needed: dict[tuple[str, str], list[str]] = collections.defaultdict(list)
    for word in HOOKS:
        for key in everything - all_of(word):
            needed[key].append(word)
    return {key: tuple(hooks) for key, hooks in needed.items()}


def generate(before: Manifest | None, minor: Minor) -> Manifest:
    """Make the manifest with the suite's results on the installed torch, which is of that minor."""
    results_of, entries = observed()
    hooks = needed_hooks()
    minors = tuple(sorted({*(before.minors if before else ()), minor}))
    known = {(statement.kind, statement.name): statement for statement in before.statements} if before else {}
    statements = []
    for key, entry in sorted(entries.items()):
        results = _spans(known.get(key), results_of.get(key, {}), minor, minors)
        if not results:
            continue
        statements.append(
            ManifestProperty(
                kind=key[0],
                name=entry.name,
                level=entry.level,
                modes=tuple(entry.modes),
                capabilities=tuple(entry.capabilities),
                hooks=hooks.get(key, ()),
                groups=manifests.property_groups(results),
                promise=entry.statement,
                documentation=entry.documentation,
            )
        )
    manifest = Manifest(minors, tuple(statements), ())
    later = [waiver for waiver in before.waivers if not waiver.since <= minor] if before else []
    return dataclasses.replace(manifest, waivers=(*waivers(manifest, minor), *later))


def _spans(
    before: ManifestProperty | None,
    observed_now: Mapping[str, tuple[str, ...]],
    minor: Minor,
    minors: tuple[Minor, ...],
) -> dict[str, list[tuple[str, Minor, Minor | None]]]:
    """Return since and until of each dtype of each subject, over all minors that were observed."""
    seen: dict[str, dict[str, set[Minor]]] = collections.defaultdict(lambda: collections.defaultdict(set))
    for subject, dtypes in observed_now.items():
        for dtype in dtypes:
            seen[subject][dtype].add(minor)
    for group in before.groups if before is not None else ():
        for known in minors:
            if known != minor and group.at(known):
                for subject in group.subjects:
                    for dtype in group.dtypes:
                        seen[subject][dtype].add(known)
    spans: dict[str, list[tuple[str, Minor, Minor | None]]] = {}
    for subject, table in seen.items():
        for dtype, present in table.items():
            for since, until in _runs(present, minors):
                spans.setdefault(subject, []).append((dtype, since, until))
    return spans


def _runs(present: set[Minor], minors: tuple[Minor, ...]) -> list[tuple[Minor, Minor | None]]:
    """Return the unbroken runs of minors among all known ones, each with the first minor after it."""
    runs: list[tuple[Minor, Minor | None]] = []
    start: Minor | None = None
    for minor in minors:
        if minor in present and start is None:
            start = minor
        elif minor not in present and start is not None:
            runs.append((start, minor))
            start = None
    return [*runs, (start, None)] if start is not None else runs


def waivers(manifest: Manifest, minor: Minor) -> tuple[Waiver, ...]:
    """Make one waiver per result and kind that the suite's own targets expect for a fault of torch itself."""
    version = manifests.minor_text(minor)
    ids = {mode: _ids(manifest, minor, mode) for mode in MODES}
    by_result: dict[tuple[str, str], tuple[Expectation, set[str]]] = {}
    for name in manifests.OWN_TARGETS:
        for entry in entries.load_expectations(entries.expectation_files(name)).entries:
            if entry.reason != "upstream" or not entry.until.startswith("torch "):
                continue
            for mode in entry.modes or MODES:
                # A fault of gloo excuses no other backend: c10d leaves these results to the process group.
                if mode == "distributed" or not entry.applies_to(mode, version):
                    continue
                for text in ids[mode].matching(entry.id):
                    by_result.setdefault((text, entry.kind.value), (entry, set()))[1].add(mode)
    excused = []
    for (text, kind), (entry, modes) in sorted(by_result.items()):
        until = manifests.minor_of(entry.until.removeprefix("torch "))
        if until <= minor:
            continue
        order = tuple(mode for mode in MODES if mode in modes)
        excused.append(Waiver(text, kind, entry.link, entry.detail, order, minor, until))
    return tuple(excused)


def _ids(manifest: Manifest, minor: Minor, mode: str) -> Index:
    ids = manifest.ids(minor, mode)
    return Index(f"{statement.name}/{subject}@{dtype}" for statement, subject, dtype in ids)


def text(manifest: Manifest) -> str:
    """Write the manifest as it is committed: a line for each group of results, so that diffs are readable."""
    data = manifests.to_json(manifest)
    lines = ["{", f'"schema": {data["schema"]},', f'"minors": {json.dumps(data["minors"])},']
    lines += [f'"digests": {json.dumps(data["digests"], indent=1)},', '"properties": [']
    for number, entry in enumerate(data["properties"]):
        head = {key: value for key, value in entry.items() if key != "results"}
        lines.append(json.dumps(head)[:-1] + ', "results": [')
        lines.append(",\n".join("  " + json.dumps(group) for group in entry["results"]))
        lines.append("]}" + ("," if number + 1 < len(data["properties"]) else ""))
    lines += ["],", '"waivers": [', ",\n".join(json.dumps(entry) for entry in data["waivers"]), "]", "}"]
    return "\n".join(lines) + "\n"


def difference(path: Path = manifests.PATH) -> list[str]:
    """List the lines in which the committed manifest differs from that of the suite."""
    import torch

    committed = path.read_text() if path.is_file() else ""
    before = manifests.load(path) if committed else None
    current = text(generate(before, manifests.minor_of(torch.__version__)))
    return list(
        difflib.unified_diff(
            committed.splitlines(), current.splitlines(), "committed", "suite", lineterm="", n=0
        )
    )


def main(arguments: list[str] | None = None) -> int:
    """Write the manifest, or with ``--check`` print the differences; exit code 1 if there are any."""
    parser = argparse.ArgumentParser(prog=manifests.COMMAND)
    parser.add_argument("--check", action="store_true", help="write nothing, only compare")
    options = parser.parse_args(arguments)
    if arguments is None and os.environ.get("PYTHONHASHSEED") != "0":
        command = [sys.executable, "-m", "tools.generate.manifest", *sys.argv[1:]]
        os.execve(sys.executable, command, os.environ | {"PYTHONHASHSEED": "0"})
    import torch

    minor = manifests.minor_of(torch.__version__)
    if options.check:
        lines = difference()
        print("\n".join(line[:300] for line in lines[:40]) or "the manifest is that of the suite")
        if lines:
            print(
                f"the manifest has drifted from the suite; run '{manifests.COMMAND}' and look at the change"
            )
        return int(bool(lines))
    before: Manifest | None = None
    if manifests.PATH.is_file():
        before = manifests.load()
    manifest = generate(before, minor)
    manifests.PATH.write_text(text(manifest))
    counts: Any = {
        mode: len(list(manifest.ids(minor, mode)))
        for mode in MODES
        if any(mode in s.modes for s in manifest.statements)
    }
    words = ", ".join(f"{count} in {mode}" for mode, count in counts.items())
    print(
        f"{manifests.PATH.name}: torch {manifests.minor_text(minor)}, {words}, {len(manifest.waivers)} waivers"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
