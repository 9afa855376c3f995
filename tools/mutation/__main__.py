"""``python -m tools.mutation``: plant faults under a device and count what the suite sees."""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import fnmatch
import hashlib
import json
import sys
import time
from pathlib import Path

import torch

from conformance.errors import UsageError
from conformance.model.vocabulary import LEVELS
from conformance.plan import selection
from conformance.plan.levels.mutation_score import LevelScore, MutationScores
from conformance.plan.run_request import Request
from conformance.process_control.child import Child
from conformance.process_control.supervisor import ChildNotStarted, Supervisor
from conformance.results import exit_codes
from conformance.runner import child_environment
from conformance.target import file as target_file
from tools.mutation import (
    campaign,
    draw,
    necessary_properties,
    regression_sample,
    reported_faults,
    score,
    score_page,
)
from tools.mutation.campaign import Job
from tools.mutation.coverage_run import learn, reach
from tools.mutation.mutant import Fault

#: Mutants of a score.
COUNT = 12_000
#: Results of each level that are tried on one mutant.
MOST = 60
#: Seconds in which a worker must be ready, the interposer built if it has to be.
START = 900.0
#: The log of all workers, in the output folder.
LOG = "workers.log"
_KEPT = "what is done is kept, run it again to go on"


def main() -> int:
    """Learn, run the mutants and print the score."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.mutation",
        description="Plant faults under a device; count what the suite sees.",
    )
    parser.add_argument("--target", default="hpu-reference", help="name or file (default: %(default)s)")
    parser.add_argument("--mode", default="eager", help="mode of the target (default: %(default)s)")
    parser.add_argument("-n", "--workers", type=int, default=child_environment.cores(), metavar="N")
    parser.add_argument("-o", "--output", type=Path, default=Path("mutation-out"), metavar="DIR")
    parser.add_argument(
        "--count", type=int, default=COUNT, metavar="N", help="mutants (default: %(default)s)"
    )
    parser.add_argument(
        "--place",
        action="append",
        metavar="PLACE",
        help="only mutants there (aten::add.out, module::*); repeatable",
    )
    parser.add_argument(
        "-k", dest="select", metavar="EXPR", help="only these results, as 'conformance run -k'"
    )
    parser.add_argument(
        "--sample",
        action="store_true",
        help=f"only the {regression_sample.COUNT} mutants of the committed sample, each on the result that killed it",
    )
    parser.add_argument(
        "--page", type=Path, metavar="FILE", help="write the score as a page of documentation"
    )
    parser.add_argument(
        "--properties", action="store_true", help="also ask which properties the score needs; for the page"
    )
    parser.add_argument(
        "--write-sample", action="store_true", help="write the sample anew from what this run killed"
    )
    parser.add_argument(
        "--record", action="store_true", help="write the figures that certificates carry anew"
    )
    options = parser.parse_args()
    try:
        return _run(options)
    except UsageError as error:
        print(f"tools.mutation: {error}", file=sys.stderr)
        return exit_codes.USAGE
    except ChildNotStarted as error:
        why = f"a worker did not start ({campaign.verdict(error.end)}); its words are in"
        print(f"tools.mutation: {why} {options.output.resolve() / LOG}; {_KEPT}", file=sys.stderr)
        return exit_codes.INCOMPLETE
    except RuntimeError as error:
        print(f"tools.mutation: {error}; {_KEPT}", file=sys.stderr)
        return exit_codes.INCOMPLETE
    except KeyboardInterrupt:
        print("tools.mutation: stopped by the user; run it again to go on", file=sys.stderr)
        return exit_codes.INCOMPLETE


def _run(options: argparse.Namespace) -> int:
    started = time.monotonic()
    folder: Path = options.output.resolve()
    file = target_file.load(options.target)
    file.check_mode(options.mode)
    select = selection.parse_selection(options.select) if options.select is not None else lambda name: True
    folder.mkdir(parents=True, exist_ok=True)
    request = Request(
        target=file,
        target_argument=options.target,
        modes=[options.mode],
        output=folder,
        workers=options.workers,
    )
    environment = {**child_environment.variables(request, options.mode), "PYTHONHASHSEED": "0"}
    command = [sys.executable, "-m", "tools.mutation.worker"]
    command += ["--target", options.target, "--mode", options.mode, "--build", str(folder / "build")]

    def spawn() -> Child:
        return Child.exec(command, environment, log=folder / LOG, channel=True)

    with Supervisor[Job](spawn, start=START, workers=options.workers) as workers:
        if options.sample:
            return _sample(workers, options.mode)
        learned = learn(workers, folder / "learned.jsonl", select, options.select or "")
        print(f"{len(learned.lessons)} results, {time.monotonic() - started:.0f} s", flush=True)
        faults = learned.faults
        if options.place:
            faults = [
                name
                for name in faults
                if any(fnmatch.fnmatchcase(Fault.parse(name).place, one) for one in options.place)
            ]
            if not faults:
                raise UsageError(f"no fault can be planted at {' or '.join(options.place)}")
        calls = reach(learned, [], 0).calls
        mutants = [draw.confined(fault, calls) for fault in draw.draw(faults, options.count)]
        mutants = list(dict.fromkeys([*mutants, *reported_faults.mutants(faults)]))
        names = "\n".join([learned.digest, *map(str, mutants)])
        digest = hashlib.sha256(names.encode()).hexdigest()
        journal = campaign.Journal(folder / "outcomes.jsonl", digest)
        results = reach(learned, mutants, MOST).results
        outcomes = campaign.run(workers, mutants, results, journal)
        standings = None
        if options.properties:
            properties = {necessary_properties.property_of(lesson.result) for lesson in learned.lessons}
            standings = necessary_properties.standings(workers, properties, outcomes, results)
    tallies = score.count(outcomes, learned, calls)
    if options.write_sample:
        regression_sample.choose(outcomes, ".".join(torch.__version__.split(".")[:2]), options.mode).write()
    within = {level: score.within(outcomes, learned, calls, learned.called_at(level)) for level in LEVELS}
    if options.record:
        powers = {
            level: LevelScore(
                tallies["all"].killed_at(level),
                tallies["all"].counted,
                inside.killed_at(level),
                inside.counted,
            )
            for level, inside in within.items()
        }
        torch_minor = ".".join(torch.__version__.split(".")[:2])
        today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
        MutationScores(options.target, options.mode, torch_minor, today, powers).after(
            MutationScores.read()
        ).write()
    if options.page is not None:
        title = (
            f"Target {options.target} in mode {options.mode}, torch {torch.__version__}: {len(mutants)} "
            f"mutants of {len(learned.places())} places against {len(learned.lessons)} results"
        )
        taken = score.within(outcomes, learned, calls, learned.taken_at("core"))
        places = score.count(outcomes, learned, calls, score.sort_of_place)
        options.page.write_text(
            score_page.markdown(title, tallies, outcomes, calls, within["core"], taken, places, standings)
        )
    record = {kind: dataclasses.asdict(tally) for kind, tally in tallies.items()}
    (folder / "score.json").write_text(json.dumps({"digest": digest, "kinds": record}, indent=1) + "\n")
    print(score.text(tallies))
    reported = reported_faults.count(outcomes)
    print(
        f"reported faults of real backends: {len(reported.killed)} killed, {len(reported.unseen)} not "
        f"({', '.join(row.id for row in reported.unseen) or 'none'}), "
        f"{len(reported.not_expressible)} not expressible"
    )
    print(f"{time.monotonic() - started:.0f} s; outcomes: {folder / 'outcomes.jsonl'}")
    return exit_codes.OK


def _sample(workers: Supervisor[Job], mode: str) -> int:
    known = regression_sample.Sample.read()
    if (mode, *torch.__version__.split(".")[:2]) != (known.mode, *known.torch.split(".")):
        raise UsageError(
            f"the sample is of mode {known.mode} and torch {known.torch}; run the whole catalogue"
        )
    started = time.monotonic()
    outcomes = regression_sample.run(workers, known)
    alive = [outcome for outcome in outcomes if outcome.fate != campaign.Fate.KILLED.value]
    for outcome in alive:
        print(f"{outcome.mutant} is {outcome.fate}: {known.killers[outcome.mutant]} killed it before")
    print(f"{len(outcomes) - len(alive)} of {len(outcomes)} killed, {time.monotonic() - started:.0f} s")
    if len(outcomes) < len(known.killers):
        return exit_codes.INCOMPLETE
    return exit_codes.UNEXPECTED if alive else exit_codes.OK


if __name__ == "__main__":
    sys.exit(main())
