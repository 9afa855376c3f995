"""A target's declarations compared with small trials, and the operators of a level tried on the device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from conformance.doctor import capability_trials, operator_trials, registration_checks, trial_process
from conformance.doctor.registration_checks import Fact
from conformance.model.vocabulary import CAPABILITIES
from conformance.target.file import TargetFile
from conformance.target.target import Target


def collect(file: TargetFile, target: Target, level: str) -> tuple[list[Fact], list[Fact]]:
    """Collect facts about the operators of a level, and about capabilities, by trials in other processes."""
    subjects = operator_trials.of_level(target, level)
    words = [
        word for word in capability_trials.words() if word not in ("graphs" if target.has_graphs else "",)
    ]
    requested = [f"capability:{word}" for word in words]
    requested += [f"operator:{name}" for name in subjects]
    outcomes = trial_process.run(file.path, target.mode, requested)
    tried = {name: outcomes[f"operator:{name}"] for name in subjects}
    return list(_operators(target, level, tried)), list(_capabilities(target, words, outcomes))


def _operators(target: Target, level: str, tried: dict[str, trial_process.TrialOutcome]) -> Iterator[Fact]:
    if not tried:
        return
    bad = {name: outcome for name, outcome in tried.items() if not outcome.ok}
    words = f"{len(tried) - len(bad)} of {len(tried)} run ('conformance run' checks their results)"
    yield Fact(f"operators of level {level}", not bad, words, tuple(bad))
    waiting = {name: outcome.kernels for name, outcome in bad.items() if outcome.kernels}
    by_kernel = operator_trials.by_kernel(waiting)
    if by_kernel:
        key = registration_checks.key_of(target)
        lines = tuple(f"{kernel} ({_few(names)})" for kernel, names in by_kernel)
        first = _few([kernel for kernel, _ in by_kernel], 12)
        step = f"register these kernels under {key}, the most needed first: {first}"
        yield Fact(
            "kernels",
            False,
            f"{len(by_kernel)} are missing (in brackets, the operators that need each)",
            lines,
            step,
            tuple(name.partition("@")[0] for name in waiting),
        )
    by_error: dict[str, list[str]] = {}
    for name, outcome in bad.items():
        if not outcome.kernels:
            by_error.setdefault(outcome.text, []).append(name)
    for text, names in by_error.items():
        yield Fact(
            f"operator {names[0]}",
            False,
            f"{text} ({_few(names)})",
            step=f"fix {_few(names)}",
            operators=tuple(name.partition("@")[0] for name in names),
        )


def _few(names: Sequence[str], shown: int = 6) -> str:
    words = [name.partition("@")[0] for name in names]
    more = f" and {len(words) - shown} more" if len(words) > shown else ""
    return ", ".join(words[:shown]) + more


def _capabilities(
    target: Target, words: Sequence[str], outcomes: dict[str, trial_process.TrialOutcome]
) -> Iterator[Fact]:
    answers: list[str] = []
    for word in words:
        outcome = outcomes[f"capability:{word}"]
        declared = target.capable(word)
        if declared and outcome.ok:
            answers.append(word)
        elif declared:
            # Synchronization has a fact of its own, hook included.
            ok = None if word == "asynchronous" else False
            step = f"make {word} work ({CAPABILITIES[word]}), or say {word} = false"
            yield Fact(word, ok, f"declared, but {outcome.text}", step=step)
        elif outcome.ok:
            yield Fact(word, None, f"answers although it is not declared: take {word} = false away?")
    absent = [word for word in CAPABILITIES if not target.capable(word)]
    yield Fact("declared and answering", None, f"{len(answers)} capabilities", tuple(answers))
    yield Fact("not declared", None, f"{len(absent)} capabilities", tuple(absent))
