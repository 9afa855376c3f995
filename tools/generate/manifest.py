"""``python -m tools.generate.manifest``: regenerate the manifest for the installed torch.

The manifest lists the results of the suite for each torch minor version. With ``--check`` the committed
manifest is only compared. This program replaces the entries of the installed minor. Entries of other minors
are unchanged, with two exceptions: entries of removed properties are deleted, and results of a new property
are added to the minors that have their subjects and dtypes, except results in ``release_exclusions.toml``. A
run on these minors shows whether the added results exist.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import difflib
import json
import os
import sys
from collections.abc import Mapping, Set
from pathlib import Path
from types import MappingProxyType
from typing import Any

from conformance.expectations import entries
from conformance.expectations.entries import Expectation
from conformance.expectations.result_id_index import ResultIdIndex
from conformance.framework.property import Property
from conformance.model.vocabulary import MODES
from conformance.plan import release_exclusions
from conformance.plan.levels import manifest as manifests
from conformance.plan.levels.manifest import Manifest, ManifestProperty, Minor, Waiver
from conformance.target.file import HOOKS
from conformance.target.unrestricted import unrestricted_target

#: The dtypes of results by property and subject.
_Dtypes = dict[tuple[str, str], dict[str, tuple[str, ...]]]


def observe_suite() -> tuple[_Dtypes, dict[tuple[str, str], Property]]:
    """Return the results of the suite on the installed torch: dtypes by property and subject, and the
    properties.
    """
    from conformance.plan import plan
    from conformance.properties.registry import properties
    from conformance.subjects import catalogue

    by_property: _Dtypes = {}
    for mode in MODES:
        for case in plan.build_plan(unrestricted_target(mode), "full").cases:
            dtypes_by_subject = by_property.setdefault((case.kind, case.property), {})
            if dtypes_by_subject.setdefault(case.subject, case.dtypes) != case.dtypes:
                raise ValueError(
                    f"{case.id} has different dtypes in mode {mode} than in other modes. Split it "
                    "into two properties."
                )
    entries = {(kind, entry.name): entry for kind in catalogue.kinds() for entry in properties(kind)}
    return by_property, entries


def hooks_by_property() -> dict[tuple[str, str], tuple[str, ...]]:
    """Return the hooks that each property needs in order to have results, by (kind, property)."""
    from conformance.plan import plan

    def properties_planned_without(without: str | None) -> set[tuple[str, str]]:
        built = plan.build_plan(unrestricted_target(missing_hook=without), "full", MODES)
        return {(case.kind, case.property) for case in built.cases}

    everything = properties_planned_without(None)
    needed: dict[tuple[str, str], list[str]] = collections.defaultdict(list)
    for hook in HOOKS:
        for key in everything - properties_planned_without(hook):
            needed[key].append(hook)
    return {key: tuple(hooks) for key, hooks in needed.items()}


def generate(before: Manifest | None, minor: Minor) -> Manifest:
    """Return the manifest with the suite's results on the installed torch, which has this minor version."""
    results_of, entries = observe_suite()
    hooks = hooks_by_property()
    minors = tuple(sorted({*(before.minors if before else ()), minor}))
    properties_before = (
        {(statement.kind, statement.name): statement for statement in before.statements} if before else {}
    )
    measured = _minors_by_subject_and_dtype(before) if before is not None and minor in before.minors else {}
    statements = []
    for key, entry in sorted(entries.items()):
        kind, observed = key[0], results_of.get(key, {})
        assumed = {
            (subject, dtype): {
                listed_minor
                for listed_minor in measured.get((kind, subject, dtype), ())
                if _is_in_release(entry.name, subject, dtype, listed_minor)
            }
            for subject, dtypes in observed.items()
            for dtype in dtypes
        }
        results = _validity_spans(properties_before.get(key), observed, minor, minors, assumed)
        if not results:
            continue
        hooks_by_minor = _hooks_by_minor(properties_before.get(key), hooks.get(key, ()), minor, minors)
        latest_hooks = hooks_by_minor[minors[-1]]
        statements.append(
            ManifestProperty(
                kind=key[0],
                name=entry.name,
                level=entry.level,
                modes=tuple(entry.modes),
                capabilities=tuple(entry.capabilities),
                hooks=latest_hooks,
                groups=manifests.manifest_groups_of_property(results),
                promise=entry.statement,
                documentation=entry.documentation,
                other_hooks=tuple(
                    (other, names) for other, names in hooks_by_minor.items() if names != latest_hooks
                ),
            )
        )
    manifest = Manifest(minors, tuple(statements), ())
    return dataclasses.replace(manifest, waivers=upstream_waivers(manifest))


