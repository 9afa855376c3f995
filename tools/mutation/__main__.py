"""``python -m tools.mutation``: inject mutants into a device and count the mutants that the suite kills."""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import fnmatch
import hashlib
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from conformance.errors import UsageError
from conformance.model.vocabulary import LEVELS
from conformance.plan import selection
from conformance.plan.levels.mutation_score import LevelScore, MutationScores
from conformance.plan.run_request import RunRequest
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
from tools.mutation.coverage_run import CoverageData, run_coverage, select_results
from tools.mutation.mutant import Mutant

#: The number of mutants of a campaign.
MUTANT_COUNT = 12_000
#: The maximal number of results of each level that are tried on one mutant.
MOST_RESULTS_PER_LEVEL = 60
#: The time limit in seconds for the start of a worker, including the build of the interposer.
START_SECONDS = 900.0
#: The log file of all workers in the output folder.
LOG = "workers.log"
_KEPT = "finished mutants are saved; run the command again to continue"


def main() -> int:
    """Run the coverage run and the mutants, and print the score."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.mutation",
        description="Inject mutants into a device; count the mutants that the suite kills.",
    )
    parser.add_argument("--target", default="hpu-reference", help="name or file (default: %(default)s)")
    parser.add_argument("--mode", default="eager", help="mode of the target (default: %(default)s)")
    parser.add_argument("-n", "--workers", type=int, default=child_environment.usable_cores(), metavar="N")
    parser.add_argument("-o", "--output", type=Path, default=Path("mutation-out"), metavar="DIR")
    parser.add_argument(
        "--count",
        type=int,
        default=MUTANT_COUNT,
        metavar="N",
        help="number of mutants (default: %(default)s)",
    )
    parser.add_argument(
        "--place",
        action="append",
        metavar="PLACE",
        help="only mutants at these points (aten::add.out, module::*); repeatable",
    )
    parser.add_argument(
        "-k", dest="select", metavar="EXPR", help="only matching results; syntax of 'conformance run -k'"
    )
    parser.add_argument(
        "--sample",
        action="store_true",
        help=f"only the {regression_sample.COUNT} mutants of the committed sample, each on its "
        "killing result",
    )
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the score as a documentation page")
    parser.add_argument(
        "--properties", action="store_true", help="also determine the necessary properties, for the page"
    )
    parser.add_argument(
        "--write-sample", action="store_true", help="regenerate the committed sample from this run"
    )
    parser.add_argument(
        "--record", action="store_true", help="regenerate the scores that certificates contain"
    )
    options = parser.parse_args()
    try:
        return _run_campaign(options)
    except UsageError as error:
        print(f"tools.mutation: {error}", file=sys.stderr)
        return exit_codes.USAGE
    except ChildNotStarted as error:
        why = f"a worker did not start ({campaign.verdict_of_lost_worker(error.end)}); its log is"
        print(f"tools.mutation: {why} {options.output.resolve() / LOG}; {_KEPT}", file=sys.stderr)
        return exit_codes.INCOMPLETE
    except RuntimeError as error:
        print(f"tools.mutation: {error}; {_KEPT}", file=sys.stderr)
        return exit_codes.INCOMPLETE
    except KeyboardInterrupt:
        print("tools.mutation: stopped by the user; run the command again to continue", file=sys.stderr)
        return exit_codes.INCOMPLETE


def _run_campaign(options: argparse.Namespace) -> int:
    started = time.monotonic()
    folder: Path = options.output.resolve()
    file = target_file.load(options.target)
    file.check_mode(options.mode)
    select = selection.parse_selection(options.select) if options.select is not None else lambda name: True
    folder.mkdir(parents=True, exist_ok=True)
    request = RunRequest(
        target=file,
        target_argument=options.target,
        modes=[options.mode],
        output=folder,
        workers=options.workers,
    )
    environment = {**child_environment.environment_variables(request, options.mode), "PYTHONHASHSEED": "0"}
    command = [sys.executable, "-m", "tools.mutation.worker"]
    command += ["--target", options.target, "--mode", options.mode, "--build", str(folder / "build")]

    def spawn() -> Child:
        return Child.exec(command, environment, log=folder / LOG, channel=True)

    with Supervisor[Job](spawn, start=START_SECONDS, workers=options.workers) as workers:
        if options.sample:
            return _run_regression_sample(workers, options.mode)
        coverage_data = run_coverage(workers, folder / "learned.jsonl", select, options.select or "")
        print(f"{len(coverage_data.coverages)} results, {time.monotonic() - started:.0f} s", flush=True)
        names_of_mutants = coverage_data.mutants
        if options.place:
            names_of_mutants = [
                name
                for name in names_of_mutants
                if any(fnmatch.fnmatchcase(Mutant.parse(name).point, pattern) for pattern in options.place)
            ]
            if not names_of_mutants:
                raise UsageError(f"no mutant is possible at {' or '.join(options.place)}; check --place")
        calls = select_results(coverage_data, [], 0).calls
        mutants = [
            draw.confine_to_dtype(mutant, calls)
            for mutant in draw.draw_mutants(names_of_mutants, options.count)
        ]
        mutants = list(
            dict.fromkeys([*mutants, *reported_faults.mutants_of_reported_faults(names_of_mutants)])
        )
        names = "\n".join([coverage_data.digest, *map(str, mutants)])
        digest = hashlib.sha256(names.encode()).hexdigest()
        journal = campaign.Journal(folder / "outcomes.jsonl", digest)
        results = select_results(coverage_data, mutants, MOST_RESULTS_PER_LEVEL).results
        outcomes = campaign.run_mutants(workers, mutants, results, journal)
        necessities = None
        if options.properties:
            properties = {
                necessary_properties.property_of(coverage.result) for coverage in coverage_data.coverages
            }
            necessities = necessary_properties.count_necessary_mutants(workers, properties, outcomes, results)
    scores = score_page.PageScores.of(outcomes, coverage_data)
    tallies = scores.by_operator
    if options.write_sample:
        regression_sample.choose_sample(
            outcomes, ".".join(torch.__version__.split(".")[:2]), options.mode
        ).write()
    if options.record:
        _record_level_scores(options, outcomes, coverage_data, tallies["all"])
    if options.page is not None:
        title = (
            f"Target {options.target} in mode {options.mode}, torch {torch.__version__}: {len(mutants)} "
            f"mutants of {len(coverage_data.mutation_points())} points against "
            f"{len(coverage_data.coverages)} results"
        )
        options.page.write_text(score_page.markdown(title, scores, outcomes, calls, necessities))
    record = {
        operator: {name: value for name, value in dataclasses.asdict(tally).items() if name != "by_point"}
        for operator, tally in tallies.items()
    }
    (folder / "score.json").write_text(json.dumps({"digest": digest, "kinds": record}, indent=1) + "\n")
    print(score.score_table(tallies))
    reported = reported_faults.count_reported_faults(outcomes)
    print(
        f"reported faults of real backends: {len(reported.killed)} killed, {len(reported.not_killed)} not "
        f"({', '.join(row.id for row in reported.not_killed) or 'none'}), "
        f"{len(reported.not_expressible)} not expressible"
    )
    print(f"{time.monotonic() - started:.0f} s; outcomes: {folder / 'outcomes.jsonl'}")
    return exit_codes.OK


def _record_level_scores(
    options: argparse.Namespace,
    outcomes: Sequence[campaign.MutantResult],
    coverage_data: CoverageData,
    everything: score.Tally,
) -> None:
    """Write the mutation score of each level, which certificates contain.

    A score is the share of killed mutants among the mutants that altered a call.
    """
    level_scores = {}
    for level in LEVELS:
        called = score.tally_at_points(outcomes, coverage_data, coverage_data.points_called_at(level))
        level_scores[level] = LevelScore(
            everything.killed_at(level), everything.altered, called.killed_at(level), called.altered
        )
    torch_minor = ".".join(torch.__version__.split(".")[:2])
    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    MutationScores(options.target, options.mode, torch_minor, today, level_scores).with_history_of(
        MutationScores.read()
    ).write()


def _run_regression_sample(workers: Supervisor[Job], mode: str) -> int:
    sample = regression_sample.Sample.read()
    if (mode, *torch.__version__.split(".")[:2]) != (sample.mode, *sample.torch.split(".")):
        raise UsageError(
            f"the sample is for mode {sample.mode} and torch {sample.torch}; run without --sample"
        )
    started = time.monotonic()
    outcomes = regression_sample.run_sample(workers, sample)
    not_killed = [outcome for outcome in outcomes if outcome.fate != campaign.Fate.KILLED.value]
    for outcome in not_killed:
        print(
            f"{outcome.mutant} was not killed ({outcome.fate}); its recorded killing result is "
            f"{sample.killers[outcome.mutant]}"
        )
    parity = sum(outcome.parity for outcome in outcomes)
    print(
        f"{len(outcomes) - len(not_killed)} of {len(outcomes)} killed, {parity} of them in parity only, "
        f"{time.monotonic() - started:.0f} s"
    )
    if len(outcomes) < len(sample.killers):
        return exit_codes.INCOMPLETE
    return exit_codes.UNEXPECTED if not_killed else exit_codes.OK


if __name__ == "__main__":
    sys.exit(main())
