"""Compare a target's declarations with small trials, and try the operators of a level on the device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from conformance.doctor import (
    capability_trials,
    operator_trials,
    precision_trials,
    registration_checks,
    trial_process,
)
from conformance.doctor.registration_checks import Fact
from conformance.model.vocabulary import CAPABILITIES
from conformance.target.file import TargetFile
from conformance.target.target import Target


def collect_trial_facts(file: TargetFile, target: Target, level: str) -> tuple[list[Fact], list[Fact]]:
    """Try the operators of a level and all capabilities in separate processes. Return the facts about
    operators and the facts about capabilities.
    """
    subjects = operator_trials.operators_of_level(target, level)
    capabilities = [
        capability
        for capability in capability_trials.trial_names()
        if capability not in ("graphs" if target.has_graphs else "",)
    ]
    requested = [f"capability:{capability}" for capability in capabilities]
    requested += [f"precision:{name}" for name in precision_trials.CLASSES]
    requested += [f"operator:{name}" for name in subjects]
    outcomes = trial_process.run_trials(file.path, target.mode, requested)
    tried = {name: outcomes[f"operator:{name}"] for name in subjects}
    return list(_operator_facts(target, level, tried)), [
        *_capability_facts(target, capabilities, outcomes),
        *_precision_facts(target, outcomes),
    ]


def _operator_facts(
    target: Target, level: str, tried: dict[str, trial_process.TrialOutcome]
) -> Iterator[Fact]:
    if not tried:
        return
    failed = {name: outcome for name, outcome in tried.items() if not outcome.ok}
    summary = f"{len(tried) - len(failed)} of {len(tried)} run ('conformance run' checks their results)"
    yield Fact(f"operators of level {level}", not failed, summary, tuple(failed))
    waiting = {name: outcome.kernels for name, outcome in failed.items() if outcome.kernels}
    by_kernel = operator_trials.operators_by_missing_kernel(waiting)
    if by_kernel:
        key = registration_checks.dispatch_key_of(target)
        lines = tuple(f"{kernel} ({_join_first_operators(names)})" for kernel, names in by_kernel)
        first = _join_first_operators([kernel for kernel, _ in by_kernel], 12)
        step = f"register these kernels under {key}, the most needed first: {first}"
        yield Fact(
            "kernels",
            False,
            f"{len(by_kernel)} are missing (in brackets: the operators that need the kernel)",
            lines,
            step,
            tuple(name.partition("@")[0] for name in waiting),
        )
    by_error: dict[str, list[str]] = {}
    for name, outcome in failed.items():
        if not outcome.kernels:
            by_error.setdefault(outcome.text, []).append(name)
    for text, names in by_error.items():
        yield Fact(
            f"operator {names[0]}",
            False,
            f"{text} ({_join_first_operators(names)})",
            step=f"fix {_join_first_operators(names)}",
            operators=tuple(name.partition("@")[0] for name in names),
        )


def _join_first_operators(names: Sequence[str], limit: int = 6) -> str:
    operator_names = [name.partition("@")[0] for name in names]
    more = f" and {len(operator_names) - limit} more" if len(operator_names) > limit else ""
    return ", ".join(operator_names[:limit]) + more


def _capability_facts(
    target: Target, capabilities: Sequence[str], outcomes: dict[str, trial_process.TrialOutcome]
) -> Iterator[Fact]:
    working: list[str] = []
    for capability in capabilities:
        outcome = outcomes[f"capability:{capability}"]
        declared = target.capable(capability)
        if outcome.broken:
            yield Fact(capability, None, f"not tried: {outcome.text}", step="report this defect of the suite")
        elif declared and outcome.ok:
            working.append(capability)
        elif declared:
            # The failed trial of ``asynchronous`` is for information only: the fact about synchronization in
            # ``registration_checks`` also tries the hook of the target file.
            ok = None if capability == "asynchronous" else False
            step = f"make {capability} work ({CAPABILITIES[capability]}), or declare {capability} = false"
            yield Fact(capability, ok, f"declared, but {outcome.text}", step=step)
        elif outcome.ok:
            yield Fact(capability, None, f"works although it is not declared: remove {capability} = false?")
    absent = [capability for capability in CAPABILITIES if not target.capable(capability)]
    yield Fact("declared and working", None, f"{len(working)} capabilities", tuple(working))
    yield Fact("not declared", None, f"{len(absent)} capabilities", tuple(absent))


def _precision_facts(target: Target, outcomes: dict[str, trial_process.TrialOutcome]) -> Iterator[Fact]:
    for name in precision_trials.CLASSES:
        deviation = outcomes[f"precision:{name}"].text
        if deviation and name != target.precision:
            step = f'compute as precision "{target.precision}" requires, or declare precision = "{name}"'
            text = f'declared "{target.precision}", but {deviation}'
            yield Fact("precision", False, text, step=step)
        elif not deviation and name == target.precision:
            yield Fact("precision", None, f'"{name}" is declared, but its deviation did not occur in a trial')
