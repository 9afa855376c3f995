"""Going on with a run: what is missing after it was killed, or what failed, once more."""

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
from conformance.model import digests
from conformance.model.records import Document, Header, Leg, PlanTable
from conformance.model.verdicts import Verdict
from conformance.plan.plan import Plan, Shard
from conformance.plan.run_request import Request
from conformance.report import output_files
from conformance.results import document
from conformance.results import run_folder as outputs
from conformance.results.journal import Journal, Tail
from conformance.results.merge import spoken
from conformance.results.run_state import Ledger
from conformance.runner import leg, multi_mode
from conformance.runner.child_environment import cores
from conformance.runner.progress import Progress
from conformance.runner.pytest_rounds import Rounds
from conformance.target import file as target_file

#: Verdicts that are tried again. One that is flaky stays so, and what passes has nothing to show.
FAILED = frozenset(
    verdict.value
    for verdict in Verdict
    if verdict.unexpected and verdict not in (Verdict.XPASS, Verdict.FLAKY)
)
#: What must be as it was, besides all digests.
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
    """The user's options beside the folder; None keeps what the run had."""

    workers: int | None = None
    timeout: float | None = None


@dataclasses.dataclass(frozen=True)
class InterruptedLeg:
    """The state of a run that began, from its journal."""

    ledger: Ledger
    header: Header
    plan: PlanTable
    tail: Tail


def read(folder: Path) -> InterruptedLeg:
    """The state of a run from its journal; UsageError if it cannot be resumed."""
    path = folder / "journal.jsonl"
    tail = Tail(path)
    ledger = Ledger()
    for event in tail.read():
        ledger.apply(event)
    header, plan = ledger.header, ledger.plan
    if header is None or plan is None or not isinstance(header.get("options"), dict):
        raise UsageError(
            f"journal {path} does not begin with a run and its plan, so it cannot go on; run it anew"
        )
    return InterruptedLeg(ledger, header, plan, tail)


def options(folder: Path, wish: ResumeOptions) -> Request:
    """The options of the run whose output folder this is; UsageError if there is none."""
    journals = outputs.journals(folder)
    if not journals:
        raise UsageError(
            f"{folder} holds no journal of a run; name the output folder of 'conformance run' (merged "
            "results go on in the folders of their parts)"
        )
    parts = [journal.parent for journal in journals]
    header = read(parts[0]).header
    if parts[0] != folder and not outputs.of_one_run(journals):
        raise UsageError(
            f"{folder} holds the results of {len(parts)} runs, which were merged; name the one that is to go "
            f"on: {', '.join(map(str, parts))}"
        )
    try:
        kept = header["options"]
        return Request(
            target=target_file.load(kept["target"]),
            target_argument=kept["target"],
            modes=tuple(kept["modes"]),
            output=folder.resolve(),
            level=header["level"],
            shard=Shard.parse(header["shard"]),
            workers=wish.workers or min(int(header["workers"]), cores()),
            select=header["selection"],
            samples=header["samples"],
            timeout=wish.timeout or float(kept["timeout"]),
            extra=tuple(kept["extra"]),
            part=bool(kept["part"]),
            profile=bool(kept.get("profile", False)),
            ranks=max(2, wish.workers or int(kept["ranks"])),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"journal of {parts[0]} is damaged ({error!r}); run it anew") from None


def run(chosen: Request, *, failed: bool) -> list[Leg]:
    """Go on with every leg of a run: with ``failed`` what failed, else what is missing.

    UsageError if something that decides about results is not as it was.
    """
    if (chosen.output / "journal.jsonl").is_file():
        return [run_leg(chosen, chosen.modes[0], chosen.output, failed=failed)]
    folders = _folders(chosen)
    begun = {mode: (folder / "journal.jsonl").is_file() for mode, folder in folders.items()}
    if not any(begun.values()):
        raise UsageError(
            f"{chosen.output} has legs of a torch other than {installed_torch.version()}; use that build, or "
            "run it anew"
        )

    def one(mode: str) -> Leg:
        if not begun[mode]:
            if failed:
                raise leg.NothingToRun("it has not run yet; --resume runs it")
            return leg.run(chosen, mode, folders[mode])
        try:
            return run_leg(chosen, mode, folders[mode], failed=failed)
        except UsageError as error:
            raise _Refused(str(error)) from None

    try:
        return multi_mode.each(chosen, one)
    except _Refused as error:
        raise UsageError(str(error)) from None
    except leg.Interrupted as stop:
        known = {finished_leg["mode"] for finished_leg in stop.found}
        later = [folders[mode] for mode in chosen.modes if begun[mode] and mode not in known]
        book = _book(chosen)
        raise leg.Interrupted(
            [*stop.found, *(output_files.leg_from_journal(each, book) for each in later)]
        ) from None


def _folders(chosen: Request) -> dict[str, Path]:
    """The folder of each mode's leg."""
    if (chosen.output / "journal.jsonl").is_file():
        return {chosen.modes[0]: chosen.output}
    build = installed_torch.version()
    return {mode: chosen.output / "legs" / installed_torch.leg_name(build, mode) for mode in chosen.modes}


