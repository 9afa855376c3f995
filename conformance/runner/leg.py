"""Run one leg (one mode of a target): bring up the target, run its plan, and return the leg's results."""

from __future__ import annotations

import collections
import datetime
import itertools
import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import cast

from conformance.builds import installed_torch
from conformance.errors import UsageError
from conformance.expectations import entries
from conformance.expectations.entries import TargetExpectations
from conformance.expectations.result_id_index import ResultIdIndex
from conformance.model import digests
from conformance.model.id_patterns import is_literal
from conformance.model.records import (
    BringUpOutput,
    Header,
    Leg,
    OracleCheck,
    OracleValue,
    PlanTable,
    ResultNames,
)
from conformance.plan import selection, shards
from conformance.plan.levels import manifest
from conformance.plan.plan import Case, Plan
from conformance.plan.run_request import RunRequest
from conformance.process_control import supervisor
from conformance.process_control.child import Child, ChildEnd, EndKind
from conformance.process_control.supervisor import ChildNotStarted, Supervisor
from conformance.results import document, run_folder
from conformance.results.journal import Journal, JournalTail
from conformance.results.run_state import LossGroup, RunState
from conformance.runner import child_environment
from conformance.runner.prestarted_worker import PrestartedWorker
from conformance.runner.progress import Progress
from conformance.runner.pytest_rounds import Rounds, TooManyLostWorkers

#: Time limit in seconds for bringing up a target, and for recomputing one part of the reference values.
_PREPARE_SECONDS = 600
#: If a selection took at most these seconds in earlier runs, one worker runs it as fast as several workers,
#: because each worker imports torch first.
_ONE_WORKER = 20
#: Expected seconds of a subject without a recorded time.
_UNRECORDED = 0.5
#: Reference values per recheck process. Each process first loads torch's databases, so few processes are
#: used.
_EVENTS = 200
#: Number of sampled subjects on which the runner tests whether a property always ends its process.
_SAMPLED_SUBJECTS = 3


class NothingToRun(UsageError):
    """The level, shard or ``-k`` selects no result in this mode."""


class RunInterrupted(Exception):
    """The user stopped the run. ``legs`` are the finished legs and the interrupted one."""

    def __init__(self, legs: list[Leg]) -> None:
        super().__init__("interrupted")
        self.legs = legs


def bring_up_target(options: RunRequest, mode: str) -> BringUpOutput:
    """Bring the target up in a separate process and return its plan and facts; raise UsageError on
    failure.
    """
    return cast("BringUpOutput", _bring_up_output(options, mode))


def full_plans_by_mode(options: RunRequest, mode: str) -> dict[str, PlanTable]:
    """Return the plan of the full level for each mode.

    The target is brought up only if this is necessary to determine the names of its results. Raise UsageError
    if the names cannot be determined.
    """
    return cast("ResultNames", _bring_up_output(options, mode, "--names"))["names"]


def _bring_up_output(options: RunRequest, mode: str, *arguments: str) -> object:
    """Return the output of the process that brings a target up; raise UsageError if the process failed."""
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "answer.json"
        command = [
            sys.executable,
            "-m",
            "conformance.worker.bring_up_and_plan",
            str(file),
            "--target",
            options.target_argument,
        ]
        command += ["--mode", mode, "--level", options.level, *arguments]
        for module in options.extra:
            command += ["--extra", module]
        end = supervisor.run_command(
            command,
            child_environment.environment_variables(options, mode),
            log=Path(scratch) / "log.txt",
            limit=_PREPARE_SECONDS,
            stdout=False,
        )
        if end.how is EndKind.TIMED_OUT:
            raise UsageError(
                f"target {options.target.name!r} was not brought up within {_PREPARE_SECONDS} s; run "
                "'conformance doctor'"
            )
        try:
            answer: Mapping[str, object] = json.loads(file.read_text())
        except (OSError, ValueError):
            last_output = end.log_tail.strip()[-2000:]
            raise UsageError(
                f"target {options.target.name!r} could not be brought up: the process ended with "
                f"{end.code}; the end of its output is:\n{last_output}"
            ) from None
    if "error" in answer:
        raise UsageError(str(answer["error"]))
    return answer


