"""Resume a run: run the results that are missing after the run was killed, or rerun its failures."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from conformance.builds import installed_torch
from conformance.errors import UsageError
from conformance.expectations import entries
from conformance.expectations.entries import TargetExpectations
from conformance.model import digests, seeds
from conformance.model.records import Document, Header, Leg, PlanTable
from conformance.model.verdicts import ResultId, Verdict
from conformance.plan.plan import Plan, Shard
from conformance.plan.run_request import RunRequest
from conformance.report import output_files
from conformance.results import document
from conformance.results import run_folder as outputs
from conformance.results.journal import Journal, JournalTail
from conformance.results.merge import describe_option
from conformance.results.run_state import RunState
from conformance.runner import leg, multi_mode
from conformance.runner.child_environment import usable_cores
from conformance.runner.progress import Progress
from conformance.runner.pytest_rounds import Rounds
from conformance.target import file as target_file

#: The verdicts whose results ``--failed`` reruns. Flaky results are not rerun, because they would stay flaky.
FAILED = frozenset(
    verdict.value
    for verdict in Verdict
    if verdict.unexpected and verdict not in (Verdict.XPASS, Verdict.FLAKY)
)
#: Fields of the header that must be the same in the resumed run, in addition to all digests.
_SAME: tuple[Literal["name", "mode", "target", "level", "shard", "selection", "samples"], ...] = (
    "name",
    "mode",
    "target",
    "level",
    "shard",
    "selection",
    "samples",
)


@dataclasses.dataclass(frozen=True)
class ResumeOptions:
    """Options of the user for a resumed run. None keeps the value of the original run."""

    workers: int | None = None
    timeout: float | None = None


@dataclasses.dataclass(frozen=True)
class InterruptedLeg:
    """The state of an interrupted leg, as its journal records it."""

    run_state: RunState
    header: Header
    plan: PlanTable
    tail: JournalTail


def read_run(folder: Path) -> InterruptedLeg:
    """Return the state of a leg from its journal; raise UsageError if the leg cannot be resumed."""
    path = folder / "journal.jsonl"
    tail = JournalTail(path)
    run_state = RunState()
    for event in tail.read():
        run_state.apply(event)
    header, plan = run_state.header, run_state.plan
    if header is None or plan is None or not isinstance(header.get("options"), dict):
        raise UsageError(
            f"journal {path} does not begin with a run and its plan, so it cannot be resumed; start a new run"
        )
    return InterruptedLeg(run_state, header, plan, tail)


def resume_request(folder: Path, resume_options: ResumeOptions) -> RunRequest:
    """Return the options of the run in an output folder; raise UsageError if the folder has no run."""
    journals = outputs.journal_paths(folder)
    if not journals:
        raise UsageError(
            f"{folder} does not contain the journal of a run; name the output folder of 'conformance run' "
            "(for merged results, the folder of one part)"
        )
    parts = [journal.parent for journal in journals]
    header = read_run(parts[0]).header
    if parts[0] != folder and not outputs.belong_to_one_run(journals):
        raise UsageError(
            f"{folder} has the merged results of {len(parts)} runs; name the folder of the run to resume: "
            f"{', '.join(map(str, parts))}"
        )
    try:
        recorded_options = header["options"]
        return RunRequest(
            target=target_file.load(recorded_options["target"]),
            target_argument=recorded_options["target"],
            modes=tuple(recorded_options["modes"]),
            output=folder.resolve(),
            level=header["level"],
            shard=Shard.parse(header["shard"]),
            workers=resume_options.workers or min(int(header["workers"]), usable_cores()),
            select=header["selection"],
            samples=header["samples"],
            seed=int(header.get("seed", seeds.RELEASE_SEED)),
            parity=header.get("parity", "strict"),
            timeout=resume_options.timeout or float(recorded_options["timeout"]),
            extra=tuple(recorded_options["extra"]),
            part=bool(recorded_options["part"]),
            profile=bool(recorded_options.get("profile", False)),
            ranks=max(2, resume_options.workers or int(recorded_options["ranks"])),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"journal of {parts[0]} is damaged ({error!r}); start a new run") from None


def resume_run(chosen: RunRequest, *, failed: bool) -> list[Leg]:
    """Resume every leg of a run: rerun failures if ``failed``, else run missing results.

    Raise UsageError if an input that determines results has changed.
    """
    if (chosen.output / "journal.jsonl").is_file():
        return [resume_leg(chosen, chosen.modes[0], chosen.output, failed=failed)]
    folders = _leg_folders(chosen)
    has_started = {mode: (folder / "journal.jsonl").is_file() for mode, folder in folders.items()}
    if not any(has_started.values()):
        raise UsageError(
            f"{chosen.output} has no leg of the installed torch {installed_torch.version()}; install the "
            "torch of its legs, or start a new run"
        )

    def resume_or_run_mode(mode: str) -> Leg:
        if not has_started[mode]:
            if failed:
                raise leg.NothingToRun("the mode has not run yet; --resume without --failed runs the mode")
            return leg.run_new_leg(chosen, mode, folders[mode])
        try:
            return resume_leg(chosen, mode, folders[mode], failed=failed)
        except UsageError as error:
            raise _LegNotResumable(str(error)) from None

    try:
        return multi_mode.run_each_mode(chosen, resume_or_run_mode)
    except _LegNotResumable as error:
        raise UsageError(str(error)) from None
    except leg.RunInterrupted as stop:
        finished_modes = {finished_leg["mode"] for finished_leg in stop.legs}
        later = [folders[mode] for mode in chosen.modes if has_started[mode] and mode not in finished_modes]
        book = _load_expectations_of_request(chosen)
        raise leg.RunInterrupted(
            [*stop.legs, *(output_files.leg_from_journal(each, book) for each in later)]
        ) from None


def _leg_folders(chosen: RunRequest) -> dict[str, Path]:
    """Return the folder of each mode's leg."""
    if (chosen.output / "journal.jsonl").is_file():
        return {chosen.modes[0]: chosen.output}
    build = installed_torch.version()
    return {mode: chosen.output / "legs" / installed_torch.leg_name(build, mode) for mode in chosen.modes}


