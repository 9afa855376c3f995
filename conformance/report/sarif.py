"""Write SARIF 2.1.0 for GitHub's code scanning, with one alert for each cause of unexpected results.

The location of an alert is the file and line that the message of the cause's example names, if that file is
in the repository. Otherwise the location is the first line of the target file. The fingerprint consists of
target, failure kind, message pattern and families. GitHub therefore keeps an alert if the next run has the
same cause with different results.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from conformance.model.records import Document, Leg
from conformance.model.verdicts import ResultId
from conformance.report import causes as groups
from conformance.report import summary
from conformance.results import scrub

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
#: The maximum number of alerts that GitHub accepts in one upload.
_MOST = 5000
_SOURCE_LOCATION = re.compile(r"([\w./+-]+\.(?:c|cc|cpp|cu|cuh|cxx|h|hpp|inc|py|pyx|rs))(?::|\", line )(\d+)")


def write_sarif(path: Path, results: Document, root: Path) -> None:
    """Write the alerts of a results document.

    Args:
        path: the SARIF file.
        results: the document.
        root: the root of the repository that displays the alerts.
    """
    path.write_text(json.dumps(sarif_log(results, root), indent=1) + "\n")


def sarif_log(results: Document, root: Path) -> dict[str, Any]:
    """Return the SARIF log: one run with a rule for each property and a result for each cause."""
    legs = results["legs"]
    causes = groups.causes_of(legs)[:_MOST]
    names = sorted({_property_name(group) for group in causes})
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "conformance",
                        "version": results["suite"],
                        "rules": [
                            {"id": name, "shortDescription": {"text": f"conformance property {name}"}}
                            for name in names
                        ],
                    }
                },
                "results": [_sarif_result(group, legs, root) for group in causes],
            }
        ],
    }


def _property_name(group: groups.Cause) -> str:
    return ResultId.parse(group.example[1]["id"]).case.property


def _sarif_result(group: groups.Cause, legs: Sequence[Leg], root: Path) -> dict[str, Any]:
    number, row = group.example
    leg = legs[number]
    message = groups.kind_and_message(row)[1]
    file, line = _source_location(message, root) or (summary.target_argument(leg), 1)
    first = next(iter(message.splitlines()), "")
    text = f"{group.name()}: {group.verdict_counts_text()}. {group.sample_pattern_sentence()}\n"
    text += f"{row['id']}: {first}\n"
    text += summary.repro_command(row["id"], summary.target_argument(leg), leg)
    cause = f"{leg['target']['name']} {group.kind} {group.shape} {','.join(sorted(group.families))}"
    return {
        "ruleId": _property_name(group),
        "level": "error",
        "message": {"text": scrub.scrub_text(text)},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": file, "uriBaseId": "%SRCROOT%"},
                    "region": {"startLine": line},
                }
            }
        ],
        "partialFingerprints": {"cause/v1": hashlib.sha256(cause.encode()).hexdigest()[:32]},
    }


def _source_location(message: str, root: Path) -> tuple[str, int] | None:
    """Return the path (relative to the root) and the line of the first repository file that a message names,
    or None.
    """
    for match in _SOURCE_LOCATION.finditer(message):
        path = (root / match[1]).resolve()
        if path.is_relative_to(root.resolve()) and path.is_file():
            return path.relative_to(root.resolve()).as_posix(), max(1, int(match[2]))
    return None
