"""One leg: one mode of a target, from bringing it up to its part of the results document."""

from __future__ import annotations

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
from conformance.expectations.index import Index
from conformance.model import digests
from conformance.model.id_patterns import is_literal
from conformance.model.records import (
    Header,
    Leg,
    OracleCheck,
    OracleValue,
    PlanTable,
    Prepared,
    ResultNames,
)
from conformance.plan import selection, shards
from conformance.plan.plan import Plan
from conformance.plan.run_request import Request
from conformance.process_control import supervisor
from conformance.process_control.child import Child, ChildEnd, How
from conformance.process_control.supervisor import ChildNotStarted, Supervisor
from conformance.results import document, run_folder
from conformance.results.journal import Journal, Tail
from conformance.results.run_state import Ledger
from conformance.runner import child_environment
from conformance.runner.prestarted_worker import WarmWorker
from conformance.runner.progress import Progress
from conformance.runner.pytest_rounds import Rounds, TooManyLostWorkers

#: Seconds that bringing a target up may take, and one oracle value.
_PREPARE_SECONDS = 600
#: Recorded seconds of a selection up to which one worker is as fast as several, which all import first.
_ONE_WORKER = 20
#: Oracle values for which a process of its own pays, which loads torch's databases first.
_EVENTS = 200


class NothingToRun(UsageError):
    """The level, shard or ``-k`` leaves no result in this mode."""


class Interrupted(Exception):
    """The user stopped the run; carries the legs that were found so far."""

    def __init__(self, found: list[Leg]) -> None:
        super().__init__("interrupted")
        self.found = found


def prepare(options: Request, mode: str) -> Prepared:
    """Bring the target up in a process of its own; UsageError if that fails."""
    return cast("Prepared", _answer(options, mode))


def result_names(options: Request, mode: str) -> dict[str, PlanTable]:
    """The plan of the full level by mode, from a target that is brought up only if its names need it.

    UsageError if they cannot be had.
    """
    return cast("ResultNames", _answer(options, mode, "--names"))["names"]


def _answer(options: Request, mode: str, *arguments: str) -> object:
    """The answer of the process that brings a target up; UsageError if there is none, or it says why not."""
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
        end = supervisor.run(
            command,
            child_environment.variables(options, mode),
            log=Path(scratch) / "log.txt",
            limit=_PREPARE_SECONDS,
            stdout=False,
        )
        if end.how is How.TIMED_OUT:
            raise UsageError(
                f"target {options.target.name!r} is not up in {_PREPARE_SECONDS} s; see 'conformance doctor'"
            )
        try:
            answer: Mapping[str, object] = json.loads(file.read_text())
        except (OSError, ValueError):
            words = end.log_tail.strip()[-2000:]
            raise UsageError(
                f"target {options.target.name!r} could not be brought up: the process ended with "
                f"{end.code}; its last words were:\n{words}"
            ) from None
    if "error" in answer:
        raise UsageError(str(answer["error"]))
    return answer


def choose(options: Request, mode: str, answer: Prepared) -> tuple[Plan, Plan, int]:
    """The plan of the level, the part of it that runs, and how many results ``-k`` left out."""
    level = Plan.from_json(answer["plan"])
    if not level.cases:
        raise NothingToRun(
            f"target {options.target.name!r} has no case at level {options.level!r} in mode {mode}; "
            "check its dtypes, or take a broader level"
        )
    part = level.shard(options.shard, mode)
    chosen = part if options.select is None else part.select(selection.parse_selection(options.select))
    if not chosen.cases and not _empty_by_number(options, level):
        if options.select is None:
            raise NothingToRun(f"shard {options.shard} holds no case; use fewer shards")
        raise NothingToRun(f"-k {options.select!r} selects nothing of {len(part)} results; loosen it")
    return level, chosen, len(part) - len(chosen)


def _empty_by_number(options: Request, level: Plan) -> bool:
    """Return True if a part is empty only because its run has more shards than cases.

    Such a part is a result: without it, its merge could not tell an empty shard from a lost one.
    """
    if not options.part or options.shard.count == 1:
        return False
    return options.select is None or bool(level.select(selection.parse_selection(options.select)).cases)


