"""``conformance repro``: run one result again, show it in full, and write a snippet that reproduces it."""

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
from conformance.model.verdicts import Kind, Result, ResultId, Verdict
from conformance.reproduction import guarded_run
from conformance.target import file as target_file

if TYPE_CHECKING:
    from conformance.reproduction.rerun import Trial
    from conformance.reproduction.snippet import Snippet

#: A longer snippet, in lines, is only printed on request.
PRINTED = 160


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "repro", help="run one result again and write a snippet that shows its failure"
    )
    parser.add_argument("result_id", metavar="RESULT_ID", help="e.g. value/add@float32")
    common.target(parser)
    parser.add_argument("--mode", metavar="M", help="mode (default: eager)")
    parser.add_argument(
        "--samples", default="default", type=common.samples, metavar="all|N", help="samples per result"
    )
    parser.add_argument(
        "--sample",
        type=int,
        metavar="N",
        help="number of the sample to begin with (default: that of the failure)",
    )
    parser.add_argument(
        "--snippet", metavar="FILE|-", help="file for the snippet (default: printed if it is short)"
    )
    parser.add_argument("--no-snippet", action="store_true", help="only run the result again")
    parser.add_argument("--no-shrink", action="store_true", help="take the sample as it is")
    parser.add_argument(
        "--seconds", type=common.positive, default=30, metavar="S", help="time for shrinking (default: 30)"
    )
    parser.add_argument(
        "--timeout", type=common.positive, default=300, metavar="S", help="time for the result (default: 300)"
    )
    parser.add_argument("--results", metavar="DIR", help="show what a run's results say about it, too")
    common.extra(parser)
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    """Run the result; exit code 1 if its verdict is an unexpected one."""
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
        show_recorded(Path(arguments.results), result_id)
    os.environ.update(file.variables(mode))
    os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
    snippet = None if arguments.snippet in (None, "-") else Path(arguments.snippet)
    return guarded_run.guarded(
        lambda watch: _here(arguments, file, mode, result_id, watch), arguments.timeout, snippet
    )


def _here(
    arguments: argparse.Namespace, file: Any, mode: str, result_id: ResultId, watch: guarded_run.Watch
) -> int:
    """Run the result in this process, which the device may take down."""
    faulthandler.enable()

    from conformance.device.bring_up import bring_up
    from conformance.plan.plan import Case
    from conformance.properties.registry import find
    from conformance.reproduction.rerun import Trial
    from conformance.samples import sample_limit
    from conformance.subjects import catalogue
    from conformance.worker.executor import DeviceUnusable, Executor

    catalogue.load_extra(arguments.extra)
    sample_limit.choose(arguments.samples)
    target = file.target(mode)
    bring_up(target)
    executor = Executor(target)
    kind = find_kind(result_id)
    entry = find(kind, result_id.case.property)
    if mode not in entry.modes:
        raise UsageError(
            f"property {entry.name!r} is not checked in mode {mode!r}; give --mode {' or '.join(entry.modes)}"
        )
    applies = entry.applies(target, executor.subject(kind, result_id.case.subject))
    if result_id.dtype not in applies:
        raise UsageError(
            f"{result_id.case} has no result for {result_id.dtype!r}; it has {', '.join(applies) or 'none'}"
        )
    trial = Trial(executor, entry, executor.subject(kind, result_id.case.subject), result_id)
    if watch.again:
        from conformance.reproduction import crash_snippet

        # It took the process down before: every call is printed before it is made.
        return crash_snippet.traced(trial, watch, lambda words: print(words, flush=True))
    print(f"{result_id}: {entry.statement}", flush=True)
    with contextlib.suppress(DeviceUnusable):
        executor.run(Case(kind, entry.name, result_id.case.subject, (result_id.dtype,)))
    watch.checked()
    assert executor.last is not None
    available = executor.last.samples_available
    if arguments.sample is not None and not 0 <= arguments.sample < max(available, 1):
        raise UsageError(f"--sample {arguments.sample} does not exist; {result_id} has 0 to {available - 1}")
    show(executor.last)
    sys.stdout.flush()
    if executor.last.verdict in (Verdict.FAIL, Verdict.VACUOUS) and not arguments.no_snippet:
        _snippet(arguments, trial, executor.last)
    elif arguments.snippet is not None:
        print(f"no snippet is written: the verdict is {executor.last.verdict.value}")
    return int(executor.last.verdict.unexpected)