def finished_results(chosen: RunRequest, *, failed: bool) -> Document | None:
    """Return the results document of a run that is complete; return None if results may be left to run.

    This function reads only the output folder and does not bring up the target, which takes many seconds.
    """
    folders = _leg_folders(chosen)
    started_folders = [folder for folder in folders.values() if (folder / "journal.jsonl").is_file()]
    # A mode for which nothing was selected has no journal. The run may be complete without this mode.
    if not started_folders or (
        len(started_folders) < len(folders) and not outputs.is_run_complete(chosen.output)
    ):
        return None
    book = _load_expectations_of_request(chosen)
    current_digests = {
        "suite": digests.suite_digest(),
        "target": chosen.target.digest,
        "expectations": book.digest,
    }
    legs = []
    for folder in started_folders:
        run = read_run(folder)
        recorded_digests = run.header.get("digests", {})
        if run.tail.damaged or any(
            recorded_digests.get(digest_name) != digest for digest_name, digest in current_digests.items()
        ):
            return None
        legs.append(document.leg_of_run(run.run_state, book))
        if not legs[-1]["complete"] or (failed and _failed_ids(legs[-1])):
            return None
    with contextlib.suppress(UsageError):
        earlier_document = document.read_results(chosen.output / "results.json")
        if [each["results"] for each in earlier_document["legs"]] == [each["results"] for each in legs]:
            return earlier_document
    # The run was killed after its last result and before it wrote its output files: write them now.
    for folder, each in zip(started_folders, legs, strict=True):
        output_files.write_reports(folder, [each])
    return output_files.write_reports(chosen.output, legs)


class _LegNotResumable(Exception):
    """A leg cannot be resumed. The run stops, so that no empty leg replaces the results of this leg."""


def _load_expectations_of_request(chosen: RunRequest) -> TargetExpectations:
    return entries.load_expectations(
        entries.expectation_files(chosen.target.name, chosen.target.expectations)
    )