def _hooks_by_minor(
    before: ManifestProperty | None, observed_now: tuple[str, ...], minor: Minor, minors: tuple[Minor, ...]
) -> dict[Minor, tuple[str, ...]]:
    """Return the hooks of a property by minor. A new property has the same hooks on all minors."""
    return {
        listed_minor: (
            observed_now if listed_minor == minor or before is None else before.hooks_on(listed_minor)
        )
        for listed_minor in minors
    }


def _validity_spans(
    before: ManifestProperty | None,
    observed_now: Mapping[str, tuple[str, ...]],
    minor: Minor,
    minors: tuple[Minor, ...],
    assumed: Mapping[tuple[str, str], Set[Minor]] = MappingProxyType({}),
) -> dict[str, list[tuple[str, Minor, Minor | None]]]:
    """Return, for each subject, the spans of torch minors in which it has results. A span consists of the
    dtype, the first minor, and the first minor after the span (None if there is none).

    ``assumed`` has, by subject and dtype, the other minors with results of other properties of this subject
    in this dtype. If the property has no result in such a minor yet, it is assumed to have this result.
    """
    minors_by_dtype: dict[str, dict[str, set[Minor]]] = collections.defaultdict(
        lambda: collections.defaultdict(set)
    )
    measured = {
        other for other in minors for group in (before.groups if before else ()) if group.exists_on(other)
    }
    for subject, dtypes in observed_now.items():
        for dtype in dtypes:
            minors_by_dtype[subject][dtype].add(minor)
            minors_by_dtype[subject][dtype] |= assumed.get((subject, dtype), set()) - measured
    for group in before.groups if before is not None else ():
        for earlier_minor in minors:
            if earlier_minor != minor and group.exists_on(earlier_minor):
                for subject in group.subjects:
                    for dtype in group.dtypes:
                        minors_by_dtype[subject][dtype].add(earlier_minor)
    spans: dict[str, list[tuple[str, Minor, Minor | None]]] = {}
    for subject, table in minors_by_dtype.items():
        for dtype, present in table.items():
            for since, until in _unbroken_runs(present, minors):
                spans.setdefault(subject, []).append((dtype, since, until))
    return spans


def _minors_by_subject_and_dtype(manifest: Manifest) -> dict[tuple[str, str, str], set[Minor]]:
    """Return the minors in which any property has a result, by kind, subject and dtype."""
    minors: dict[tuple[str, str, str], set[Minor]] = collections.defaultdict(set)
    for statement in manifest.statements:
        for group in statement.groups:
            spans = {minor for minor in manifest.minors if group.exists_on(minor)}
            for subject in group.subjects:
                for dtype in group.dtypes:
                    minors[statement.kind, subject, dtype] |= spans
    return minors


def _is_in_release(name: str, subject: str, dtype: str, minor: Minor) -> bool:
    version = manifests.minor_text(minor)
    return bool(release_exclusions.dtypes_without_exclusions(f"{name}/{subject}", (dtype,), version))


def _unbroken_runs(present: set[Minor], minors: tuple[Minor, ...]) -> list[tuple[Minor, Minor | None]]:
    """Return the runs of successive ``minors`` that are in ``present``. A run is given by its first minor and
    the first minor after it, or None if no minor follows.
    """
    runs: list[tuple[Minor, Minor | None]] = []
    start: Minor | None = None
    for minor in minors:
        if minor in present and start is None:
            start = minor
        elif minor not in present and start is not None:
            runs.append((start, minor))
            start = None
    return [*runs, (start, None)] if start is not None else runs