def _snippet(arguments: argparse.Namespace, trial: Trial, result: Result) -> None:
    """Write the snippet of a result's first failure, or of the failure with the requested sample."""
    from conformance.reproduction import snippet as snippets
    from conformance.reproduction.module_ast import Unwritable

    failures = [failure for failure in result.failures if failure.kind is not Kind.HARNESS]
    chosen = [
        failure for failure in failures if arguments.sample is None or failure.sample == arguments.sample
    ] or failures
    if not chosen:
        return
    try:
        snippet = snippets.make(
            trial,
            chosen[0],
            number=arguments.sample,
            simplify=not arguments.no_shrink,
            seconds=float(arguments.seconds),
        )
    except Unwritable as error:
        print(f"no snippet: {error}; the command above is the way to see the failure")
        return
    describe(snippet)
    deliver(snippet.text, arguments.snippet)
    if not snippet.shows:
        print("caution: run alone, the snippet did not show the failure; what it printed:")
        print(snippet.output.strip()[-1500:])


def describe(snippet: Snippet) -> None:
    """Print the form of the snippet, its sample and its failure."""
    shrunk = snippet.shrunk
    print()
    print(f"snippet: {snippet.form}")
    words = shrunk.words + (
        f", {shrunk.taken} of {shrunk.tried} simplifications kept" if shrunk.tried else ""
    )
    print(f"sample: {words}")
    if hasattr(shrunk.sample, "describe"):
        print(f"arguments: {shrunk.sample.describe()}")
    print(f"it fails with: {shrunk.failure.kind.value}: {shrunk.failure.message.splitlines()[0]}")


def deliver(text: str, where: str | None) -> None:
    """Write or print a snippet, and explain its use."""
    lines = text.count("\n")
    if where not in (None, "-"):
        assert where is not None
        try:
            Path(where).parent.mkdir(parents=True, exist_ok=True)
            Path(where).write_text(text, encoding="utf-8")
        except OSError as error:
            print(text.rstrip())  # finding it took time
            raise UsageError(
                f"--snippet {where} cannot be written ({error.strerror}); the snippet is printed above"
            ) from None
        print(f"It needs torch and the backend only. Run it with `python {where}`: it exits with 1 and says")
        print("WRONG while the failure is there, and with 0 once it is gone. It can go with a bug report.")
        return
    if where is None and lines > PRINTED:
        print(f"The snippet has {lines} lines; name a file for it with --snippet FILE (or - to print it).")
        return
    print("----- snippet -----")
    print(text.rstrip())
    print("----- end of snippet -----")
    print(
        "It needs torch and the backend only. Save it (or let --snippet FILE do that) and run it with python:"
    )
    print("it exits with 1 and says WRONG while the failure is there, and with 0 once it is gone.")


def show_recorded(folder: Path, result_id: ResultId) -> None:
    """Print the result as a results file has it. The text is untrusted: it is never run."""
    from conformance.results import document as results

    try:
        document = results.read(folder / "results.json")
    except OSError as error:
        raise UsageError(
            f"--results {folder} cannot be read ({error.strerror}); name the folder of a run's -o"
        ) from None
    recorded = False
    for leg in document["legs"]:
        for row in leg["results"]:
            if row["id"] == str(result_id):
                recorded = True
                print(f"recorded: {leg['target']['name']}, {leg['mode']}: {row['verdict']}")
                for failure in row.get("failures", ()):
                    text = "".join(c if c.isprintable() else " " for c in failure["message"])
                    print(f"recorded: {failure['kind']}: {text[:600]}")
    if not recorded:
        print(f"recorded: nothing about {result_id} in {folder}")


def find_kind(result_id: ResultId) -> str:
    """Find the kind of subject of a result id; UsageError with similar names if there is none."""
    from conformance.properties.registry import properties
    from conformance.subjects import catalogue

    name, subject_name = result_id.case.property, result_id.case.subject
    named = {kind: [entry.name for entry in properties(kind)] for kind in catalogue.kinds()}
    kinds = [kind for kind, names in named.items() if name in names]
    if not kinds:
        known = sorted({entry for names in named.values() for entry in names})
        raise UsageError(f"{result_id} does not exist: no property is called {name!r}{_near(name, known)}")
    subjects: list[str] = []
    for kind in kinds:
        of_kind = [subject.name for subject in catalogue.subjects(kind)]
        if subject_name in of_kind:
            return kind
        subjects += of_kind
    words = " or ".join(kinds)
    raise UsageError(
        f"{result_id} does not exist: no {words} is called {subject_name!r}{_near(subject_name, subjects)}"
    )


def _near(name: str, known: list[str]) -> str:
    similar = difflib.get_close_matches(name, known, n=5, cutoff=0.5)
    return f"; there is {', '.join(similar)}" if similar else "; see the ids in a run's results.json"


def show(result: Result) -> None:
    """Print a result in full."""
    print(f"verdict: {result.verdict.value}")
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
        print(f"{failure.kind.value}{sample}: {failure.message}")
    hidden = result.failure_count - len(result.failures)
    if hidden > 0:
        print(f"and {hidden} more failures")
