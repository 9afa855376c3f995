"""Learning which results can wake which fault, from one run behind the interposer."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from conformance.errors import UsageError
from conformance.model.verdicts import Verdict
from conformance.model.vocabulary import LEVELS
from conformance.plan.selection import Matcher
from conformance.process_control.child import ChildEnd
from conformance.process_control.supervisor import Supervisor
from conformance.samples.dispatched_kernels import base_name
from tools.mutation import campaign, operators
from tools.mutation.campaign import Job
from tools.mutation.designated_properties import ALSO_DESIGNATED, DESIGNATED
from tools.mutation.mutant import Fault, scalar_types

#: Seconds that a worker may be silent while it learns.
PATIENCE = 900.0


@dataclasses.dataclass(order=True)
class ResultCoverage:
    """One result without a fault: its verdict, its seconds, and the conditions that its calls met."""

    result: str
    verdict: str
    seconds: float
    #: Pairs of a fault's number and a dtype's, flat.
    met: list[int]
    #: Triples of a place's number, a question's and a dtype's, flat.
    calls: list[int]

    def line(self) -> str:
        """Return the lesson as a line of JSON."""
        return json.dumps(dataclasses.astuple(self), separators=(",", ":")) + "\n"


@dataclasses.dataclass
class Learned:
    """The faults that there can be, the results of each level, and the lessons."""

    digest: str
    faults: list[str]
    levels: dict[str, list[str]]
    lessons: list[ResultCoverage]

    def level_of(self) -> dict[str, int]:
        """By result, the narrowest level that has it, as an index of LEVELS."""
        found: dict[str, int] = {}
        for index, level in reversed(list(enumerate(LEVELS))):
            found.update(dict.fromkeys(self.levels[level], index))
        return found

    def called_at(self, level: str) -> set[str]:
        """Return the places that the results of a level call."""
        chosen, places = set(self.levels[level]), self.places()
        return {
            places[number]
            for lesson in self.lessons
            if lesson.result in chosen
            for number in lesson.calls[::3]
        }

    def taken_at(self, level: str) -> set[str]:
        """Return the places of the overloads that a level takes: what it holds to account itself."""
        taken = {
            base_name(result.partition("/")[2].rpartition("@")[0])
            for result in self.levels[level]
            if result.startswith("overload-")
        }
        return {place for place in self.places() if base_name(place) in taken}

    def places(self) -> list[str]:
        """The places, in the order of their numbers."""
        return list(dict.fromkeys(Fault.parse(name).place for name in self.faults))

    def write(self, path: Path) -> None:
        """Write everything as lines of JSON, the head first."""
        head = {"digest": self.digest, "faults": self.faults, "levels": self.levels}
        with path.open("w") as file:
            file.write(json.dumps(head, separators=(",", ":")) + "\n")
            file.writelines(lesson.line() for lesson in self.lessons)

    @staticmethod
    def read(path: Path) -> Learned:
        """Read what :meth:`write` wrote; UsageError if it is not whole."""
        try:
            with path.open() as file:
                head = json.loads(next(file))
                lessons = [ResultCoverage(*json.loads(line)) for line in file if line.endswith("\n")]
            return Learned(head["digest"], head["faults"], head["levels"], lessons)
        except (OSError, StopIteration, ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{path} is not what a learning run wrote ({error}); remove it") from None


def learn(workers: Supervisor[Job], path: Path, select: Matcher, expression: str) -> Learned:
    """Run every chosen result of the full level once behind the interposer, with no fault active.

    What was learned from the same suite, torch, device and selection before is read from ``path``; UsageError
    if the file there is of others.
    """
    [(_, described)] = workers.run_units([{"do": "describe"}], silence=PATIENCE)
    if isinstance(described, ChildEnd):
        raise RuntimeError(f"a worker could not describe the faults ({campaign.verdict(described)})")
    digest = hashlib.sha256(f"{described['digest']} {expression}".encode()).hexdigest()
    if path.exists():
        learned = Learned.read(path)
        if learned.digest != digest:
            raise UsageError(
                f"{path} was learned from another suite, torch, device or selection; take another output "
                "folder or remove it"
            )
        return learned
    learned = Learned(digest, described["faults"], described["levels"], [])
    jobs = list(_by_subject(described["cases"], select))
    unfinished = path.with_suffix(".part")
    known: set[str] = set()
    if unfinished.exists():
        before = Learned.read(unfinished)
        if before.digest == digest:
            learned.lessons = before.lessons
            known = {lesson.result for lesson in before.lessons}
    learned.write(unfinished)
    jobs = [job for job in jobs if not known.issuperset(_results(job))]
    with unfinished.open("a") as journal:
        for ended, (_, reply) in enumerate(workers.run_units(jobs, silence=PATIENCE), 1):
            if isinstance(reply, ChildEnd):
                # Behind the interposer this result ends the process: no mutant is tried on its subject.
                how = campaign.verdict(reply)
                print(f"{reply.step} ended a worker without any fault ({how}); left out", flush=True)
                continue
            lessons = [ResultCoverage(*row) for row in reply["learned"]]
            learned.lessons += lessons
            journal.write("".join(lesson.line() for lesson in lessons))
            journal.flush()
            if ended % 100 == 0:
                print(f"learned from {ended} of {len(jobs)} subjects", flush=True)
    unfinished.unlink()
    learned.lessons = sorted({lesson.result: lesson for lesson in learned.lessons}.values())
    learned.write(path)
    return learned


def _results(job: Job) -> list[str]:
    return [f"{name}/{subject}@{dtype}" for _, name, subject, dtypes in job["cases"] for dtype in dtypes]


def _by_subject(cases: Iterable[list[Any]], select: Matcher) -> Iterator[Job]:
    jobs: dict[tuple[str, str], list[Any]] = {}
    for kind, name, subject, dtypes in cases:
        chosen = [dtype for dtype in dtypes if select(f"{name}/{subject}@{dtype}")]
        if chosen:
            jobs.setdefault((kind, subject), []).append([kind, name, subject, chosen])
    for job in jobs.values():
        yield {"do": "learn", "cases": job}


def _distance(mutant: Fault, result: str) -> int:
    """Return 0 for the property that is there to see the mutant, on an overload of its place, and for
    behaviours that are there to see it; 1 for other results of these overloads, and 2 for those of others.

    What the front does wrong is for behaviours to see: 1 for any of them, 2 for results of overloads.
    """
    name, _, subject = result.partition("/")
    area = subject.rpartition("@")[0]
    if name in ALSO_DESIGNATED.get(mutant.kind, ()) or area == DESIGNATED.get(mutant.kind):
        return 0
    if not mutant.is_of_kernel:
        return 2 if name.startswith("overload-") else 1
    if not name.startswith("overload-") or base_name(subject.rpartition("@")[0]) != base_name(mutant.place):
        return 2
    return int(DESIGNATED.get(mutant.kind) != name)


@dataclasses.dataclass
class Reach:
    """By mutant, the results that can wake it, best first; by place, what its calls were like."""

    results: dict[Fault, list[str]]
    #: By place and question, the dtypes of the calls for which the answer is yes.
    calls: dict[tuple[str, str], set[str]]


def reach(learned: Learned, mutants: Iterable[Fault], most: int) -> Reach:
    """Order, for each mutant, the results that passed and met its condition, at most ``most`` per level.

    First come the results of the narrowest level; among these the property that is there to see the kind, on
    the overloads of the place, then its other results, and then the ones that meet the fewest conditions and
    the quick ones.
    """
    names = {number: name for name, number in scalar_types().items()}
    numbers = {name: index for index, name in enumerate(learned.faults)}
    wanted: dict[tuple[int, str | None], Fault] = {
        (numbers[str(mutant.anywhere())], mutant.dtype): mutant for mutant in mutants
    }
    level_of = learned.level_of()
    places = learned.places()
    found: dict[Fault, list[tuple[int, int, int, float, str]]] = {mutant: [] for mutant in wanted.values()}
    calls: dict[tuple[str, str], set[str]] = {}
    for lesson in learned.lessons:
        for place, question, number in zip(*[iter(lesson.calls)] * 3, strict=True):
            key = places[place], operators.QUESTIONS[question]
            calls.setdefault(key, set()).add(names.get(number, "none"))
        if lesson.verdict != Verdict.PASS.value:
            continue
        level = level_of[lesson.result]
        rest = (len(lesson.met), lesson.seconds, lesson.result)
        seen: set[Fault] = set()
        for fault, number in zip(*[iter(lesson.met)] * 2, strict=True):
            for dtype in (None, names.get(number)):
                mutant = wanted.get((fault, dtype))
                if mutant is not None and mutant not in seen:
                    seen.add(mutant)
                    found[mutant].append((level, _distance(mutant, lesson.result), *rest))
    results: dict[Fault, list[str]] = {}
    for mutant, ranks in found.items():
        taken = [0] * len(LEVELS)
        chosen = results[mutant] = []
        for level, *_, result in sorted(ranks):
            taken[level] += 1
            if taken[level] <= most:
                chosen.append(result)
    return Reach(results, calls)
