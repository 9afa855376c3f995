"""Reports of the tests of programs, and the page that they become."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path
from xml.etree import ElementTree

from sessions.third_party.programs import Client

#: End of the name of a report that ranks may write: pytest puts in the number of a process that is one.
RANK = "-rank$LOCAL_RANK"


#: The folders of an absolute path, not those of an address.
FOLDERS = re.compile(r"(?<![\w:/])/(?:[\w.+-]+/)+")


@dataclasses.dataclass
class ProgramTestResults:
    """The tests of one run of a client."""

    client: Client
    run: str
    #: The releases of Python and torch that ran them.
    releases: str = ""
    passed: list[str] = dataclasses.field(default_factory=list)
    #: Tests that the client expects to fail, and tests that it skips here, by its reason.
    expected: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    skipped: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    #: Failed tests by cause; the empty cause is that of a failure that no one expects.
    failed: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    #: Tests that failed beside others and passed in a process of their own; they count as passed.
    alone: list[str] = dataclasses.field(default_factory=list)
    note: str = ""


def read(
    client: Client, name: str, reports: list[Path], again: Sequence[Path] = (), releases: str = ""
) -> ProgramTestResults:
    """Read the reports of pytest for one run, and those of its failed tests that each ran again alone.

    A report whose name ends in `RANK` may have others beside it, of the ranks that a test started; a test
    passed if it passed in all of them.
    """
    alone = {test for report in again for test in _passed(report)}
    alone -= {test for report in again for rank in _of_ranks(report) for test, _ in _failures(rank)}
    outcome = ProgramTestResults(client, name, releases)
    for report in reports:
        failed = dict(one for rank in _of_ranks(report) for one in _failures(rank))
        try:
            _add(outcome, report, alone, failed)
        except FileNotFoundError:
            outcome.failed.setdefault("", []).append(f"the test runner, which wrote no report {report.name}")
        except ElementTree.ParseError:
            outcome.failed.setdefault("", []).append(f"the test runner, whose report {report.name} is broken")
    if not outcome.passed and not outcome.failed:
        outcome.failed[""] = ["the test runner, which passed no test"]
    return outcome


def _name(case: ElementTree.Element) -> str:
    # Names of some tests have addresses of objects, which differ from run to run.
    return re.sub(r" at 0x[0-9a-f]+", "", f"{case.get('classname', '')}.{case.get('name', '')}")


def _cases(report: Path) -> list[ElementTree.Element]:
    """The tests of a report; none if it is not there, or broken."""
    try:
        return list(ElementTree.parse(report).iter("testcase"))
    except (FileNotFoundError, ElementTree.ParseError):
        return []


def _of_ranks(report: Path) -> list[Path]:
    """The reports of the ranks beside one."""
    return (
        sorted(report.parent.glob(report.name.replace("$LOCAL_RANK", "[0-9]*")))
        if RANK in report.name
        else []
    )


def _failures(report: Path) -> Iterator[tuple[str, str]]:
    """Yield tests that failed in a report, and what they say."""
    for case in _cases(report):
        for word in ("failure", "error"):
            if (failure := case.find(word)) is not None:
                yield _name(case), f"{failure.get('message', '')} {failure.text or ''}"


def _passed(report: Path) -> Iterator[str]:
    for case in _cases(report):
        if all(case.find(word) is None for word in ("failure", "error", "skipped")):
            yield _name(case)


def _add(
    outcome: ProgramTestResults, report: Path, alone: Set[str], failed_in_ranks: Mapping[str, str]
) -> None:
    client = outcome.client
    for case in ElementTree.parse(report).iter("testcase"):
        test = _name(case)
        failure = next((one for word in ("failure", "error") if (one := case.find(word)) is not None), None)
        if failure is not None and test in alone:
            outcome.passed.append(test)
            outcome.alone.append(test)
        elif failure is not None or test in failed_in_ranks:
            said = failed_in_ranks.get(test, "")
            if failure is not None:
                said = f"{failure.get('message', '')} {failure.text or ''} {said}"
            words = f"{test}: {said}"
            cause = next((why for what, why in client.misses.items() if re.search(what, words)), "")
            outcome.failed.setdefault(cause, []).append(test)
        elif (skipped := case.find("skipped")) is None:
            outcome.passed.append(test)
        elif skipped.get("type") == "pytest.xfail":
            outcome.expected.setdefault(_reason(skipped), []).append(test)
        else:
            outcome.skipped.setdefault(_reason(skipped), []).append(test)


def _reason(skipped: ElementTree.Element) -> str:
    """The first line of what a client says of a test that it leaves out, with files by their names alone.

    In quotes, since its words are no names of this project.
    """
    words = " ".join((skipped.get("message") or "").split("\n")[0].split()).replace("`", "'")
    return f'"{re.sub(FOLDERS, "", words)}"' if words else ""


def _count(tests: Mapping[str, Sequence[str]]) -> int:
    return sum(map(len, tests.values()))


def sentence(outcome: ProgramTestResults) -> str:
    """Counts of an outcome in words."""
    if outcome.note:
        return outcome.note
    return (
        f"{len(outcome.passed)} passed, {_count(outcome.expected)} fail as the client expects, "
        f"{_count(outcome.failed)} failed, {_count(outcome.skipped)} not applicable"
    )


def page(outcomes: list[ProgramTestResults]) -> Iterator[str]:
    """Yield the lines of the page."""
    yield "# Programs of others"
    yield ""
    yield (
        "Programs on the reference device, unchanged, in eager mode; `nox -s third_party -- --page` writes this "
        "page. The tests of lightning-habana and the scripts of accelerate are their own; those of the "
        "others are this project's, which train with them and check what they compute. A client that no "
        "package index has needs `--tree NAME=PATH`."
    )
    yield ""
    yield "| client | version | Python, torch | run | passed | fail as expected | failed | not applicable |"
    yield "|---|---|---|---|---|---|---|---|"
    for one in outcomes:
        others = (_count(one.expected), _count(one.failed), _count(one.skipped))
        counts = (one.note, "", "", "") if one.note else (len(one.passed), *others)
        words = (one.client.name, one.client.version, one.releases, one.run, *counts)
        yield f"| {' | '.join(map(str, words))} |"
    for client in dict.fromkeys(one.client.name for one in outcomes):
        yield from _standing([one for one in outcomes if one.client.name == client])
    for one in outcomes:
        if one.alone:
            yield ""
            yield f"## {one.client.name}, {one.run}: passed in a process of its own"
            yield ""
            yield "These failed after other tests of the client in their process, and pass without them."
            yield ""
            yield "```text"
            yield from sorted(one.alone)
            yield "```"
        yield from _named(one, "what failed", one.failed, "**Not explained**")
        yield from _named(one, "what the client expects to fail", one.expected, "no reason given")
        yield from _named(one, "not applicable, as the client says", one.skipped, "no reason given")


def _standing(outcomes: Sequence[ProgramTestResults]) -> Iterator[str]:
    """Yield the lines that name the tests of a client's own which none of its runs has passed."""
    client = outcomes[0].client
    if not client.tests or any(one.note for one in outcomes):
        return
    theirs = {run.name for run in client.runs if not run.arguments[0].startswith("{backend}")}
    held, seen = set[str](), set[str]()
    for one in outcomes:
        if one.run in theirs:
            held.update(one.passed, *one.expected.values())
            seen.update(*one.failed.values(), *one.skipped.values())
    others = sorted(seen - held)
    known = len(held) + len(others)
    yield ""
    yield (
        f"Of the {client.tests} tests of {client.name} {len(held)} pass, or fail as it expects, in one of "
        f"its runs{'. The others:' if others else '.'}"
    )
    if others:
        yield from ("", "```text", *others, "```")
    if known != client.tests:
        yield from ("", f"**Its runs report {known} tests.**")


def _named(
    outcome: ProgramTestResults, title: str, tests: Mapping[str, Sequence[str]], without: str
) -> Iterator[str]:
    """Yield the lines that name tests by their reasons; ``without`` stands for a reason that is empty."""
    if not tests:
        return
    yield ""
    yield f"## {outcome.client.name}, {outcome.run}: {title}"
    yield ""
    for reason, names in sorted(tests.items(), key=lambda row: -len(row[1])):
        yield f"{reason or without}: {len(names)}"
        yield ""
        yield "```text"
        yield from sorted(names)
        yield "```"
        yield ""
