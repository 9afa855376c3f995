"""``conformance repro``: rerun one result, print it, and write a snippet that reproduces its failure."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import faulthandler
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conformance.commands import common
from conformance.errors import UsageError
from conformance.expectations.aliases import Aliases
from conformance.model import seeds
from conformance.model.verdicts import Basis, Kind, Result, ResultId, Verdict
from conformance.reproduction import guarded_run
from conformance.target import file as target_file

if TYPE_CHECKING:
    from conformance.reproduction.rerun import RerunTrial
    from conformance.reproduction.snippet import Snippet

#: A snippet with more lines is printed only on request.
PRINTED = 160


def add_parser(commands: Any) -> None:
    """Add the command ``repro`` to the command line."""
    parser = commands.add_parser(
        "repro", help="rerun one result and write a snippet that reproduces its failure"
    )
    parser.add_argument("result_id", metavar="RESULT_ID", help="e.g. value/add@float32")
    common.add_target_option(parser)
    parser.add_argument("--mode", metavar="M", help="mode (default: eager)")
    parser.add_argument(
        "--samples", default="default", type=common.parse_samples, metavar="all|N", help="samples per result"
    )
    common.add_seed_option(parser)
    parser.add_argument(
        "--sample",
        type=int,
        metavar="N",
        help="number of the sample to start from (default: the failing sample)",
    )
    parser.add_argument(
        "--snippet", metavar="FILE|-", help="file for the snippet (default: printed if it is short)"
    )
    parser.add_argument("--no-snippet", action="store_true", help="only rerun the result")
    parser.add_argument("--no-shrink", action="store_true", help="do not shrink the sample")
    parser.add_argument(
        "--seconds",
        type=common.parse_positive,
        default=30,
        metavar="S",
        help="time for shrinking (default: 30)",
    )
    parser.add_argument(
        "--timeout",
        type=common.parse_positive,
        default=300,
        metavar="S",
        help="time for the result (default: 300)",
    )
    parser.add_argument("--results", metavar="DIR", help="also print the recorded result of this run")
    common.add_extra_option(parser)
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    """Rerun the result. Return exit code 1 if its verdict is unexpected."""
    file = target_file.load(arguments.target)
    mode = arguments.mode or file.default_mode
    file.check_mode(mode)
    try:
        result_id = ResultId.parse(Aliases.load().resolve(arguments.result_id))
    except ValueError as error:
        raise UsageError(str(error)) from None
    if arguments.snippet not in (None, "-"):
        common.check_writable(Path(arguments.snippet).parent, "--snippet")
    if arguments.results is not None:
        recorded_seed = print_recorded_result(Path(arguments.results), result_id)
        arguments.seed = recorded_seed if arguments.seed is None else arguments.seed
    os.environ.update(file.variables(mode))
    common.set_run_seed(arguments)
    os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
    snippet = None if arguments.snippet in (None, "-") else Path(arguments.snippet)
    return guarded_run.run_guarded(
        lambda watch: _run_in_this_process(arguments, file, mode, result_id, watch),
        arguments.timeout,
        snippet,
    )


def _run_in_this_process(
    arguments: argparse.Namespace,
    file: Any,
    mode: str,
    result_id: ResultId,
    watch: guarded_run.GuardedRunLink,
) -> int:
    """Run the result in this process. A crash of the device ends the process."""
    faulthandler.enable()

    from conformance.device.bring_up import bring_up
    from conformance.plan.plan import Case
    from conformance.properties.registry import find_property
    from conformance.reproduction.rerun import RerunTrial
    from conformance.samples import sample_limit
    from conformance.subjects import catalogue
    from conformance.worker.executor import DeviceUnusable, Executor

    catalogue.load_extra(arguments.extra)
    sample_limit.set_limit(arguments.samples)
    target = file.target(mode)
    bring_up(target)
    executor = Executor(target)
    kind = subject_kind_of(result_id)
    entry = find_property(kind, result_id.case.property)
    if mode not in entry.modes:
        raise UsageError(
            f"property {entry.name!r} is not checked in mode {mode!r}; give --mode {' or '.join(entry.modes)}"
        )
    applies = entry.applies(target, executor.subject(kind, result_id.case.subject))
    if result_id.dtype not in applies:
        raise UsageError(
            f"{result_id.case} has no result for {result_id.dtype!r}; it has {', '.join(applies) or 'none'}"
        )
    trial = RerunTrial(executor, entry, executor.subject(kind, result_id.case.subject), result_id)
    if watch.again:
        from conformance.reproduction import crash_snippet

        # The first run of this result ended its process. In this second run, the snippet of each call is
        # written before the call.
        return crash_snippet.run_with_trace(trial, watch, lambda text: print(text, flush=True))
    print(f"{result_id}: {entry.statement}", flush=True)
    with contextlib.suppress(DeviceUnusable):
        executor.run(Case(kind, entry.name, result_id.case.subject, (result_id.dtype,)))
    watch.report_checked()
    assert executor.last is not None
    available = executor.last.samples_available
    if arguments.sample is not None and not 0 <= arguments.sample < max(available, 1):
        raise UsageError(
            f"--sample {arguments.sample} does not exist; {result_id} has samples 0 to {available - 1}"
        )
    verdict = _verdict_with_parity_apart(executor.last) if file.parity == "apart" else executor.last.verdict
    print_result(executor.last, verdict)
    sys.stdout.flush()
    if executor.last.verdict in (Verdict.FAIL, Verdict.VACUOUS) and not arguments.no_snippet:
        _make_snippet(arguments, trial, executor.last)
    elif arguments.snippet is not None:
        print(f"no snippet is written: the verdict is {verdict.value}")
    return int(verdict.unexpected)


def _make_snippet(arguments: argparse.Namespace, trial: RerunTrial, result: Result) -> None:
    """Write the snippet of a result's first failure, or of the failure with the requested sample."""
    from conformance.reproduction import snippet as snippets
    from conformance.reproduction.module_ast import NotWritableAsSource

    failures = [failure for failure in result.failures if failure.kind is not Kind.HARNESS]
    chosen = [
        failure for failure in failures if arguments.sample is None or failure.sample == arguments.sample
    ] or failures
    if not chosen:
        return
    try:
        snippet = snippets.make_snippet(
            trial,
            chosen[0],
            sample_index=arguments.sample,
            simplify=not arguments.no_shrink,
            seconds=float(arguments.seconds),
        )
    except NotWritableAsSource as error:
        print(f"no snippet: {error}; use the command above to reproduce the failure")
        return
    print_snippet_summary(snippet)
    write_or_print_snippet(snippet.text, arguments.snippet)
    if not snippet.shows:
        print("caution: the snippet did not reproduce the failure when it ran alone; its output:")
        print(snippet.output.strip()[-1500:])