def select_results(options: RunRequest, mode: str, prepared: BringUpOutput) -> tuple[Plan, Plan, int]:
    """Return the plan of the level, the part of that plan to run, and the number of results that ``-k``
    omits.
    """
    level = Plan.from_json(prepared["plan"])
    if not level.cases:
        raise NothingToRun(
            f"target {options.target.name!r} has no case at level {options.level!r} in mode {mode}; "
            "check its dtypes, or use a broader level"
        )
    part = level.shard(options.shard, mode)
    chosen = part if options.select is None else part.select(selection.parse_selection(options.select))
    if not chosen.cases and not _empty_because_of_more_shards_than_cases(options, level):
        if options.select is None:
            raise NothingToRun(f"shard {options.shard} has no case; use fewer shards")
        raise NothingToRun(
            f"-k {options.select!r} matches none of {len(part)} results; write a broader expression"
        )
    return level, chosen, len(part) - len(chosen)


def _empty_because_of_more_shards_than_cases(options: RunRequest, level: Plan) -> bool:
    """Return True if a shard is empty only because the run has more shards than cases.

    Such a shard still writes a results document, because a merge could not distinguish an empty shard from a
    lost shard otherwise.
    """
    if not options.part or options.shard.count == 1:
        return False
    return options.select is None or bool(level.select(selection.parse_selection(options.select)).cases)


def run_new_leg(
    options: RunRequest,
    mode: str,
    folder: Path,
    *,
    show_progress: bool = True,
    before_start: Callable[[], None] = lambda: None,
) -> Leg:
    """Run one leg and return it; raise Interrupted on Ctrl-C and UsageError if it cannot start.

    The folder keeps the files of an earlier run until the leg can start. ``before_start`` is called at that
    moment.
    """
    started = datetime.datetime.now(datetime.timezone.utc)
    clock = time.monotonic()
    book = entries.load_expectations(
        entries.expectation_files(options.target.name, options.target.expectations)
    )
    # A selection is usually small enough for one worker. This worker imports torch while the target is
    # brought up.
    warm = (
        None
        if options.select is None
        else PrestartedWorker(child_environment.environment_variables(options, mode))
    )
    try:
        return _run_leg(
            options,
            mode,
            folder,
            book,
            started,
            clock,
            warm,
            show_progress=show_progress,
            before_start=before_start,
        )
    finally:
        if warm is not None:
            warm.stop_and_delete_log()


def _run_leg(
    options: RunRequest,
    mode: str,
    folder: Path,
    target_expectations: TargetExpectations,
    started: datetime.datetime,
    clock: float,
    warm: PrestartedWorker | None,
    *,
    show_progress: bool,
    before_start: Callable[[], None],
) -> Leg:
    prepared = bring_up_target(options, mode)
    level, plan, left_out = select_results(options, mode, prepared)
    if options.select is None:
        _require_patterns_to_match(target_expectations, prepared, mode, started.date())
    before_start()
    run_folder.clear_folder(folder)
    journal = Journal(folder / "journal.jsonl")
    journal.lock()
    header_fields = journal_header(options, mode, prepared, level, target_expectations, started, left_out)
    header_fields["reach"] = wildcard_match_counts(target_expectations, prepared, mode)
    journal.write("run", **header_fields)
    journal.write("plan", **plan.to_json())
    run_state = RunState()
    seconds = expected_seconds(mode, plan, full_plan_of_mode(prepared))
    progress = Progress(run_state, seconds, label=header_fields["name"], loud=show_progress)
    rounds = Rounds(
        options, mode, folder, journal, JournalTail(folder / "journal.jsonl"), run_state, progress.show
    )
    rounds.warm = warm
    return finish_leg(
        rounds, lambda: run_rounds(rounds, plan), progress, target_expectations, started.date(), clock
    )


