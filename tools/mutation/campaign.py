"""Run the mutants of a campaign, each on the results that trigger it, and keep a journal of the outcomes."""

from __future__ import annotations

import dataclasses
import enum
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from conformance.errors import UsageError
from conformance.model.verdicts import Verdict
from conformance.process_control.child import ChildEnd, EndKind
from conformance.process_control.supervisor import Supervisor
from tools.mutation.mutant import Mutant

#: The JSON object that a worker receives as one unit of work; see :mod:`tools.mutation.worker`.
Job: TypeAlias = Mapping[str, Any]

#: The time limit in seconds for all results of one mutant.
LIMIT = 60.0
#: The time limit in seconds for one result. A result that exceeds the limit kills its mutant.
PATIENCE = 60.0


class Fate(enum.Enum):
    """The outcome of a mutant: killed, survived, or not covered. ``NOT_COVERED`` means not covered."""

    KILLED = "killed"
    SURVIVED = "survived"
    NOT_COVERED = "asleep"


@dataclasses.dataclass(frozen=True)
class MutantResult:
    """The outcome of one mutant: its fate and counts.

    Attributes:
        killer: the id of the killing result.
        how: the verdict of the killing result; ``crash`` or ``timeout`` if the worker was lost.
        kind: the failure kind of the killing result.
        parity: True if every result that kills the mutant has only deviations of basis parity.
        calls: the number of triggered calls.
        effects: the number of altered calls.
        ran: the number of results that ran.
        selected: the number of results that were selected to run.
        unreliable: the results that failed with the mutant and failed again without the mutant.
    """

    mutant: str
    fate: str
    killer: str | None = None
    how: str | None = None
    kind: str | None = None
    parity: bool = False
    calls: int = 0
    effects: int = 0
    ran: int = 0
    selected: int = 0
    seconds: float = 0.0
    unreliable: Sequence[str] = ()


def verdict_of_lost_worker(end: ChildEnd) -> str:
    """Return the verdict of the result that ran when a worker ended: ``timeout`` or ``crash``."""
    return Verdict.TIMEOUT.value if end.how is EndKind.STALLED else Verdict.CRASH.value


def mutant_result(job: Job, reply: Mapping[str, Any] | ChildEnd) -> MutantResult:
    """Return the outcome of the mutant of a job. ``reply`` is the reply or the end of the worker."""
    selected = len(job["results"])
    if isinstance(reply, ChildEnd):
        how = verdict_of_lost_worker(reply)
        return MutantResult(job["fault"], Fate.KILLED.value, reply.step, how, how, selected=selected)
    fate = Fate.KILLED if reply["killer"] else Fate.SURVIVED if reply["effects"] else Fate.NOT_COVERED
    return MutantResult(
        mutant=job["fault"],
        fate=fate.value,
        killer=reply["killer"],
        how=reply["how"],
        kind=reply["kind"],
        parity=reply["parity"],
        calls=reply["met"],
        effects=reply["effects"],
        ran=reply["ran"],
        selected=selected,
        seconds=reply["seconds"],
        unreliable=reply["unreliable"],
    )


class Journal:
    """The file with the outcomes of a campaign.

    The first line contains the digest of the campaign; each further line is one outcome in JSON.
    """

    def __init__(self, path: Path, digest: str) -> None:
        self.path = path
        self.done: dict[str, MutantResult] = {}
        text = path.read_text() if path.exists() else ""
        if text:
            lines = text.splitlines()
            if json.loads(lines[0]).get("digest") != digest:
                raise UsageError(
                    f"{path} was written by a different suite, device or selection of mutants. Delete it or "
                    "choose another output folder with -o."
                )
            for line in lines[1:]:
                try:
                    finished = MutantResult(**json.loads(line))
                except ValueError:
                    continue  # the last line of a run that was terminated during a write
                self.done[finished.mutant] = finished
        self._file = path.open("a")
        if not text:
            self._write_line({"digest": digest})
        elif not text.endswith("\n"):
            self._file.write("\n")

    def _write_line(self, row: Mapping[str, object]) -> None:
        self._file.write(json.dumps(row, separators=(",", ":")) + "\n")
        self._file.flush()

    def add(self, finished: MutantResult) -> None:
        """Write an outcome to the file."""
        self.done[finished.mutant] = finished
        self._write_line(dataclasses.asdict(finished))


def _subject_and_property(result: str) -> tuple[str, str]:
    name, _, subject = result.partition("/")
    return subject, name


def run_mutants(
    workers: Supervisor[Job],
    mutants: Iterable[Mutant],
    results: Mapping[Mutant, Sequence[str]],
    journal: Journal,
    progress: int = 500,
) -> list[MutantResult]:
    """Run the mutants that the journal does not contain, and return the outcomes of all mutants.

    ``results`` maps each mutant to the results that can trigger it. The function prints a line after each
    ``progress`` mutants.
    """
    ordered = list(mutants)
    jobs: list[Job] = []
    for mutant in ordered:
        name = str(mutant)
        if name in journal.done:
            continue
        if not results[mutant]:
            journal.add(MutantResult(name, Fate.NOT_COVERED.value))
            continue
        jobs.append({"do": "attempt", "fault": name, "results": list(results[mutant]), "limit": LIMIT})
    # Successive jobs of one subject share its samples and reference values, which a worker caches.
    jobs.sort(key=lambda job: _subject_and_property(job["results"][0]))
    print(f"{len(jobs)} of {len(ordered)} mutants to run", flush=True)
    for count, (job, reply) in enumerate(workers.run_units(jobs, silence=PATIENCE), 1):
        journal.add(mutant_result(job, reply))
        if count % progress == 0:
            print(f"{count} of {len(jobs)}", flush=True)
    return [journal.done[str(mutant)] for mutant in ordered]