def finished(chosen: Request, *, failed: bool) -> Document | None:
    """The results of a run of which nothing is left to do; None if something is, or may be.

    It looks at the folder alone: bringing up the target only to find no work takes many seconds.
    """
    folders = _folders(chosen)
    begun = [folder for folder in folders.values() if (folder / "journal.jsonl").is_file()]
    # A mode for which there was nothing to run has no folder, and the results are complete without it.
    if not begun or (len(begun) < len(folders) and not outputs.complete(chosen.output)):
        return None
    book = _book(chosen)
    here = {"suite": digests.suite_digest(), "target": chosen.target.digest, "expectations": book.digest}
    legs = []
    for folder in begun:
        run = read(folder)
        known = run.header.get("digests", {})
        if run.tail.damaged or any(known.get(word) != digest for word, digest in here.items()):
            return None
        legs.append(document.leg(run.ledger, book))
        if not legs[-1]["complete"] or (failed and _to_try(legs[-1])):
            return None
    with contextlib.suppress(UsageError):
        kept = document.read(chosen.output / "results.json")
        if [each["results"] for each in kept["legs"]] == [each["results"] for each in legs]:
            return kept
    # The run was killed between its last result and its files.
    for folder, each in zip(begun, legs, strict=True):
        output_files.write_reports(folder, [each])
    return output_files.write_reports(chosen.output, legs)


class _Refused(Exception):
    """A leg cannot go on. Unlike one that cannot start, it has results, which nothing may replace."""


def _book(chosen: Request) -> TargetExpectations:
    return entries.load_expectations(
        entries.expectation_files(chosen.target.name, chosen.target.expectations)
    )


def run_leg(chosen: Request, mode: str, folder: Path, *, failed: bool) -> Leg:
    """Go on with one leg and return it; Interrupted on Ctrl-C."""
    started = datetime.datetime.now(datetime.timezone.utc)
    clock = time.monotonic()
    journal = Journal(folder / "journal.jsonl")
    if not journal.lock():
        raise UsageError(f"a run still writes to {folder}; wait for its end, or end it")
    book = _book(chosen)
    answer = leg.prepare(chosen, mode)
    level, plan, left_out = leg.choose(chosen, mode, answer)
    run = read(folder)
    ledger = run.ledger
    _same(folder, run.header, leg.header(chosen, mode, answer, level, book, started, left_out))
    if Plan.from_json(run.plan).digest() != plan.digest():
        raise UsageError(f"the plan in {folder} is another one than that of its options; run it anew")
    failures = _failed(ledger, book) if failed else None
    if failures is not None and not failures:
        return document.leg(ledger, book, today=started.date())
    journal.write("resume", failed=failed, started=started.isoformat(timespec="seconds"))
    progress = Progress(ledger, len(plan), label=run.header["name"])
    rounds = Rounds(chosen, mode, folder, journal, run.tail, ledger, progress.show, number=ledger.rounds)
    rounds.absorb()

    def work() -> None:
        if failures is None:
            leg.work(rounds, plan)
        else:
            rerun(rounds, plan.only(failures))

    finished_leg = leg.finish(rounds, work, progress, book, started.date(), clock)
    if run.tail.damaged:
        finished_leg["problems"].append(f"{run.tail.damaged} damaged lines in journal.jsonl")
    return finished_leg


def rerun(rounds: Rounds, plan: Plan) -> None:
    """One more attempt at every result of a plan."""
    attempt = rounds.ledger.last_attempt() + 1
    pending, idle = plan, 0
    while pending.cases and idle < 3:
        before = len(pending)
        groups = {(case.kind, case.subject) for case in pending.cases}
        rounds.run(pending, workers=min(rounds.options.workers, len(groups)), attempt=attempt)
        pending = pending.select(lambda result_id: not rounds.ledger.tried(result_id, attempt))
        idle = idle + 1 if len(pending) == before else 0


def _failed(ledger: Ledger, book: TargetExpectations) -> list[str]:
    """The results that failed; UsageError if some are missing, which come first."""
    so_far = document.leg(ledger, book)
    if so_far["missing"]["count"]:
        raise UsageError(
            f"{so_far['missing']['count']} results of {so_far['name']} are missing; go on with --resume first"
        )
    return _to_try(so_far)


def _to_try(finished_leg: Leg) -> list[str]:
    return [row["id"] for row in finished_leg["results"] if row["verdict"] in FAILED]


def _same(folder: Path, old: Header, new: Header) -> None:
    """Raise UsageError if what decides about results has changed since."""
    wrong = [
        f"{word} was {_short(spoken(word, old.get(word)))} and is {_short(spoken(word, new[word]))}"
        for word in _SAME
        if old.get(word) != new[word]
    ]
    digests = old.get("digests", {})
    wrong += [
        f"the digest of {word} was {_short(digests.get(word))} and is {_short(new['digests'][word])}"
        for word in new["digests"]
        if digests.get(word) != new["digests"][word]
    ]
    if wrong:
        raise UsageError(f"the run in {folder} cannot go on: {_and(wrong)}; put that back, or run it anew")


def _short(value: object) -> str:
    text = str(value)
    return text[:12] if len(text) == 64 else text


def _and(words: Iterable[str]) -> str:
    return " and ".join(words)