def run(options: Request, mode: str, folder: Path, *, loud: bool = True) -> Leg:
    """Run one leg and return it; Interrupted on Ctrl-C, UsageError if it cannot start."""
    started = datetime.datetime.now(datetime.timezone.utc)
    clock = time.monotonic()
    book = entries.load_expectations(
        entries.expectation_files(options.target.name, options.target.expectations)
    )
    # A selection is small, as a rule, and one worker enough: it imports while the target is brought up.
    warm = None if options.select is None else WarmWorker(child_environment.variables(options, mode))
    try:
        return _run(options, mode, folder, book, started, clock, warm, loud=loud)
    finally:
        if warm is not None:
            warm.close()


def _run(
    options: Request,
    mode: str,
    folder: Path,
    book: TargetExpectations,
    started: datetime.datetime,
    clock: float,
    warm: WarmWorker | None,
    *,
    loud: bool,
) -> Leg:
    answer = prepare(options, mode)
    level, plan, left_out = choose(options, mode, answer)
    if options.select is None:
        _check_patterns(book, answer, mode, started.date())
    run_folder.clear(folder)
    journal = Journal(folder / "journal.jsonl")
    journal.lock()
    words = header(options, mode, answer, level, book, started, left_out)
    words["reach"] = reach(book, answer, mode)
    journal.write("run", **words)
    journal.write("plan", **plan.to_json())
    ledger = Ledger()
    progress = Progress(ledger, len(plan), label=words["name"], loud=loud)
    rounds = Rounds(options, mode, folder, journal, Tail(folder / "journal.jsonl"), ledger, progress.show)
    rounds.warm = warm
    return finish(rounds, lambda: work(rounds, plan), progress, book, started.date(), clock)


def finish(
    rounds: Rounds,
    working: Callable[[], None],
    progress: Progress,
    book: TargetExpectations,
    today: datetime.date,
    clock: float,
) -> Leg:
    """Do the work of a leg to its end, whatever comes between, and return it; Interrupted on Ctrl-C."""
    journal, ledger = rounds.journal, rounds.ledger
    stopped = False
    try:
        working()
        check_oracle(rounds)
    except TooManyLostWorkers as error:
        journal.write("problem", message=str(error))
    except KeyboardInterrupt:
        stopped = True
        journal.write("interrupted")
    journal.write("end", seconds=round(time.monotonic() - clock, 3))
    rounds.absorb(final=True)
    progress.close()
    journal.close()
    finished = document.leg(ledger, book, today=today)
    if stopped:
        raise Interrupted([finished])
    return finished


def work(rounds: Rounds, plan: Plan) -> None:
    """Rounds until every result is there, then the second attempts, one process and nothing beside it."""
    attempts, unprobed = rounds.ledger.attempts, rounds.ledger.unprobed
    idle = 0
    pending = plan.select(lambda result_id: result_id not in attempts or result_id in unprobed)
    while pending.cases and idle < 3:
        groups = {(case.kind, case.subject) for case in pending.cases}
        before = len(attempts)
        workers = min(rounds.options.workers_of(rounds.mode), len(groups))
        if rounds.warm is not None and _seconds(rounds.mode, pending) <= _ONE_WORKER:
            workers = 1  # which has begun to import; others would begin only now
        rounds.run(pending, workers=workers, attempt=1)
        pending = plan.select(lambda result_id: result_id not in attempts)
        idle = idle + 1 if len(attempts) == before else 0
    retry = plan.only(rounds.ledger.to_retry())
    idle = 0
    while retry.cases and idle < 3:
        before = len(retry)
        rounds.run(retry, workers=1, attempt=2, patient=True)
        retry = retry.only(rounds.ledger.to_retry())
        idle = idle + 1 if len(retry) == before else 0