def finish_leg(
    rounds: Rounds,
    run_results: Callable[[], None],
    progress: Progress,
    target_expectations: TargetExpectations,
    today: datetime.date,
    clock: float,
) -> Leg:
    """Call ``run_results``, write the last events of the journal, and return the leg.

    Raise Interrupted with the leg if the user pressed Ctrl-C.
    """
    journal, run_state = rounds.journal, rounds.run_state
    stopped = False
    try:
        run_results()
        recheck_oracle_values(rounds)
    except TooManyLostWorkers as error:
        journal.write("problem", message=str(error))
    except KeyboardInterrupt:
        stopped = True
        journal.write("interrupted")
    journal.write("end", seconds=round(time.monotonic() - clock, 3))
    rounds.read_events(final=True)
    progress.close()
    journal.close()
    finished = document.leg_of_run(run_state, target_expectations, today=today)
    if stopped:
        raise RunInterrupted([finished])
    return finished


def run_rounds(rounds: Rounds, plan: Plan) -> None:
    """Run rounds until every result exists, then retry results of lost workers in one worker."""
    attempts, unprobed = rounds.run_state.attempts, rounds.run_state.unprobed
    verified: set[LossGroup] = set()
    idle = 0
    pending = plan.select(lambda result_id: result_id not in attempts or result_id in unprobed)
    while pending.cases and idle < 3:
        groups = {(case.kind, case.subject) for case in pending.cases}
        before = len(attempts)
        workers = min(rounds.options.worker_count(rounds.mode), len(groups))
        if rounds.warm is not None and sum(expected_seconds(rounds.mode, pending).values()) <= _ONE_WORKER:
            workers = 1  # the prestarted worker has already imported torch; new workers would start now
        rounds.run(pending, workers=workers, attempt=1)
        _sample_suspected_properties(rounds, plan)
        _verify_crashing_subjects(rounds, plan, verified)
        rounds.record_results_that_do_not_run(plan.select(lambda result_id: result_id not in attempts))
        pending = plan.select(lambda result_id: result_id not in attempts)
        idle = idle + 1 if len(attempts) == before else 0
    _retry(rounds, plan, rounds.run_state.results_to_retry, attempt=2)
    _retry(rounds, plan, rounds.run_state.results_to_retry_alone, attempt=3, alone=True)


def _sample_suspected_properties(rounds: Rounds, plan: Plan) -> None:
    """Run a sample of the pending results of each property in a dtype of which many results were lost.

    The sampled subjects are spread evenly over the plan, so that the defect of a single operator family is
    not mistaken for a defect of the property.
    """
    run_state = rounds.run_state
    for group in run_state.suspected_groups():
        confirmed = run_state.confirmed_groups()
        cases = [
            case
            for case in plan.select(lambda result_id: result_id not in run_state.attempts).cases
            if (case.kind, case.property) == (group.kind, group.property)
            and group.dtype in case.dtypes
            and LossGroup(case.kind, subject=case.subject) not in confirmed
        ]
        if len(cases) < _SAMPLED_SUBJECTS:
            continue
        step = len(cases) / _SAMPLED_SUBJECTS
        sample = [cases[int((number + 0.5) * step)] for number in range(_SAMPLED_SUBJECTS)]
        results = [f"{case.id}@{group.dtype}" for case in sample]
        rounds.journal.write("sample", **group._asdict(), results=results)
        rounds.read_events()
        rounds.run(plan.with_results(results), workers=1, attempt=1, continue_after_losses=True, alone=True)


def _verify_crashing_subjects(rounds: Rounds, plan: Plan, verified: set[LossGroup]) -> None:
    """Verify each group of results that crashes confirmed: run its pending results, one per round, until the
    device has run one of them.

    The last pending result runs first. A crash of a different subject may have ended the process, for example
    if the crash resets the device. If a result finishes, its group is no longer confirmed.
    """
    run_state = rounds.run_state
    for group in list(run_state.confirmed_groups()):
        if group in verified or not group.subject or not run_state.is_lost_by_crashes(group):
            continue
        if group not in run_state.confirmed_groups():
            continue  # no longer confirmed since a result of its subject finished
        verified.add(group)
        for result_id in reversed(_pending_results(run_state, plan, group)):
            rounds.run(
                plan.with_results([result_id]), workers=1, attempt=1, continue_after_losses=True, alone=True
            )
            if run_state.was_run(result_id):
                break
    # Forget the groups that are no longer confirmed: if they are confirmed again, verify them again.
    verified &= run_state.confirmed_groups().keys()