def print_snippet_summary(snippet: Snippet) -> None:
    """Print the form of a snippet, and the sample and the failure that it reproduces."""
    shrunk = snippet.shrunk
    print()
    print(f"snippet: {snippet.form}")
    sample_text = shrunk.summary + (
        f", {shrunk.accepted} of {shrunk.tried} simplifications kept" if shrunk.tried else ""
    )
    print(f"sample: {sample_text}")
    if hasattr(shrunk.sample, "describe"):
        print(f"arguments: {shrunk.sample.describe()}")
    print(f"it fails with: {shrunk.failure.kind.value}: {shrunk.failure.message.splitlines()[0]}")


def write_or_print_snippet(text: str, where: str | None) -> None:
    """Write or print a snippet, and explain its use."""
    lines = text.count("\n")
    if where not in (None, "-"):
        assert where is not None
        try:
            Path(where).parent.mkdir(parents=True, exist_ok=True)
            Path(where).write_text(text, encoding="utf-8")
        except OSError as error:
            print(text.rstrip())  # do not lose the snippet: making it took time
            raise UsageError(
                f"--snippet {where} cannot be written ({error.strerror}); the snippet is printed above"
            ) from None
        print(f"It needs only torch and the backend. Run it with `python {where}`: it prints WRONG and exits")
        print("with 1 if the failure occurs, else it exits with 0. You can attach it to a bug report.")
        return
    if where is None and lines > PRINTED:
        print(f"The snippet has {lines} lines; write it to a file with --snippet FILE, or print it with -.")
        return
    print("----- snippet -----")
    print(text.rstrip())
    print("----- end of snippet -----")
    print("It needs only torch and the backend. Save it (or use --snippet FILE) and run it with python:")
    print("it prints WRONG and exits with 1 if the failure occurs, else it exits with 0.")


