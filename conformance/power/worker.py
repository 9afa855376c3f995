"""``python -m conformance.power.worker``: a process that brings the device up behind the interposer.

It reads jobs as lines of JSON and answers each with lines of JSON; before a result runs it says which, so
that whoever started it can tell what ended it.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import torch

from conformance import torch_private
from conformance.device.accelerator import bring_up
from conformance.model import digests
from conformance.model.verdicts import Result, Verdict
from conformance.model.vocabulary import LEVELS
from conformance.plan.plan import Case, build
from conformance.power import interposer, kinds, places
from conformance.power.faults import Fault, description, scalar_types
from conformance.processes import memory_limit, orphan
from conformance.target import file as target_file
from conformance.worker.executor import DeviceUnusable, Executor, leave


class Worker:
    """The device behind the interposer, and the executor that runs results on it."""

    def __init__(self, target: str, mode: str, build_folder: Path, answers: TextIO) -> None:
        file = target_file.load(target)
        self.target = file.target(mode)
        self.answers = answers
        bring_up(self.target)
        self.key = torch_private.dispatch_key(self.target.device)
        self.places = places.places(self.key)
        self.faults = [
            fault
            for place in self.places
            for fault in kinds.faults_of(place, places.schema(place), random=places.is_random(place))
        ]
        self._numbers = scalar_types()
        self._names = {number: name for name, number in self._numbers.items()}
        self._index = {place: index for index, place in enumerate(self.places)}
        self._interposer = interposer.load(build_folder)
        self._executor = Executor(self.target, driven=True)
        self._interposer.install(self.key, self.places)
        self._cases: dict[str, Case] | None = None

    def say(self, **words: Any) -> None:
        """Send an answer."""
        self.answers.write(json.dumps(words, separators=(",", ":")) + "\n")
        self.answers.flush()

    def describe(self) -> None:
        """Say which faults there are, which results each level has, and of which suite, torch and device."""
        module = self.target.module
        device = (
            digests.package(Path(importlib.import_module(module).__file__ or "").parent) if module else ""
        )
        words = (digests.suite(), torch.__version__, device, self.target.name, self.target.mode)
        self.say(
            digest=hashlib.sha256(" ".join(words).encode()).hexdigest(),
            faults=[str(fault) for fault in self.faults],
            levels={level: list(build(self.target, level).result_ids()) for level in LEVELS},
            cases=[
                [case.kind, case.property, case.subject, list(case.dtypes)]
                for case in build(self.target, LEVELS[-1]).cases
            ],
        )

    # Learning

    def learn(self, cases: list[list[Any]]) -> None:
        """Run cases with no fault, and say for each result which faults' conditions its calls met.

        A condition is a pair of the fault's number and the number of the dtype. What else is learned of calls
        are triples of a place, a question of :data:`conformance.power.kinds.QUESTIONS` and a dtype.
        """
        self._observe_all()
        learned = []
        for kind, name, subject, dtypes in cases:
            for dtype in dtypes:
                case = Case(kind, name, subject, (dtype,))
                self.say(at=next(case.result_ids()))
                self._interposer.take_met()
                self._interposer.observe(True)
                try:
                    result = self._one(case)
                finally:
                    self._interposer.observe(False)
                met: list[int] = []
                calls: list[int] = []
                for place, fault, number in self._interposer.take_met():
                    question = fault - (self._first[place + 1] - self._first[place])
                    if question >= 0:
                        calls += (place, question, number)
                    else:
                        met += (self._first[place] + fault, number)
                learned.append([str(result.id), result.verdict.value, round(result.seconds, 4), met, calls])
        self.say(learned=learned)

    def _observe_all(self) -> None:
        if hasattr(self, "_first"):
            return
        self._first: list[int] = []
        by_place: dict[str, list[Fault]] = {place: [] for place in self.places}
        for fault in self.faults:
            by_place[fault.place].append(fault)
        number = 0
        for index, (_, faults) in enumerate(by_place.items()):
            self._first.append(number)
            described = [description(kinds.interposed(fault), self._numbers) for fault in faults]
            asked = [("called", 0, question, -1) for question in range(len(kinds.QUESTIONS))]
            self._interposer.set_observed(index, described + asked)
            number += len(faults)
        self._first.append(number)

    # Mutants

    def attempt(self, name: str, results: list[str], limit: float) -> None:
        """Run results with a fault until one fails that passes without it; say which, and all counts."""
        fault = Fault.parse(name)
        started = time.monotonic()
        met = effects = ran = 0
        killer: Result | None = None
        unreliable: list[str] = []
        for result_id in results:
            if time.monotonic() - started > limit:
                break
            case = self._case(result_id)
            self.say(at=result_id)
            with self._planted(fault) as counts:
                result = self._one(case)
            met, effects, ran = met + counts[0], effects + counts[1], ran + 1
            if not _is_seen(result):
                continue
            if self._executor.device_is_wrong():
                killer = result
                break
            again = self._one(case)
            if again.verdict is Verdict.PASS:
                killer = result
                break
            unreliable.append(result_id)
        self.say(
            killer=None if killer is None else str(killer.id),
            how=None if killer is None else killer.verdict.value,
            kind=None if killer is None or not killer.failures else killer.failures[0].kind.value,
            met=met,
            effects=effects,
            ran=ran,
            due=len(results),
            unreliable=unreliable,
            seconds=round(time.monotonic() - started, 3),
        )
        if self._executor.device_is_wrong() or memory_limit.excessive():
            leave()

    @contextlib.contextmanager
    def _planted(self, fault: Fault) -> Iterator[list[int]]:
        counts = [0, 0]
        self._interposer.activate(
            self._index[fault.place], description(kinds.interposed(fault), self._numbers)
        )
        try:
            yield counts
        finally:
            counts[:] = self._interposer.deactivate()

    def _case(self, result_id: str) -> Case:
        if self._cases is None:
            self._cases = {case.id: case for case in build(self.target, LEVELS[-1]).cases}
        name, _, dtype = result_id.rpartition("@")
        case = self._cases[name]
        return Case(case.kind, case.property, case.subject, (dtype,))

    def _one(self, case: Case) -> Result:
        """The result of a case of one dtype, failed if the device could not go on."""
        try:
            return self._executor.run(case)[0]
        except DeviceUnusable:
            assert self._executor.last is not None
            return self._executor.last


def _is_seen(result: Result) -> bool:
    return result.verdict.unexpected


def main() -> None:
    """Serve jobs until the input ends."""
    parser = argparse.ArgumentParser(prog="python -m conformance.power.worker")
    parser.add_argument("--target", required=True)
    parser.add_argument("--mode", required=True)
    parser.add_argument("--build", type=Path, required=True)
    options = parser.parse_args()
    orphan.follow()
    # What the suite or the device prints must not get between the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    worker = Worker(options.target, options.mode, options.build, answers)
    worker.say(ready=True)
    for line in sys.stdin:
        job = json.loads(line)
        if job["do"] == "describe":
            worker.describe()
        elif job["do"] == "learn":
            worker.learn(job["cases"])
        else:
            worker.attempt(job["fault"], job["results"], job["limit"])
    leave(0)


if __name__ == "__main__":
    main()