def _pending_results(run_state: RunState, plan: Plan, group: LossGroup) -> list[str]:
    """Return the ids of the results of a group that have no attempt."""
    return [
        result_id
        for case in plan.cases
        if case.kind == group.kind and case.subject == group.subject
        for result_id in case.result_ids()
        if result_id not in run_state.attempts and group in run_state.loss_groups_of(result_id)
    ]


def _retry(
    rounds: Rounds, plan: Plan, results: Callable[[], list[str]], *, attempt: int, alone: bool = False
) -> None:
    """Rerun the results that ``results()`` lists in one worker, until it lists none or three rounds in a row
    change nothing.
    """
    retry = plan.with_results(results())
    idle = 0
    while retry.cases and idle < 3:
        before = len(retry)
        rounds.run(retry, workers=1, attempt=attempt, continue_after_losses=True, alone=alone)
        retry = plan.with_results(results())
        idle = idle + 1 if len(retry) == before else 0


def expected_seconds(mode: str, plan: Plan, full: Plan | None = None) -> dict[str, float]:
    """Return the expected seconds of each result of a plan, from the times of its subjects in earlier runs.

    ``full`` is the plan of level full in this mode. The time of a subject is divided equally among its
    results in ``full``, or among its results in ``plan`` if ``full`` is None. If the table of times lists the
    properties of a subject separately, the time of each property is divided in this way.
    """
    recorded = shards.recorded_seconds().get(mode, {})

    def entry_of(case: Case) -> str:
        of_property = shards.seconds_table_entry_name(case.kind, case.subject, case.property)
        return (
            of_property
            if of_property in recorded
            else shards.seconds_table_entry_name(case.kind, case.subject)
        )

    counts: dict[str, int] = collections.Counter()
    for case in (full or plan).cases:
        counts[entry_of(case)] += len(case.dtypes)
    return {
        result_id: recorded.get(entry_of(case), _UNRECORDED) / max(1, counts[entry_of(case)])
        for case in plan.cases
        for result_id in case.result_ids()
    }


def full_plan_of_mode(prepared: BringUpOutput) -> Plan:
    """Return the plan of level full in the mode in which the target was brought up."""
    in_mode = {(kind, name) for kind, name in prepared["here"]}
    cases = Plan.from_json(prepared["full"]).cases
    return Plan([case for case in cases if (case.kind, case.property) in in_mode])


