"""Read the test reports of third-party programs, and write the page."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path
from xml.etree import ElementTree

from sessions.third_party.programs import ThirdPartyProgram

#: End of the name of a report that ranks may write too. pytest replaces the variable by the rank's number.
RANK = "-rank$LOCAL_RANK"


#: Matches the folders of an absolute path, but not of a URL.
FOLDERS = re.compile(r"(?<![\w:/])/(?:[\w.+-]+/)+")


@dataclasses.dataclass
class ProgramTestResults:
    """The test results of one run of a client."""

    program: ThirdPartyProgram
    run: str
    #: The versions of Python and torch.
    releases: str = ""
    passed: list[str] = dataclasses.field(default_factory=list)
    #: Tests that the client expects to fail, and tests that the client skips, by the client's reason.
    expected: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    skipped: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    #: Failed tests by cause. The empty cause means an unexpected failure.
    failed: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    #: Tests that failed in one process with other tests, and passed in a separate process. They count as
    #: passed.
    alone: list[str] = dataclasses.field(default_factory=list)
    note: str = ""


def read_reports(
    program: ThirdPartyProgram,
    name: str,
    reports: list[Path],
    retry_reports: Sequence[Path] = (),
    releases: str = "",
) -> ProgramTestResults:
    """Return the results of one run, from the reports of pytest and of the retries in separate processes.

    If the name of a report ends in `RANK`, the ranks that a test has started may have written further
    reports. The test then passes only if it passes in all these reports.
    """
    alone = {test for report in retry_reports for test in _passed_tests_in_report(report)}
    alone -= {
        test
        for report in retry_reports
        for rank in _rank_reports(report)
        for test, _ in _failures_in_report(rank)
    }
    outcome = ProgramTestResults(program, name, releases)
    for report in reports:
        failed = dict(failure for rank in _rank_reports(report) for failure in _failures_in_report(rank))
        try:
            _add_report(outcome, report, alone, failed)
        except FileNotFoundError:
            outcome.failed.setdefault("", []).append(
                f"pytest itself: it did not write the report {report.name}"
            )
        except ElementTree.ParseError:
            outcome.failed.setdefault("", []).append(f"pytest itself: its report {report.name} is damaged")
    if not outcome.passed and not outcome.failed:
        outcome.failed[""] = ["pytest itself: no test passed and no test failed"]
    return outcome


def _test_name(case: ElementTree.Element) -> str:
    # Some test names contain object addresses, which differ between runs.
    return re.sub(r" at 0x[0-9a-f]+", "", f"{case.get('classname', '')}.{case.get('name', '')}")


def _read_test_cases(report: Path) -> list[ElementTree.Element]:
    """Return the tests of a report; an empty list if the file is missing or broken."""
    try:
        return list(ElementTree.parse(report).iter("testcase"))
    except (FileNotFoundError, ElementTree.ParseError):
        return []


def _rank_reports(report: Path) -> list[Path]:
    """Return the reports of the ranks that belong to a report."""
    return (
        sorted(report.parent.glob(report.name.replace("$LOCAL_RANK", "[0-9]*")))
        if RANK in report.name
        else []
    )


def _failures_in_report(report: Path) -> Iterator[tuple[str, str]]:
    """Yield the failed tests of a report with their failure texts."""
    for case in _read_test_cases(report):
        for tag in ("failure", "error"):
            if (failure := case.find(tag)) is not None:
                yield _test_name(case), f"{failure.get('message', '')} {failure.text or ''}"


def _passed_tests_in_report(report: Path) -> Iterator[str]:
    for case in _read_test_cases(report):
        if all(case.find(tag) is None for tag in ("failure", "error", "skipped")):
            yield _test_name(case)


def _add_report(
    outcome: ProgramTestResults, report: Path, alone: Set[str], failed_in_ranks: Mapping[str, str]
) -> None:
    program = outcome.program
    for case in ElementTree.parse(report).iter("testcase"):
        test = _test_name(case)
        failure = next(
            (element for tag in ("failure", "error") if (element := case.find(tag)) is not None), None
        )
        if failure is not None and test in alone:
            outcome.passed.append(test)
            outcome.alone.append(test)
        elif failure is not None or test in failed_in_ranks:
            failure_text = failed_in_ranks.get(test, "")
            if failure is not None:
                failure_text = f"{failure.get('message', '')} {failure.text or ''} {failure_text}"
            searched_text = f"{test}: {failure_text}"
            cause = next(
                (
                    explanation
                    for pattern, explanation in program.known_failures.items()
                    if re.search(pattern, searched_text)
                ),
                "",
            )
            outcome.failed.setdefault(cause, []).append(test)
        elif (skipped := case.find("skipped")) is None:
            outcome.passed.append(test)
        elif skipped.get("type") == "pytest.xfail":
            outcome.expected.setdefault(_quoted_reason(skipped), []).append(test)
        else:
            outcome.skipped.setdefault(_quoted_reason(skipped), []).append(test)


def _quoted_reason(skipped: ElementTree.Element) -> str:
    """Return the first line of a client's reason, in quotes and without folder names.

    The quotes mark the reason as a text of the client.
    """
    message = " ".join((skipped.get("message") or "").split("\n")[0].split()).replace("`", "'")
    return f'"{re.sub(FOLDERS, "", message)}"' if message else ""


def _count_tests(tests: Mapping[str, Sequence[str]]) -> int:
    return sum(map(len, tests.values()))


def counts_sentence(outcome: ProgramTestResults) -> str:
    """Return the numbers of passed, failed and skipped tests of a run as a phrase."""
    if outcome.note:
        return outcome.note
    return (
        f"{len(outcome.passed)} passed, {_count_tests(outcome.expected)} fail as the client expects, "
        f"{_count_tests(outcome.failed)} failed, {_count_tests(outcome.skipped)} not applicable"
    )


def page_lines(outcomes: list[ProgramTestResults]) -> Iterator[str]:
    """Yield the lines of ``docs/third-party-programs.md``."""
    yield "# Third-party programs"
    yield ""
    yield (
        "Unchanged third-party programs run on the reference device in eager mode. `nox -s third_party -- "
        "--page` writes this page. lightning-habana runs its own tests, and accelerate its own scripts. The "
        "other programs run in tests of this project, which train with the program and check the results. "
        "`--tree NAME=PATH` passes the source of a program that no package index has."
    )
    yield ""
    yield "| client | version | Python, torch | run | passed | fail as expected | failed | not applicable |"
    yield "|---|---|---|---|---|---|---|---|"
    for outcome in outcomes:
        other_counts = (
            _count_tests(outcome.expected),
            _count_tests(outcome.failed),
            _count_tests(outcome.skipped),
        )
        counts = (outcome.note, "", "", "") if outcome.note else (len(outcome.passed), *other_counts)
        cells = (outcome.program.name, outcome.program.version, outcome.releases, outcome.run, *counts)
        yield f"| {' | '.join(map(str, cells))} |"
    for program in dict.fromkeys(outcome.program.name for outcome in outcomes):
        yield from _never_passed_lines([outcome for outcome in outcomes if outcome.program.name == program])
    for outcome in outcomes:
        if outcome.alone:
            yield ""
            yield f"## {outcome.program.name}, {outcome.run}: passed in a separate process"
            yield ""
            yield "These tests failed in one process with other tests, and passed in a separate process."
            yield ""
            yield "```text"
            yield from sorted(outcome.alone)
            yield "```"
        yield from _lines_by_reason(outcome, "failed tests", outcome.failed, "**Not explained**")
        yield from _lines_by_reason(
            outcome, "tests that the client expects to fail", outcome.expected, "no reason given"
        )
        yield from _lines_by_reason(
            outcome, "tests that the client skips", outcome.skipped, "no reason given"
        )


def _never_passed_lines(outcomes: Sequence[ProgramTestResults]) -> Iterator[str]:
    """Yield the lines that list the client's own tests that passed in no run."""
    program = outcomes[0].program
    if not program.own_test_count or any(outcome.note for outcome in outcomes):
        return
    own_runs = {run.name for run in program.runs if not run.arguments[0].startswith("{backend}")}
    passed_tests, not_passed_tests = set[str](), set[str]()
    for outcome in outcomes:
        if outcome.run in own_runs:
            passed_tests.update(outcome.passed, *outcome.expected.values())
            not_passed_tests.update(*outcome.failed.values(), *outcome.skipped.values())
    never_passed = sorted(not_passed_tests - passed_tests)
    reported_count = len(passed_tests) + len(never_passed)
    yield ""
    yield (
        f"{len(passed_tests)} of the {program.own_test_count} tests of {program.name} pass, or fail as "
        f"{program.name} expects, in at least one run.{' The other tests:' if never_passed else ''}"
    )
    if never_passed:
        yield from ("", "```text", *never_passed, "```")
    if reported_count != program.own_test_count:
        yield from ("", f"**The runs of {program.name} report {reported_count} tests.**")


def _lines_by_reason(
    outcome: ProgramTestResults, title: str, tests: Mapping[str, Sequence[str]], without: str
) -> Iterator[str]:
    """Yield the lines that list tests by reason. ``without`` replaces an empty reason."""
    if not tests:
        return
    yield ""
    yield f"## {outcome.program.name}, {outcome.run}: {title}"
    yield ""
    for reason, names in sorted(tests.items(), key=lambda row: -len(row[1])):
        yield f"{reason or without}: {len(names)}"
        yield ""
        yield "```text"
        yield from sorted(names)
        yield "```"
        yield ""


def errors_of_suite(results: Path) -> list[str]:
    """Return the ids of the results of a run whose verdict is ``error``, a fault of the suite."""
    legs = json.loads(results.read_text())["legs"]
    return [row["id"] for leg in legs for row in leg["results"] if row["verdict"] == "error"]
