"""Coverage run: record which result triggers which mutant, in one run of the suite without active mutants."""

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
from tools.mutation.mutant import Mutant, scalar_types

#: The silence limit in seconds of a worker during the coverage run.
PATIENCE = 900.0


@dataclasses.dataclass(order=True)
class ResultCoverage:
    """The coverage of one result: verdict and seconds without a mutant, triggered mutants, kinds of calls."""

    result: str
    verdict: str
    seconds: float
    #: Pairs of (mutant index, dtype number), as one flat list.
    triggered: list[int]
    #: Triples of (point index, index of the kind of call, dtype number), as one flat list.
    calls: list[int]

    def line(self) -> str:
        """Return the coverage as a line of JSON."""
        return json.dumps(dataclasses.astuple(self), separators=(",", ":")) + "\n"


@dataclasses.dataclass
class CoverageData:
    """The possible mutants, the results of each level, and the coverage of the results."""

    digest: str
    mutants: list[str]
    levels: dict[str, list[str]]
    coverages: list[ResultCoverage]

    def level_index_by_result(self) -> dict[str, int]:
        """Return, for each result, the index in LEVELS of the narrowest level that contains the result."""
        level_index_by_result: dict[str, int] = {}
        for index, level in reversed(list(enumerate(LEVELS))):
            level_index_by_result.update(dict.fromkeys(self.levels[level], index))
        return level_index_by_result

    def points_called_at(self, level: str) -> set[str]:
        """Return the points that the results of a level call."""
        chosen, point_names = set(self.levels[level]), self.mutation_points()
        return {
            point_names[number]
            for coverage in self.coverages
            if coverage.result in chosen
            for number in coverage.calls[::3]
        }

    def points_of_checked_overloads(self, level: str) -> set[str]:
        """Return the points of the overloads that overload properties check at a level."""
        checked_names = {
            base_name(result.partition("/")[2].rpartition("@")[0])
            for result in self.levels[level]
            if result.startswith("overload-")
        }
        return {point for point in self.mutation_points() if base_name(point) in checked_names}

    def mutation_points(self) -> list[str]:
        """Return the mutation points, in the order of their indices."""
        return list(dict.fromkeys(Mutant.parse(name).point for name in self.mutants))

    def write(self, path: Path) -> None:
        """Write the data as lines of JSON: the digest, the mutants and the levels, then each coverage."""
        head = {"digest": self.digest, "faults": self.mutants, "levels": self.levels}
        with path.open("w") as file:
            file.write(json.dumps(head, separators=(",", ":")) + "\n")
            file.writelines(coverage.line() for coverage in self.coverages)

    @staticmethod
    def read(path: Path) -> CoverageData:
        """Return the data that :meth:`write` wrote. Raise UsageError if the file is incomplete."""
        try:
            with path.open() as file:
                head = json.loads(next(file))
                coverages = [ResultCoverage(*json.loads(line)) for line in file if line.endswith("\n")]
            return CoverageData(head["digest"], head["faults"], head["levels"], coverages)
        except (OSError, StopIteration, ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{path} is not the output of a coverage run ({error}). Delete it.") from None


def run_coverage(workers: Supervisor[Job], path: Path, select: Matcher, expression: str) -> CoverageData:
    """Run every selected result of level full once behind the interposer, without an active mutant.

    If ``path`` contains the coverage of the same suite, torch, device and selection, the file is read
    instead. Raise UsageError if the file was written for a different suite, torch, device or selection.
    """
    [(_, description)] = workers.run_units([{"do": "describe"}], silence=PATIENCE)
    if isinstance(description, ChildEnd):
        raise RuntimeError(
            f"a worker could not list the mutants ({campaign.verdict_of_lost_worker(description)})"
        )
    digest = hashlib.sha256(f"{description['digest']} {expression}".encode()).hexdigest()
    if path.exists():
        coverage_data = CoverageData.read(path)
        if coverage_data.digest != digest:
            raise UsageError(
                f"{path} was written with another suite, torch, device or selection. Choose another output "
                "folder with -o or delete the file."
            )
        return coverage_data
    coverage_data = CoverageData(digest, description["faults"], description["levels"], [])
    jobs = list(_jobs_by_subject(description["cases"], select))
    unfinished = path.with_suffix(".part")
    finished_results: set[str] = set()
    if unfinished.exists():
        before = CoverageData.read(unfinished)
        if before.digest == digest:
            coverage_data.coverages = before.coverages
            finished_results = {coverage.result for coverage in before.coverages}
    coverage_data.write(unfinished)
    jobs = [job for job in jobs if not finished_results.issuperset(_result_ids(job))]
    with unfinished.open("a") as journal:
        for ended, (_, reply) in enumerate(workers.run_units(jobs, silence=PATIENCE), 1):
            if isinstance(reply, ChildEnd):
                # This result terminates the process although no mutant is enabled. The results of its subject
                # are therefore not used to kill mutants.
                how = campaign.verdict_of_lost_worker(reply)
                print(f"{reply.step} terminated a worker without a mutant ({how}); omitted", flush=True)
                continue
            coverages = [ResultCoverage(*row) for row in reply["learned"]]
            coverage_data.coverages += coverages
            journal.write("".join(coverage.line() for coverage in coverages))
            journal.flush()
            if ended % 100 == 0:
                print(f"coverage of {ended} of {len(jobs)} subjects", flush=True)
    unfinished.unlink()
    coverage_data.coverages = sorted(
        {coverage.result: coverage for coverage in coverage_data.coverages}.values()
    )
    coverage_data.write(path)
    return coverage_data


def _result_ids(job: Job) -> list[str]:
    return [f"{name}/{subject}@{dtype}" for _, name, subject, dtypes in job["cases"] for dtype in dtypes]


def _jobs_by_subject(cases: Iterable[list[Any]], select: Matcher) -> Iterator[Job]:
    jobs: dict[tuple[str, str], list[Any]] = {}
    for kind, name, subject, dtypes in cases:
        chosen = [dtype for dtype in dtypes if select(f"{name}/{subject}@{dtype}")]
        if chosen:
            jobs.setdefault((kind, subject), []).append([kind, name, subject, chosen])
    for job in jobs.values():
        yield {"do": "learn", "cases": job}


def _priority(mutant: Mutant, result: str) -> int:
    """Return the priority of a result for a mutant; smaller is earlier.

    0: the designated property on an overload of the mutation point, or a designated behaviour. 1: another
    result of these overloads. 2: a result of other overloads. For mutants of other families than kernels: 1
    for any behaviour, 2 for results of overloads.
    """
    name, _, subject = result.partition("/")
    area = subject.rpartition("@")[0]
    if name in ALSO_DESIGNATED.get(mutant.operator, ()) or area == DESIGNATED.get(mutant.operator):
        return 0
    if not mutant.is_of_kernel:
        return 2 if name.startswith("overload-") else 1
    if not name.startswith("overload-") or base_name(subject.rpartition("@")[0]) != base_name(mutant.point):
        return 2
    return int(DESIGNATED.get(mutant.operator) != name)


@dataclasses.dataclass
class TriggeringResults:
    """The results that trigger each mutant, in the order of use, and the kinds of calls of each point."""

    results: dict[Mutant, list[str]]
    #: (Point, kind of call) -> dtypes of the calls of this kind. The kinds are `operators.CALL_KINDS`.
    calls: dict[tuple[str, str], set[str]]


def select_results(
    coverage_data: CoverageData, mutants: Iterable[Mutant], most_per_level: int
) -> TriggeringResults:
    """Return, for each mutant, the passed results that trigger it, at most ``most_per_level`` per level.

    Results of the narrowest level come first. Within a level the order is: the designated property on
    overloads of the point, other results of these overloads, results that trigger few mutants, fast
    results.
    """
    names = {number: name for name, number in scalar_types().items()}
    numbers = {name: index for index, name in enumerate(coverage_data.mutants)}
    mutants_by_key: dict[tuple[int, str | None], Mutant] = {
        (numbers[str(mutant.in_every_dtype())], mutant.dtype): mutant for mutant in mutants
    }
    level_of = coverage_data.level_index_by_result()
    point_names = coverage_data.mutation_points()
    ranked_results: dict[Mutant, list[tuple[int, int, int, float, str]]] = {
        mutant: [] for mutant in mutants_by_key.values()
    }
    calls: dict[tuple[str, str], set[str]] = {}
    for coverage in coverage_data.coverages:
        for point_index, call_kind, number in zip(*[iter(coverage.calls)] * 3, strict=True):
            key = point_names[point_index], operators.CALL_KINDS[call_kind]
            calls.setdefault(key, set()).add(names.get(number, "none"))
        if coverage.verdict != Verdict.PASS.value:
            continue
        level = level_of[coverage.result]
        rest = (len(coverage.triggered), coverage.seconds, coverage.result)
        counted_mutants: set[Mutant] = set()
        for mutant_index, number in zip(*[iter(coverage.triggered)] * 2, strict=True):
            for dtype in (None, names.get(number)):
                mutant = mutants_by_key.get((mutant_index, dtype))
                if mutant is not None and mutant not in counted_mutants:
                    counted_mutants.add(mutant)
                    ranked_results[mutant].append((level, _priority(mutant, coverage.result), *rest))
    results: dict[Mutant, list[str]] = {}
    for mutant, ranks in ranked_results.items():
        count_by_level = [0] * len(LEVELS)
        chosen = results[mutant] = []
        for level, *_, result in sorted(ranks):
            count_by_level[level] += 1
            if count_by_level[level] <= most_per_level:
                chosen.append(result)
    return TriggeringResults(results, calls)
