"""Make a snippet for a failure, and run it to verify that it reproduces the failure."""

from __future__ import annotations

import dataclasses

from conformance.model.verdicts import Failure
from conformance.reproduction import (
    call_recorder,
    call_snippet,
    check_snippet,
    program_snippet,
    script,
    shrinking,
)
from conformance.reproduction.module_ast import NotWritableAsSource
from conformance.reproduction.rerun import RerunTrial, failure_signature
from conformance.reproduction.script import Script
from conformance.reproduction.shrinking import ShrinkingResult
from conformance.samples.random_programs.program import Program


@dataclasses.dataclass
class Snippet:
    """A script, its shrunk sample, its output, and whether it reproduced the failure when it ran alone."""

    text: str
    form: str
    shrunk: ShrinkingResult
    shows: bool
    output: str
    notes: list[str]


def make_snippet(
    trial: RerunTrial,
    failure: Failure,
    *,
    sample_index: int | None = None,
    simplify: bool = True,
    seconds: float = shrinking.BUDGET_SECONDS,
) -> Snippet:
    """Return the shortest script that reproduces a failure, on the smallest sample found within ``seconds``.

    Raise :class:`~conformance.reproduction.module_ast.NotWritableAsSource` if the failure cannot be written
    as a script.
    """
    if trial.target.elsewhere:
        raise NotWritableAsSource("the check needs several processes")
    shrunk = shrinking.shrink_samples(
        trial, failure, sample_index=sample_index, budget=seconds, simplify=simplify
    )
    notes: list[str] = []
    last: Snippet | None = None
    with trial.with_sample_sets(shrunk.sets):
        for form_name, write in (("short", _short_form), ("whole", _whole_check_form)):
            try:
                snippet_script = write(trial, shrunk)
            except NotWritableAsSource as error:
                notes.append(f"no {form_name} form: {error}")
                continue
            code, output = script.run_script(snippet_script.text)
            shows = code == 1 and "WRONG" in output
            if shows and form_name == "short" and not trial.target.is_cpu:
                # If the script fails on the CPU too, it does not prove a fault of the device.
                on_cpu, _ = script.run_script(snippet_script.text, arguments=("cpu",))
                if on_cpu != 0:
                    notes.append(f"{snippet_script.form}: the CPU fails too")
                    continue
            last = Snippet(snippet_script.text, snippet_script.form, shrunk, shows, output, notes)
            if shows:
                return last
            notes.append(f"{snippet_script.form}: the failure did not show (exit code {code})")
    if last is None:
        raise NotWritableAsSource("; ".join(notes))
    return last


def _exit_status_advice(trial: RerunTrial) -> str:
    on_cpu = "" if trial.target.is_cpu else ' With the argument "cpu" it runs on the CPU.'
    return f"Exits with 1 and prints WRONG while the failure exists, with 0 once it is fixed.{on_cpu}"


def _short_form(trial: RerunTrial, shrunk: ShrinkingResult) -> Script:
    if isinstance(shrunk.sample, Program):
        return program_snippet.write_program_snippet(trial, shrunk.sample, advice=_exit_status_advice(trial))
    if trial.subject.kind != "operator":
        raise NotWritableAsSource(f"a check of kind {trial.subject.kind!r} makes more than one call")
    if trial.target.mode != "eager" or trial.target.rehearses:
        raise NotWritableAsSource(f"mode {trial.target.mode!r} needs more than one call")
    comparison = call_recorder.record_failed_comparison(trial, failure_signature(shrunk.failure))
    if comparison is None:
        raise NotWritableAsSource(
            "the failure does not concern the values, metadata or errors of a single call"
        )
    return call_snippet.write_call_snippet(trial, comparison, advice=_exit_status_advice(trial))


def _whole_check_form(trial: RerunTrial, shrunk: ShrinkingResult) -> Script:
    only = shrunk.failure.sample if shrunk.sample is None else None
    return check_snippet.write_check_snippet(trial, advice=_exit_status_advice(trial), only=only)
