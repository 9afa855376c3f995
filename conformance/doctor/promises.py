"""What a target declares, held against small trials; and the operators of a level, tried on the device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from conformance.doctor import facts, isolated, operators, trials
from conformance.doctor.facts import Fact
from conformance.model.vocabulary import CAPABILITIES
from conformance.target.file import TargetFile
from conformance.target.target import Target


def collect(file: TargetFile, target: Target, level: str) -> tuple[list[Fact], list[Fact]]:
    """Facts about operators of a level, and about capabilities. Runs on the device, in other processes."""
    subjects = operators.of_level(target, level)
    words = [word for word in trials.words() if word not in ("graphs" if target.has_graphs else "",)]
    asked = [f"capability:{word}" for word in words]
    asked += [f"operator:{name}" for name in subjects]
    found = isolated.run(file.path, target.mode, asked)
    tried = {name: found[f"operator:{name}"] for name in subjects}
    return list(_operators(target, level, tried)), list(_capabilities(target, words, found))


def _operators(target: Target, level: str, tried: dict[str, isolated.Outcome]) -> Iterator[Fact]:
    if not tried:
        return
    bad = {name: outcome for name, outcome in tried.items() if not outcome.ok}
    words = f"{len(tried) - len(bad)} of {len(tried)} run (whether they are right, 'conformance run' tells)"
    yield Fact(f"operators of level {level}", not bad, words, tuple(bad))
    waiting = {name: outcome.kernels for name, outcome in bad.items() if outcome.kernels}
    wanted = operators.by_kernel(waiting)
    if wanted:
        key = facts.key_of(target)
        lines = tuple(f"{kernel} ({_few(names)})" for kernel, names in wanted)
        step = (
            f"register these kernels under {key}, the most wanted first: {_few([k for k, _ in wanted], 12)}"
        )
        yield Fact(
            "kernels", False, f"{len(wanted)} are missing (in brackets, what waits for each)", lines, step
        )
    others: dict[str, list[str]] = {}
    for name, outcome in bad.items():
        if not outcome.kernels:
            others.setdefault(outcome.text, []).append(name)
    for text, names in others.items():
        yield Fact(f"operator {names[0]}", False, f"{text} ({_few(names)})", step=f"mend {_few(names)}")


def _few(names: Sequence[str], shown: int = 6) -> str:
    words = [name.partition("@")[0] for name in names]
    more = f" and {len(words) - shown} more" if len(words) > shown else ""
    return ", ".join(words[:shown]) + more


def _capabilities(target: Target, words: Sequence[str], found: dict[str, isolated.Outcome]) -> Iterator[Fact]:
    answers: list[str] = []
    for word in words:
        outcome = found[f"capability:{word}"]
        declared = target.capable(word)
        if declared and outcome.ok:
            answers.append(word)
        elif declared:
            # Waiting is looked at by itself, hook included.
            ok = None if word == "asynchronous" else False
            step = f"make {word} work ({CAPABILITIES[word]}), or say {word} = false"
            yield Fact(word, ok, f"declared, but {outcome.text}", step=step)
        elif outcome.ok:
            yield Fact(word, None, f"answers although it is not declared: take {word} = false away?")
    absent = [word for word in CAPABILITIES if not target.capable(word)]
    yield Fact("declared and answering", None, f"{len(answers)} capabilities", tuple(answers))
    yield Fact("not declared", None, f"{len(absent)} capabilities", tuple(absent))
