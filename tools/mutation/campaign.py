"""A campaign: every mutant of a catalogue against the results that can trigger it, with a journal."""

from __future__ import annotations

import dataclasses
import enum
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from conformance.errors import UsageError
from conformance.model.verdicts import Verdict
from conformance.process_control.child import ChildEnd, How
from conformance.process_control.supervisor import Supervisor
from tools.mutation.mutant import Mutant

#: The commands of a worker; see :mod:`tools.mutation.worker`.
Job: TypeAlias = Mapping[str, Any]

#: Seconds for the results of one mutant.
LIMIT = 60.0
#: Seconds that one result may take; past it the mutant hangs.
PATIENCE = 60.0


class Fate(enum.Enum):
    """The end of a mutant."""

    KILLED = "killed"
    SURVIVED = "survived"
    ASLEEP = "asleep"


@dataclasses.dataclass(frozen=True)
class MutantResult:
    """The fate of one mutant.

    ``killer`` is the result that saw it, ``how`` its verdict or ``crash`` or ``timeout``, ``kind`` the kind
    of its failure; ``calls`` and ``effects`` count calls that met the condition and calls that it changed;
    ``ran`` of ``due`` results ran.
    """

    mutant: str
    fate: str
    killer: str | None = None
    how: str | None = None
    kind: str | None = None
    calls: int = 0
    effects: int = 0
    ran: int = 0
    due: int = 0
    seconds: float = 0.0
    unreliable: Sequence[str] = ()


def verdict(end: ChildEnd) -> str:
    """Return the verdict that the end of a worker means for the result that it ran."""
    return Verdict.TIMEOUT.value if end.how is How.STALLED else Verdict.CRASH.value


def outcome(job: Job, words: Mapping[str, Any] | ChildEnd) -> MutantResult:
    """Return the fate of a mutant, from the reply of its worker or from the worker's end."""
    due = len(job["results"])
    if isinstance(words, ChildEnd):
        how = verdict(words)
        return MutantResult(job["fault"], Fate.KILLED.value, words.step, how, how, due=due)
    fate = Fate.KILLED if words["killer"] else Fate.SURVIVED if words["effects"] else Fate.ASLEEP
    return MutantResult(
        mutant=job["fault"],
        fate=fate.value,
        killer=words["killer"],
        how=words["how"],
        kind=words["kind"],
        calls=words["met"],
        effects=words["effects"],
        ran=words["ran"],
        due=due,
        seconds=words["seconds"],
        unreliable=words["unreliable"],
    )


class Journal:
    """The outcomes on disk, one line each, under the digest of what they belong to."""

    def __init__(self, path: Path, digest: str) -> None:
        self.path = path
        self.done: dict[str, MutantResult] = {}
        text = path.read_text() if path.exists() else ""
        if text:
            lines = text.splitlines()
            if json.loads(lines[0]).get("digest") != digest:
                raise UsageError(
                    f"{path} belongs to another suite, device or catalogue; take another output folder or "
                    "remove it"
                )
            for line in lines[1:]:
                try:
                    one = MutantResult(**json.loads(line))
                except ValueError:
                    continue  # the last line of a run that was ended while it wrote
                self.done[one.mutant] = one
        self._file = path.open("a")
        if not text:
            self._line({"digest": digest})
        elif not text.endswith("\n"):
            self._file.write("\n")

    def _line(self, row: Mapping[str, object]) -> None:
        self._file.write(json.dumps(row, separators=(",", ":")) + "\n")
        self._file.flush()

    def add(self, one: MutantResult) -> None:
        """Write an outcome."""
        self.done[one.mutant] = one
        self._line(dataclasses.asdict(one))


def _subject_first(result: str) -> tuple[str, str]:
    name, _, subject = result.partition("/")
    return subject, name


def run(
    workers: Supervisor[Job],
    mutants: Iterable[Mutant],
    results: Mapping[Mutant, Sequence[str]],
    journal: Journal,
    progress: int = 500,
) -> list[MutantResult]:
    """Run what the journal does not have yet, and return the outcomes of all mutants."""
    ordered = list(mutants)
    jobs: list[Job] = []
    for mutant in ordered:
        name = str(mutant)
        if name in journal.done:
            continue
        if not results[mutant]:
            journal.add(MutantResult(name, Fate.ASLEEP.value))
            continue
        jobs.append({"do": "attempt", "fault": name, "results": list(results[mutant]), "limit": LIMIT})
    # Neighbours share the inputs and the CPU's answers of their subject, which a worker keeps for a while.
    jobs.sort(key=lambda job: _subject_first(job["results"][0]))
    print(f"{len(jobs)} of {len(ordered)} mutants to run", flush=True)
    for count, (job, reply) in enumerate(workers.run_units(jobs, silence=PATIENCE), 1):
        journal.add(outcome(job, reply))
        if count % progress == 0:
            print(f"{count} of {len(jobs)}", flush=True)
    return [journal.done[str(mutant)] for mutant in ordered]
