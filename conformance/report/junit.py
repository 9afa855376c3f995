"""Write ``junit.xml`` with one test case per case, for tools that read only JUnit XML.

The message of a failure is the title of its cause, because CI systems group failures by equal messages.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

from conformance.model.records import Document, Leg, ResultRow
from conformance.model.verdicts import ResultId, Verdict
from conformance.report import causes as groups
from conformance.report.issue import issue_title

_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ERRORS = (Verdict.CRASH, Verdict.TIMEOUT, Verdict.ERROR)
_SKIPPED = (Verdict.XFAIL, Verdict.UNSUPPORTED, Verdict.SKIP)


def xml_text(text: str) -> str:
    """Return the text with the characters that XML forbids replaced."""
    return _FORBIDDEN.sub("\ufffd", text)


def write_junit(path: Path, results: Document) -> None:
    """Write a results document as JUnit XML, with one test suite per leg."""
    root = ElementTree.Element("testsuites", name="conformance")
    causes = {
        (number, row["id"]): issue_title(group)
        for group in groups.causes_of(results["legs"])
        for number, row in group.rows
    }
    for number, leg in enumerate(results["legs"]):
        root.append(
            _suite_element(leg, {name: cause for (of, name), cause in causes.items() if of == number})
        )
    ElementTree.indent(root)
    ElementTree.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)


def _suite_element(leg: Leg, causes: Mapping[str, str]) -> ElementTree.Element:
    by_case: dict[str, list[ResultRow]] = {}
    for row in leg["results"]:
        by_case.setdefault(row["id"].rpartition("@")[0], []).append(row)
    suite = ElementTree.Element("testsuite", name=xml_text(leg["name"]), timestamp=leg["started"])
    counts = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
    seconds = 0.0
    for case, rows in by_case.items():
        verdict = Verdict(leg["cases"][case])
        took = sum(row["seconds"] for row in rows)
        seconds += took
        name, _, subject = case.partition("/")
        element = ElementTree.SubElement(
            suite,
            "testcase",
            classname=f"{leg['mode']}.{xml_text(name)}",
            name=xml_text(subject),
            time=f"{took:.3f}",
        )
        counts["tests"] += 1
        if verdict in _ERRORS:
            counts["errors"] += 1
            _add_detail(element, "error", verdict, rows, causes)
        elif verdict.unexpected:
            counts["failures"] += 1
            _add_detail(element, "failure", verdict, rows, causes)
        elif verdict in _SKIPPED:
            counts["skipped"] += 1
            _add_detail(element, "skipped", verdict, rows, {})
        elif verdict is Verdict.PARITY:
            _add_detail(element, "system-out", verdict, rows, {})
    for key, value in counts.items():
        suite.set(key, str(value))
    suite.set("time", f"{seconds:.3f}")
    return suite


def _add_detail(
    case: ElementTree.Element, tag: str, verdict: Verdict, rows: list[ResultRow], causes: Mapping[str, str]
) -> None:
    worst = [row for row in rows if row["verdict"] == verdict.value]
    dtypes = ", ".join(ResultId.parse(row["id"]).dtype for row in worst)
    element = ElementTree.SubElement(case, tag)
    if tag != "system-out":
        element.set("type", verdict.value)
        element.set("message", xml_text(f"{verdict.value}: {causes.get(worst[0]['id'], dtypes)}"))
    lines = []
    for row in rows:
        if row["verdict"] != Verdict.PASS.value:
            lines.append(f"{row['id']} {row['verdict']} (seed {row.get('seed', 0)})")
            lines += [f"  {failure['kind']}: {failure['message']}" for failure in row.get("failures", ())]
            lines += [f"  note: {note}" for note in row.get("notes", ())]
    element.text = xml_text("\n".join(lines))
