"""Write and read the files of an output folder. All commands use these functions."""

from __future__ import annotations

import contextlib
import functools
import tempfile
from collections.abc import Sequence
from pathlib import Path

from conformance.errors import UsageError
from conformance.expectations import entries
from conformance.expectations.entries import TargetExpectations
from conformance.model.records import Document, Header, Leg
from conformance.report import html, junit, snippet_lookup, time_profile
from conformance.report.headline import ReportOpening
from conformance.results import document as results
from conformance.results import run_folder
from conformance.results.journal import JournalTail
from conformance.target import file as target_file


def write_reports(
    folder: Path,
    legs: list[Leg],
    opening: ReportOpening | None = None,
    sources: Sequence[Path] = (),
) -> Document:
    """Write the results, the JUnit XML, the report, and the time profile of profiled legs.

    The old files stay as they are until all new files are complete.

    Args:
        folder: the output folder.
        legs: the legs of the run.
        opening: the opening of the report, if any.
        sources: folders of other runs whose journals belong to these legs.

    Returns:
        The results document.
    """
    document = results.results_document(legs)
    journals = [path for source in (folder, *sources) for path in run_folder.journal_paths(source)]
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".new-") as scratch_name:
        scratch = Path(scratch_name)
        results.write_results(scratch / "results.json", document)
        junit.write_junit(scratch / "junit.xml", document)
        profile_files = time_profile.write_profile(scratch, [path for path in journals if _is_profiled(path)])
        html.write_page(
            scratch / "report.html",
            document,
            html.LinkedFiles(
                profile_files[0].name if profile_files else None,
                functools.partial(snippet_lookup.read_snippet, (folder, *sources)),
            ),
            opening,
        )
        for file in sorted(scratch.iterdir()):
            file.replace(folder / file.name)
    return document


def _is_profiled(journal: Path) -> bool:
    header = run_folder.journal_header(journal)
    options = header.get("options") if header is not None else None
    return isinstance(options, dict) and bool(options.get("profile"))


def leg_folders(folder: Path) -> list[Path]:
    """Return the folders ``legs/NAME`` of an output folder that contain a journal, sorted by name."""
    return sorted(path.parent for path in folder.glob("legs/*/journal.jsonl"))


def leg_from_journal(folder: Path, target_expectations: TargetExpectations | None = None) -> Leg:
    """Build a leg from the journal in a folder.

    If ``target_expectations`` is None, the function reads the expectations that the target file names. If the
    target file has changed since the run, it reads the suite's expectations for the name of the target.
    """
    journal = folder / "journal.jsonl"
    if target_expectations is None:
        header = next(
            (event for event in JournalTail(journal).read(final=True) if event["event"] == "run"), None
        )
        target_expectations = entries.load_expectations(_expectation_files(header))
    return results.leg_from_journal(journal, target_expectations)


def _expectation_files(header: Header | None) -> list[Path]:
    """Return the expectation files of the target that the header of a journal names."""
    if header is None:
        return []
    try:
        name, digest = header["target"]["name"], header["digests"]["target"]
        target_argument = header["options"]["target"]
    except (KeyError, TypeError):
        return []
    with contextlib.suppress(UsageError, TypeError, AttributeError):
        file = target_file.load(target_argument)
        if file.digest == digest:
            return entries.expectation_files(file.name, file.expectations)
    return entries.expectation_files(str(name))


def read_legs(folder: Path) -> list[Leg]:
    """Return the legs of an output folder.

    If ``results.json`` is missing (the run was killed), the legs are built from the journals. Raise
    UsageError if the folder has neither results nor journals.
    """
    if (folder / "results.json").is_file():
        return results.read_results(folder / "results.json")["legs"]
    if (folder / "journal.jsonl").is_file():
        return [leg_from_journal(folder)]
    legs = [leg for part in leg_folders(folder) for leg in read_legs(part)]
    if not legs:
        raise UsageError(f"{folder} contains no results; give the output folder of a run")
    return legs