def recheck_oracle_values(rounds: Rounds) -> None:
    """Recompute the recorded reference values in processes that never load the backend, and write the
    differences to the journal.
    """
    events: list[OracleValue] = [
        {"operator": operator, "dtype": dtype, "index": index, "digest": digest}
        for (operator, dtype, index), digest in sorted(rounds.run_state.oracle.items())
    ]
    if not events:
        return
    processes = min(rounds.options.process_count(rounds.mode), -(-len(events) // _EVENTS))
    share = -(-len(events) // processes)
    parts = [events[first : first + share] for first in range(0, len(events), share)]
    checks = _recheck_parts(rounds, parts)
    rounds.journal.write(
        "oracle-check",
        checked=sum(check["checked"] for check in checks),
        differences=[difference for check in checks for difference in check["differences"]],
    )


def _recheck_parts(rounds: Rounds, parts: list[list[OracleValue]]) -> list[OracleCheck]:
    """Recompute each part of the reference values in a separate process, and return one check per part."""
    environment = child_environment.environment_variables(rounds.options, rounds.mode)
    environment["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    command = [sys.executable, "-m", "conformance.oracle.recheck", "--samples", rounds.options.samples]
    for module in rounds.options.extra:
        command += ["--extra", module]
    with tempfile.TemporaryDirectory() as scratch:
        numbers = itertools.count()

        def spawn() -> Child:
            log = Path(scratch) / f"log-{next(numbers)}.txt"
            return Child.exec(command, environment, log=log, channel=True)

        with Supervisor[list[OracleValue]](spawn, start=_PREPARE_SECONDS, workers=len(parts)) as workers:
            try:
                replies = list(workers.run_units(parts, silence=_PREPARE_SECONDS))
            except ChildNotStarted as error:
                return [_failed_recheck(error.end)]
    return [_failed_recheck(reply) if isinstance(reply, ChildEnd) else reply for _, reply in replies]


def _failed_recheck(end: ChildEnd) -> OracleCheck:
    last_output = end.log_tail.strip()[-1000:]
    return {"checked": 0, "differences": [f"the oracle check ended with {end.code}: {last_output}"]}


def _require_patterns_to_match(
    target_expectations: TargetExpectations, prepared: BringUpOutput, mode: str, day: datetime.date
) -> None:
    """Raise UsageError if the id of an expectation matches no result of the full level.

    Check nothing if torch is newer than the manifest, because results may be absent on that version.
    """
    version = prepared["facts"]["torch"]["version"]
    if manifest.version_for_expectations(version) != version:
        return
    index = ResultIdIndex(Plan.from_json(prepared["full"]).result_ids())
    active = target_expectations.active_entries(mode, day, version)
    lost = [entry for entry in active if not index.ids_matching(entry.id)]
    if lost:
        names = "; ".join(f"{entry}{did_you_mean_text(index, entry.id)}" for entry in lost[:10])
        raise UsageError(f"{len(lost)} expectations match no result: {names}; remove or rename them")


def wildcard_match_counts(
    target_expectations: TargetExpectations, prepared: BringUpOutput, mode: str
) -> dict[str, int]:
    """Return, for each expectation pattern with a wildcard, the number of results of the full level in this
    mode that the pattern matches.
    """
    mode_properties = {tuple(pair) for pair in prepared["here"]}
    full = Plan(
        [
            case
            for case in Plan.from_json(prepared["full"]).cases
            if (case.kind, case.property) in mode_properties
        ]
    )
    index = ResultIdIndex(full.result_ids())
    version = manifest.version_for_expectations(prepared["facts"]["torch"]["version"])
    patterns = {entry.id for entry in target_expectations.entries if entry.applies_to(mode, version)}
    return {
        pattern: len(index.ids_matching(pattern)) for pattern in sorted(patterns) if not is_literal(pattern)
    }


def did_you_mean_text(index: ResultIdIndex, pattern: str) -> str:
    """Return the suggestion ``(did you mean …?)`` for a pattern that matches no result, or an empty text."""
    candidates = index.nearest_ids(pattern)
    return f" (did you mean {' or '.join(candidates)}?)" if candidates else ""


def journal_header(
    options: RunRequest,
    mode: str,
    prepared: BringUpOutput,
    level: Plan,
    target_expectations: TargetExpectations,
    started: datetime.datetime,
    left_out: int,
) -> Header:
    """Return the fields of a journal's first event: the options of the run, the target, and the data needed
    to resume the run.
    """
    facts = prepared["facts"]
    target = options.target
    return {
        "name": installed_torch.leg_name(facts["torch"]["version"], mode),
        "mode": mode,
        "target": options.target_record(),
        "level": options.level,
        "shard": str(options.shard),
        "selection": options.select,
        "samples": options.samples,
        "seed": options.seed,
        "parity": options.parity,
        "started": started.isoformat(timespec="seconds"),
        "workers": options.process_count(mode),
        "facts": facts,
        "digests": {
            "suite": digests.suite_digest(),
            "manifest": level.digest(),
            "target": target.digest,
            "expectations": target_expectations.digest,
            "torch": f"{facts['torch']['version']} {facts['torch']['revision']}",
            "backend": facts["backend"]["digest"],
        },
        "options": {
            "target": options.target_argument,
            "modes": list(options.modes),
            "extra": list(options.extra),
            "timeout": options.timeout,
            "part": options.part,
            "ranks": options.ranks,
            "profile": options.profile,
        },
        "left_out": left_out,
    }