def upstream_waivers(manifest: Manifest) -> tuple[Waiver, ...]:
    """Return the waivers for the expected failures of the suite's own targets that are bugs in torch, for all
    minors of a manifest.

    Each triple of a result, a failure kind and a span of minors has one waiver.
    """
    minors_by_waiver: dict[Waiver, set[Minor]] = {}
    for minor in manifest.minors:
        for waiver in _waivers_on(manifest, minor):
            minors_by_waiver.setdefault(waiver, set()).add(minor)
    spans = [
        dataclasses.replace(waiver, since=since, until=until or waiver.until)
        for waiver, present in minors_by_waiver.items()
        for since, until in _unbroken_runs(present, manifest.minors)
    ]
    return tuple(sorted(spans, key=lambda waiver: (waiver.id, waiver.kind, waiver.since)))


def _waivers_on(manifest: Manifest, minor: Minor) -> list[Waiver]:
    """Return the waivers on one minor, as if they applied from the first minor of the manifest."""
    version = manifests.minor_text(minor)
    ids = {mode: _result_id_index(manifest, minor, mode) for mode in MODES}
    by_result: dict[tuple[str, str], tuple[Expectation, set[str]]] = {}
    for name in manifests.OWN_TARGETS:
        for entry in entries.load_expectations(entries.expectation_files(name)).entries:
            if entry.reason != "upstream" or not entry.until.startswith("torch "):
                continue
            if manifests.minor_of(entry.until.removeprefix("torch ")) <= minor:
                continue
            for mode in entry.modes or MODES:
                # Mode distributed gets no waivers. Its expectations are bugs in gloo, which other backends do
                # not use.
                if mode == "distributed" or not entry.applies_to(mode, version):
                    continue
                for text in ids[mode].ids_matching(entry.id):
                    by_result.setdefault((text, entry.kind.value), (entry, set()))[1].add(mode)
    return [
        Waiver(
            text,
            kind,
            entry.link,
            entry.detail,
            tuple(mode for mode in MODES if mode in modes),
            manifest.minors[0],
            manifests.minor_of(entry.until.removeprefix("torch ")),
        )
        for (text, kind), (entry, modes) in by_result.items()
    ]


def _result_id_index(manifest: Manifest, minor: Minor, mode: str) -> ResultIdIndex:
    ids = manifest.ids(minor, mode)
    return ResultIdIndex(f"{statement.name}/{subject}@{dtype}" for statement, subject, dtype in ids)


def manifest_text(manifest: Manifest) -> str:
    """Return the manifest as committed text, with one line for each group of results so that diffs are
    readable.
    """
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


def manifest_difference(path: Path = manifests.PATH) -> list[str]:
    """Return the lines that differ between the committed manifest and the suite's manifest."""
    import torch

    committed = path.read_text() if path.is_file() else ""
    before = manifests.load(path) if committed else None
    current = manifest_text(generate(before, manifests.minor_of(torch.__version__)))
    return list(
        difflib.unified_diff(
            committed.splitlines(), current.splitlines(), "committed", "suite", lineterm="", n=0
        )
    )


def main(arguments: list[str] | None = None) -> int:
    """Write the manifest, or with ``--check`` print the differences. Return 1 if there are differences."""
    parser = argparse.ArgumentParser(prog=manifests.COMMAND)
    parser.add_argument("--check", action="store_true", help="write nothing, only compare")
    options = parser.parse_args(arguments)
    if arguments is None and os.environ.get("PYTHONHASHSEED") != "0":
        command = [sys.executable, "-m", "tools.generate.manifest", *sys.argv[1:]]
        os.execve(sys.executable, command, os.environ | {"PYTHONHASHSEED": "0"})
    import torch

    minor = manifests.minor_of(torch.__version__)
    if options.check:
        lines = manifest_difference()
        print("\n".join(line[:300] for line in lines[:40]) or "the manifest is current")
        if lines:
            print(f"The manifest is stale. Run '{manifests.COMMAND}' and review the change.")
        return int(bool(lines))
    before: Manifest | None = None
    if manifests.PATH.is_file():
        before = manifests.load()
    manifest = generate(before, minor)
    manifests.PATH.write_text(manifest_text(manifest))
    counts: Any = {
        mode: len(list(manifest.ids(minor, mode)))
        for mode in MODES
        if any(mode in s.modes for s in manifest.statements)
    }
    counts_text = ", ".join(f"{count} in {mode}" for mode, count in counts.items())
    print(
        f"{manifests.PATH.name}: torch {manifests.minor_text(minor)}, {counts_text}, "
        f"{len(manifest.waivers)} waivers"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
