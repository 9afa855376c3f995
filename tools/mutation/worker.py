"""``python -m tools.mutation.worker``: a worker process that runs results on a device with mutants.

Its units of work are jobs in JSON. The worker announces each result before it runs the result. If the process
then crashes or hangs, the campaign can determine the result that ran.
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
from conformance.model.verdicts import Basis, Result, Verdict
from conformance.model.vocabulary import LEVELS
from conformance.plan.plan import Case, build_plan
from conformance.process_control import memory_limit
from conformance.process_control.parent_link import ParentLink
from conformance.target import file as target_file
from conformance.worker.executor import DeviceUnusable, Executor, exit_at_once
from tools.mutation import injectors
from tools.mutation.injectors.injector import Injector
from tools.mutation.mutant import Mutant


def _differs_in_parity_only(result: Result) -> bool:
    return bool(result.failures) and all(failure.basis is Basis.PARITY for failure in result.failures)


class Worker:
    """The device under test, its fault injectors, and the executor that runs results on the device."""

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
        """Return the mutants, the results of each level, the cases of level full, and a digest.

        The digest depends on the suite, torch, the device and the target.
        """
        module = self.target.module
        device = (
            digests.package_digest(Path(importlib.import_module(module).__file__ or "").parent)
            if module
            else ""
        )
        identity = (digests.suite_digest(), torch.__version__, device, self.target.name, self.target.mode)
        return {
            "digest": hashlib.sha256(" ".join(identity).encode()).hexdigest(),
            "faults": [str(mutant) for mutant in self.mutants],
            "levels": {level: list(build_plan(self.target, level).result_ids()) for level in LEVELS},
            "cases": [
                [case.kind, case.property, case.subject, list(case.dtypes)]
                for case in build_plan(self.target, LEVELS[-1]).cases
            ],
        }

    # Coverage run

    def record_coverage(self, cases: list[list[Any]]) -> dict[str, Any]:
        """Run cases without an enabled mutant. Return a coverage row for each result.

        A row contains the result id, the verdict, the seconds, the mutants that the calls trigger, and the
        kinds of the calls. Triggered mutants are flat pairs (mutant index, dtype number). The kinds of the
        calls are flat triples: (point index, index in :data:`tools.mutation.operators.CALL_KINDS`, dtype
        number).
        """
        coverage_rows = []
        for kind, name, subject, dtypes in cases:
            for dtype in dtypes:
                case = Case(kind, name, subject, (dtype,))
                self.link.announce_step(next(case.result_ids()))
                result, triggered, calls = self._run_observed(case, self.injectors)
                if kind == "device" or result.verdict is not Verdict.PASS:
                    # The case may depend on work that is in progress on the device. An injector that computes
                    # on the device waits for this work and may thereby change the result. The rerun therefore
                    # uses only the other injectors.
                    without_device = [injector for injector in self.injectors if not injector.uses_device]
                    rerun, rerun_triggered, rerun_calls = self._run_observed(case, without_device)
                    if rerun.verdict is Verdict.PASS:
                        result = rerun
                        triggered, calls = triggered + rerun_triggered, calls + rerun_calls
                coverage_rows.append(
                    [str(result.id), result.verdict.value, round(result.seconds, 4), triggered, calls]
                )
        return {"learned": coverage_rows}

    def _run_observed(self, case: Case, observing: list[Injector]) -> tuple[Result, list[int], list[int]]:
        """Run a case while the injectors observe its calls.

        Return the result, the triggered mutants and the kinds of the calls.
        """
        for injector in observing:
            injector.take_observed()
            injector.observe(True)
        try:
            result = self._run_case(case)
        finally:
            for injector in observing:
                injector.observe(False)
        return result, *self._take_observed()

    def _take_observed(self) -> tuple[list[int], list[int]]:
        """Return the triggered mutants and the kinds of calls that all injectors have observed, flat.

        An index is a position in the list of all mutants, or of all points, of all injectors.
        """
        triggered: list[int] = []
        calls: list[int] = []
        mutant_offset = point_offset = 0
        for injector in self.injectors:
            observed = injector.take_observed()
            for mutant_index, dtype in observed.triggered:
                triggered += (mutant_offset + mutant_index, dtype)
            for point_index, call_kind, dtype in observed.calls:
                calls += (point_offset + point_index, call_kind, dtype)
            mutant_offset += len(injector.mutants)
            point_offset += len(injector.mutation_points)
        return triggered, calls

    # Mutants

    def try_to_kill(self, mutant_name: str, result_ids: list[str], limit: float) -> dict[str, Any]:
        """Run results with a mutant until one fails that passes without the mutant.

        A result whose deviations all have basis parity kills only if no other result does. Stop after
        ``limit`` seconds. Return the killing result or None, and the counts of calls and results.
        """
        mutant = Mutant.parse(mutant_name)
        started = time.monotonic()
        triggered = altered = ran = 0
        killer: Result | None = None
        unreliable: list[str] = []
        for result_id in result_ids:
            if time.monotonic() - started > limit:
                break
            case = self._case_of_result(result_id)
            self.link.announce_step(result_id)
            with self._enabled(mutant) as counts:
                result = self._run_case(case)
            triggered, altered, ran = triggered + counts[0], altered + counts[1], ran + 1
            if not result.verdict.unexpected:
                continue
            if self._executor.probe_finds_new_errors():
                killer = result
                break
            control = self._run_case(case)
            if control.verdict is Verdict.PASS:
                killer = killer or result
                if not _differs_in_parity_only(result):
                    killer = result
                    break
                continue
            unreliable.append(result_id)
        return {
            "killer": None if killer is None else str(killer.id),
            "how": None if killer is None else killer.verdict.value,
            "kind": None if killer is None or not killer.failures else killer.failures[0].kind.value,
            "parity": killer is not None and _differs_in_parity_only(killer),
            "met": triggered,
            "effects": altered,
            "ran": ran,
            "selected": len(result_ids),
            "unreliable": unreliable,
            "seconds": round(time.monotonic() - started, 3),
        }

    def must_be_replaced(self) -> bool:
        """Return whether the device is unusable or the process uses too much memory."""
        return self._executor.probe_finds_new_errors() or memory_limit.exceeds_memory_limit()

    @contextlib.contextmanager
    def _enabled(self, mutant: Mutant) -> Iterator[list[int]]:
        """Enable a mutant. At exit, store the numbers of triggered and altered calls in the yielded list."""
        counts = [0, 0]
        injector = next(each for each in self.injectors if mutant.in_every_dtype() in each.mutant_set)
        injector.enable(mutant)
        self._executor.first_only = True
        try:
            yield counts
        finally:
            self._executor.first_only = False
            count = injector.disable()
            counts[:] = count.triggered, count.altered

    def _case_of_result(self, result_id: str) -> Case:
        if self._cases is None:
            self._cases = {case.id: case for case in build_plan(self.target, LEVELS[-1]).cases}
        name, _, dtype = result_id.rpartition("@")
        case = self._cases[name]
        return Case(case.kind, case.property, case.subject, (dtype,))

    def _run_case(self, case: Case) -> Result:
        """Return the result of a case with one dtype, even if the device is unusable after the case."""
        try:
            return self._executor.run(case)[0]
        except DeviceUnusable:
            assert self._executor.last is not None
            return self._executor.last


def main() -> None:
    """Process the jobs of the parent until it closes the channel."""
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
            link.reply(worker.record_coverage(job["cases"]))
        else:
            link.reply(worker.try_to_kill(job["fault"], job["results"], job["limit"]))
            if worker.must_be_replaced():
                exit_at_once()
    exit_at_once(0)


if __name__ == "__main__":
    main()