def _seconds(mode: str, plan: Plan) -> float:
    """The seconds that the subjects of a plan took when they were recorded, or parts of split ones."""
    known = shards.recorded_seconds().get(mode, {})
    found: dict[str, float] = {}
    for case in plan.cases:
        names = (
            shards.entry_name(case.kind, case.subject, case.property),
            shards.entry_name(case.kind, case.subject),
        )
        name = next((one for one in names if one in known), names[1])
        found[name] = known.get(name, 0.5)
    return sum(found.values())


def check_oracle(rounds: Rounds) -> None:
    """Compute the journalled oracle values anew in processes that never load the backend."""
    events: list[OracleValue] = [
        {"operator": operator, "dtype": dtype, "index": index, "digest": digest}
        for (operator, dtype, index), digest in sorted(rounds.ledger.oracle.items())
    ]
    if not events:
        return
    processes = min(rounds.options.processes(rounds.mode), -(-len(events) // _EVENTS))
    share = -(-len(events) // processes)
    parts = [events[first : first + share] for first in range(0, len(events), share)]
    checks = _recheck(rounds, parts)
    rounds.journal.write(
        "oracle-check",
        checked=sum(check["checked"] for check in checks),
        differences=[words for check in checks for words in check["differences"]],
    )


def _recheck(rounds: Rounds, parts: list[list[OracleValue]]) -> list[OracleCheck]:
    """Return the checks of parts of the oracle values, each part in a process of its own."""
    environment = child_environment.variables(rounds.options, rounds.mode)
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
                return [_no_check(error.end)]
    return [_no_check(reply) if isinstance(reply, ChildEnd) else reply for _, reply in replies]


def _no_check(end: ChildEnd) -> OracleCheck:
    words = end.log_tail.strip()[-1000:]
    return {"checked": 0, "differences": [f"the oracle check ended with {end.code}: {words}"]}


def _check_patterns(book: TargetExpectations, answer: Prepared, mode: str, day: datetime.date) -> None:
    """Raise UsageError for expectations that speak of nothing that exists."""
    index = Index(Plan.from_json(answer["full"]).result_ids())
    active = book.active(mode, day, answer["facts"]["torch"]["version"])
    lost = [entry for entry in active if not index.matching(entry.id)]
    if lost:
        names = "; ".join(f"{entry}{did_you_mean(index, entry.id)}" for entry in lost[:10])
        raise UsageError(f"{len(lost)} expectations match no result: {names}; remove or rename them")


def reach(book: TargetExpectations, answer: Prepared, mode: str) -> dict[str, int]:
    """The number of results to which each entry with a wildcard applies in a mode, run or not."""
    here = {tuple(words) for words in answer["here"]}
    full = Plan([case for case in Plan.from_json(answer["full"]).cases if (case.kind, case.property) in here])
    index = Index(full.result_ids())
    version = answer["facts"]["torch"]["version"]
    spoken = {entry.id for entry in book.entries if entry.applies_to(mode, version)}
    return {pattern: len(index.matching(pattern)) for pattern in sorted(spoken) if not is_literal(pattern)}


def did_you_mean(index: Index, pattern: str) -> str:
    """Words that name what a pattern which matches nothing may have meant."""
    candidates = index.nearest(pattern)
    return f" (did you mean {' or '.join(candidates)}?)" if candidates else ""


def header(
    options: Request,
    mode: str,
    answer: Prepared,
    level: Plan,
    book: TargetExpectations,
    started: datetime.datetime,
    left_out: int,
) -> Header:
    """The first event of a journal: what is run, on what, and how to go on with it."""
    facts = answer["facts"]
    target = options.target
    return {
        "name": installed_torch.leg_name(facts["torch"]["version"], mode),
        "mode": mode,
        "target": options.target_record(),
        "level": options.level,
        "shard": str(options.shard),
        "selection": options.select,
        "samples": options.samples,
        "started": started.isoformat(timespec="seconds"),
        "workers": options.processes(mode),
        "facts": facts,
        "digests": {
            "suite": digests.suite_digest(),
            "manifest": level.digest(),
            "target": target.digest,
            "expectations": book.digest,
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
