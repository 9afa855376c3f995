"""``python -m tools.mutation.worker``: a process that brings the device up behind the interposer.

Its units of work are jobs in JSON. It announces each result before the result runs, so that the campaign
can tell which one ended it.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from conformance.device.bring_up import bring_up
from conformance.model import digests
from conformance.model.verdicts import Result, Verdict
from conformance.model.vocabulary import LEVELS
from conformance.plan.plan import Case, build_plan
from conformance.process_control import memory_limit
from conformance.process_control.parent_link import ParentLink
from conformance.target import file as target_file
from conformance.worker.executor import DeviceUnusable, Executor, leave
from tools.mutation import injectors
from tools.mutation.injectors.injector import Injector
from tools.mutation.mutant import Mutant


class Worker:
    """The device behind the planters of faults, and the executor that runs results on it."""

    def __init__(self, target: str, mode: str, build_folder: Path, link: ParentLink) -> None:
        file = target_file.load(target)
        self.target = file.target(mode)
        self.link = link
        bring_up(self.target)
        self.injectors = injectors.create_injectors(self.target, build_folder)
        self.mutants = [mutant for injector in self.injectors for mutant in injector.mutants]
        self._executor = Executor(self.target, driven=True)
        self._cases: dict[str, Case] | None = None

    def describe(self) -> dict[str, Any]:
        """Say which faults there are, which results each level has, and of which suite, torch and device."""
        module = self.target.module
        device = (
            digests.package_digest(Path(importlib.import_module(module).__file__ or "").parent)
            if module
            else ""
        )
        words = (digests.suite_digest(), torch.__version__, device, self.target.name, self.target.mode)
        return {
            "digest": hashlib.sha256(" ".join(words).encode()).hexdigest(),
            "faults": [str(mutant) for mutant in self.mutants],
            "levels": {level: list(build_plan(self.target, level).result_ids()) for level in LEVELS},
            "cases": [
                [case.kind, case.property, case.subject, list(case.dtypes)]
                for case in build_plan(self.target, LEVELS[-1]).cases
            ],
        }

    # Learning

    def learn(self, cases: list[list[Any]]) -> dict[str, Any]:
        """Run cases without a mutant; return for each result the mutants that its calls trigger.

        A triggered mutant is a pair: the number of the mutant and the number of the dtype. Other facts of the
        calls are triples: a mutation point, a question of :data:`.operators.QUESTIONS`, a dtype.
        """
        coverage_rows = []
        for kind, name, subject, dtypes in cases:
            for dtype in dtypes:
                case = Case(kind, name, subject, (dtype,))
                self.link.step(next(case.result_ids()))
                result, met, calls = self._lesson(case, self.injectors)
                if kind == "device" or result.verdict is not Verdict.PASS:
                    # It may be about work in progress, which does not outlast what computes to observe.
                    quiet = [injector for injector in self.injectors if not injector.uses_device]
                    again, more, others = self._lesson(case, quiet)
                    if again.verdict is Verdict.PASS:
                        result, met, calls = again, met + more, calls + others
                coverage_rows.append(
                    [str(result.id), result.verdict.value, round(result.seconds, 4), met, calls]
                )
        return {"learned": coverage_rows}

    def _lesson(self, case: Case, watching: list[Injector]) -> tuple[Result, list[int], list[int]]:
        for injector in watching:
            injector.take_observed()
            injector.observe(True)
        try:
            result = self._one(case)
        finally:
            for injector in watching:
                injector.observe(False)
        return result, *self._observed()

    def _observed(self) -> tuple[list[int], list[int]]:
        """Return what all planters have seen, flat, with numbers among the faults and places of all."""
        met: list[int] = []
        calls: list[int] = []
        mutant_offset = point_offset = 0
        for injector in self.injectors:
            observed = injector.take_observed()
            for mutant_index, dtype in observed.triggered:
                met += (mutant_offset + mutant_index, dtype)
            for point_index, question, dtype in observed.calls:
                calls += (point_offset + point_index, question, dtype)
            mutant_offset += len(injector.mutants)
            point_offset += len(injector.mutation_points)
        return met, calls

    # Mutants

    def attempt(self, name: str, results: list[str], limit: float) -> dict[str, Any]:
        """Run results with a fault until one fails that passes without it; say which, and all counts."""
        mutant = Mutant.parse(name)
        started = time.monotonic()
        met = effects = ran = 0
        killer: Result | None = None
        unreliable: list[str] = []
        for result_id in results:
            if time.monotonic() - started > limit:
                break
            case = self._case(result_id)
            self.link.step(result_id)
            with self._planted(mutant) as counts:
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
        return {
            "killer": None if killer is None else str(killer.id),
            "how": None if killer is None else killer.verdict.value,
            "kind": None if killer is None or not killer.failures else killer.failures[0].kind.value,
            "met": met,
            "effects": effects,
            "ran": ran,
            "due": len(results),
            "unreliable": unreliable,
            "seconds": round(time.monotonic() - started, 3),
        }

    def spent(self) -> bool:
        """Return whether the process must be replaced."""
        return self._executor.device_is_wrong() or memory_limit.excessive()

    @contextlib.contextmanager
    def _planted(self, mutant: Mutant) -> Iterator[list[int]]:
        counts = [0, 0]
        injector = next(one for one in self.injectors if mutant.in_every_dtype() in one.mutant_set)
        injector.enable(mutant)
        self._executor.first_only = True
        try:
            yield counts
        finally:
            self._executor.first_only = False
            count = injector.disable()
            counts[:] = count.triggered, count.altered

    def _case(self, result_id: str) -> Case:
        if self._cases is None:
            self._cases = {case.id: case for case in build_plan(self.target, LEVELS[-1]).cases}
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
    """Do jobs until the parent closes the channel."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutation.worker")
    parser.add_argument("--target", required=True)
    parser.add_argument("--mode", required=True)
    parser.add_argument("--build", type=Path, required=True)
    options = parser.parse_args()
    link = ParentLink.connect()
    worker = Worker(options.target, options.mode, options.build, link)
    for job in link.requests():
        if job["do"] == "describe":
            link.reply(worker.describe())
        elif job["do"] == "learn":
            link.reply(worker.learn(job["cases"]))
        else:
            link.reply(worker.attempt(job["fault"], job["results"], job["limit"]))
            if worker.spent():
                leave()
    leave(0)


if __name__ == "__main__":
    main()