def print_recorded_result(folder: Path, result_id: ResultId) -> int | None:
    """Print a result as recorded in a results file, and return the seed of its run; None if the file does not
    have the result. The text is untrusted and never executed.
    """
    from conformance.results import document as results

    try:
        document = results.read_results(folder / "results.json")
    except OSError as error:
        raise UsageError(
            f"--results {folder} cannot be read ({error.strerror}); give the output folder of a run"
        ) from None
    recorded_seed: int | None = None
    for leg in document["legs"]:
        for row in leg["results"]:
            if row["id"] == str(result_id):
                recorded_seed = leg.get("seed", seeds.RELEASE_SEED)
                print(f"recorded: {leg['target']['name']}, {leg['mode']}: {row['verdict']}")
                for failure in row.get("failures", ()):
                    text = "".join(c if c.isprintable() else " " for c in failure["message"])
                    print(f"recorded: {failure['kind']}: {text[:600]}")
    if recorded_seed is None:
        print(f"recorded: nothing about {result_id} in {folder}")
    return recorded_seed


def subject_kind_of(result_id: ResultId) -> str:
    """Return the subject kind of a result id.

    Raise UsageError with similar names if the property or the subject does not exist.
    """
    from conformance.properties.registry import properties
    from conformance.subjects import catalogue

    name, subject_name = result_id.case.property, result_id.case.subject
    named = {kind: [entry.name for entry in properties(kind)] for kind in catalogue.kinds()}
    kinds = [kind for kind, names in named.items() if name in names]
    if not kinds:
        property_names = sorted({entry for names in named.values() for entry in names})
        hint = _similar_names_hint(name, property_names)
        raise UsageError(f"{result_id} does not exist: no property is called {name!r}{hint}")
    subjects: list[str] = []
    for kind in kinds:
        of_kind = [subject.name for subject in catalogue.subjects(kind)]
        if subject_name in of_kind:
            return kind
        subjects += of_kind
    kind_names = " or ".join(kinds)
    hint = _similar_names_hint(subject_name, subjects)
    raise UsageError(f"{result_id} does not exist: no {kind_names} is called {subject_name!r}{hint}")


def _similar_names_hint(name: str, names: list[str]) -> str:
    similar = difflib.get_close_matches(name, names, n=5, cutoff=0.5)
    return f"; similar: {', '.join(similar)}" if similar else "; see the ids in the results.json of a run"


def _verdict_with_parity_apart(result: Result) -> Verdict:
    """Return the verdict of a result in a run with ``--parity apart``."""
    only_parity = {failure.basis for failure in result.failures} == {Basis.PARITY}
    return Verdict.PARITY if result.verdict is Verdict.FAIL and only_parity else result.verdict


def print_result(result: Result, verdict: Verdict) -> None:
    """Print a result in full. ``verdict`` is the verdict that a run reports for the result."""
    print(f"verdict: {verdict.value}")
    print(f"seed: {result.seed}")
    print(f"comparisons: {result.comparisons}")
    if result.samples_available:
        print(f"samples: {result.samples_used} of {result.samples_available}")
    if result.placement is not None:
        print(f"placement: {result.placement.value}")
    for note in result.notes:
        print(f"note: {note}")
    for failure in result.failures:
        sample = "" if failure.sample is None else f" (sample {failure.sample})"
        basis = "" if failure.basis is Basis.DOCUMENTED else f", {failure.basis.value}"
        print(f"{failure.kind.value}{sample}{basis}: {failure.message}")
    hidden = result.failure_count - len(result.failures)
    if hidden > 0:
        print(f"and {hidden} more failures")