def resume_leg(chosen: RunRequest, mode: str, folder: Path, *, failed: bool) -> Leg:
    """Resume one leg and return it; raise Interrupted on Ctrl-C."""
    started = datetime.datetime.now(datetime.timezone.utc)
    clock = time.monotonic()
    journal = Journal(folder / "journal.jsonl")
    if not journal.lock():
        raise UsageError(f"a run still writes to {folder}; wait until it ends, or stop it")
    book = _load_expectations_of_request(chosen)
    prepared = leg.bring_up_target(chosen, mode)
    level, plan, left_out = leg.select_results(chosen, mode, prepared)
    run = read_run(folder)
    run_state = run.run_state
    _check_unchanged(
        folder, run.header, leg.journal_header(chosen, mode, prepared, level, book, started, left_out)
    )
    if Plan.from_json(run.plan).digest() != plan.digest():
        raise UsageError(f"the plan in {folder} does not match the options of the run; start a new run")
    failures = _failed_results_to_rerun(run_state, book) if failed else None
    if failures is not None and not failures:
        return document.leg_of_run(run_state, book, today=started.date())
    journal.write("resume", failed=failed, started=started.isoformat(timespec="seconds"))
    seconds = leg.expected_seconds(mode, plan, leg.full_plan_of_mode(prepared))
    progress = Progress(run_state, seconds, label=run.header["name"])
    rounds = Rounds(
        chosen, mode, folder, journal, run.tail, run_state, progress.show, number=run_state.rounds
    )
    rounds.read_events()

    def run_remaining_results() -> None:
        if failures is None:
            leg.run_rounds(rounds, plan)
        else:
            rerun_results(rounds, plan.with_results(failures))

    finished_leg = leg.finish_leg(rounds, run_remaining_results, progress, book, started.date(), clock)
    if run.tail.damaged:
        finished_leg["problems"].append(f"{run.tail.damaged} damaged lines in journal.jsonl")
    return finished_leg


def rerun_results(rounds: Rounds, plan: Plan) -> None:
    """Run one more attempt at every result of a plan.

    Results that never ran, because an operator or property ended its process repeatedly, are rerun last. If
    the result that blocked one of them ends its process again, that result does not run this time either.
    """
    run_state = rounds.run_state
    attempt = run_state.last_attempt() + 1
    blockers = {
        result_id: blocker
        for result_id in plan.result_ids()
        if (blocker := run_state.blocker_of_result_that_never_ran(result_id)) is not None
    }
    _run_attempt(rounds, plan.select(lambda result_id: result_id not in blockers), attempt)
    for result_id, blocker in blockers.items():
        if run_state.was_certainly_lost(blocker, attempt):
            rounds.record_result_that_does_not_run(
                ResultId.parse(result_id), blocker, f"{blocker} ended its process again", attempt
            )
    rounds.read_events()
    _run_attempt(
        rounds, plan.select(lambda result_id: not run_state.has_attempt(result_id, attempt)), attempt
    )


def _run_attempt(rounds: Rounds, pending: Plan, attempt: int) -> None:
    """Run rounds until every result of a plan has the attempt, or until three rounds add none."""
    idle = 0
    while pending.cases and idle < 3:
        before = len(pending)
        groups = {(case.kind, case.subject) for case in pending.cases}
        rounds.run(pending, workers=min(rounds.options.workers, len(groups)), attempt=attempt)
        pending = pending.select(lambda result_id: not rounds.run_state.has_attempt(result_id, attempt))
        idle = idle + 1 if len(pending) == before else 0


def _failed_results_to_rerun(run_state: RunState, target_expectations: TargetExpectations) -> list[str]:
    """Return the ids of the failed results; raise UsageError if results are missing, because they must run
    first.
    """
    so_far = document.leg_of_run(run_state, target_expectations)
    if so_far["missing"]["count"]:
        raise UsageError(
            f"{so_far['missing']['count']} results of {so_far['name']} are missing; run --resume first"
        )
    return _failed_ids(so_far)


def _failed_ids(finished_leg: Leg) -> list[str]:
    return [row["id"] for row in finished_leg["results"] if row["verdict"] in FAILED]


def _check_unchanged(folder: Path, old: Header, new: Header) -> None:
    """Raise UsageError if an input that determines results has changed."""
    wrong = [
        f"{field} was {_shorten_digest(describe_option(field, old.get(field)))} and is "
        f"{_shorten_digest(describe_option(field, new[field]))}"
        for field in _SAME
        if old.get(field) != new[field]
    ]
    old_digests = old.get("digests", {})
    wrong += [
        f"the digest of {field} was {_shorten_digest(old_digests.get(field))} and is "
        f"{_shorten_digest(new['digests'][field])}"
        for field in new["digests"]
        if old_digests.get(field) != new["digests"][field]
    ]
    if wrong:
        raise UsageError(
            f"the run in {folder} cannot be resumed: {_join_with_and(wrong)}; undo this change, or start a "
            "new run"
        )


def _shorten_digest(value: object) -> str:
    text = str(value)
    return text[:12] if len(text) == 64 else text


def _join_with_and(clauses: Iterable[str]) -> str:
    return " and ".join(clauses)
