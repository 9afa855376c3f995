"""Run random programs in separate processes, and shrink the failing ones.

``python -m fuzz --mode lazy --seconds 60 --seed 1`` prints each failing seed with its shrunk program, and
exits with 1 if a program failed. ``--only 17`` runs one seed. A crash or a hang is a failure too.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from .program import Program, Step, make_program

#: Environment variables of each mode. No mode sets HPU_REFERENCE_STREAM_ORDER=events, because the programs
#: rely on the order of streams by accessed memory.
MODES: dict[str, dict[str, str]] = {
    "eager": {},
    "queued": {"HPU_REFERENCE_QUEUE_ALL": "100,1"},
    "poisoned": {"HPU_REFERENCE_POISON": "1", "HPU_REFERENCE_QUEUE_ALL": "20,1"},
    "lazy": {"FUZZ_LAZY": "1"},
    "lazy-random": {"FUZZ_LAZY": "3"},
    # From the fourth run of a program on, lazy mode follows a known graph and uses prepared kernels.
    "lazy-again": {"FUZZ_LAZY": "1", "FUZZ_RUNS": "6", "HPU_REFERENCE_COMPILE": "interpreted"},
}
#: Seconds after which an unfinished program is treated as hanging.
PATIENCE = 120
TESTS = Path(__file__).parents[1]


@dataclass(frozen=True)
class FailingProgram:
    """A program and the reason of its failure."""

    program: Program
    reason: str


class ProgramRunner:
    """A worker process that runs programs. After each failure, a new process replaces it."""

    def __init__(self, mode: str) -> None:
        path = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
        self._environment = {
            **os.environ,
            "HPU_REFERENCE_MEMORY_LIMIT": str(640 << 20),
            "PYTHONPATH": path,
            **MODES[mode],
        }
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> ProgramRunner:
        return self

    def __exit__(self, *details: object) -> None:
        self._end()

    def failure_reason(self, program: Program) -> str:
        """Run a program. Return the reason of its failure, or the empty string if the program succeeds."""
        process = self._process or self._start()
        assert process.stdin is not None and process.stdout is not None
        encoded = [[[step.kind, *step.numbers] for step in steps] for steps in program.threads]
        try:
            process.stdin.write(json.dumps(encoded) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if line == "fine\n":
            return ""
        self._end()
        if line:
            return json.loads(line)
        return f"the process ended with {process.returncode} (a hanging program stops after {PATIENCE} s)"

    def _start(self) -> subprocess.Popen[str]:
        command = [sys.executable, "-W", "ignore", "-m", "fuzz.worker", str(PATIENCE)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            command, env=self._environment, stdin=pipe, stdout=pipe, text=True, cwd=TESTS
        )
        return self._process

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def failing_programs(mode: str, seed: int, seconds: float) -> Iterator[FailingProgram]:
    """Run the programs of `seed`, `seed` + 1, … for the given time, and yield each failure."""
    end = time.monotonic() + seconds
    with ProgramRunner(mode) as runner:
        while time.monotonic() < end:
            program = make_program(seed)
            if reason := runner.failure_reason(program):
                yield FailingProgram(program, reason)
            seed += 1


def shrink(runner: ProgramRunner, program: Program, seconds: float = 60) -> Program:
    """Remove steps from a failing program while it still fails, for the given time.

    A candidate program fails if one of three runs fails. Most steps that fail only at random are thus kept.
    """
    end = time.monotonic() + seconds

    def fails(threads: Sequence[Sequence[Step]]) -> bool:
        candidate = Program(program.seed, tuple(tuple(steps) for steps in threads))
        return any(runner.failure_reason(candidate) for _ in range(3))

    threads = [list(steps) for steps in program.threads]
    for number in range(len(threads)):
        size = len(threads[number])
        while size >= 1 and time.monotonic() < end:
            start = 0
            while start < len(threads[number]) and time.monotonic() < end:
                shorter = [list(steps) for steps in threads]
                del shorter[number][start : start + size]
                if fails(shorter):
                    threads = shorter
                else:
                    start += size
            size //= 2
    return Program(program.seed, tuple(tuple(steps) for steps in threads if steps))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line. Return 1 if a program failed, otherwise 0."""
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--mode", choices=sorted(MODES), default="eager")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1, help="first seed")
    parser.add_argument("--only", type=int, help="run this seed alone")
    options = parser.parse_args(arguments)
    failed = False
    if options.only is not None:
        with ProgramRunner(options.mode) as runner:
            reason = runner.failure_reason(make_program(options.only))
        print(make_program(options.only).text(), reason or "fine", sep="\n")
        return 1 if reason else 0
    for failure in failing_programs(options.mode, options.seed, options.seconds):
        failed = True
        print(f"{options.mode}: seed {failure.program.seed}: {failure.reason}", flush=True)
        with ProgramRunner(options.mode) as runner:
            short = shrink(runner, failure.program)
            print(
                f"{short.text()}\n{runner.failure_reason(short) or 'no failure when run again'}", flush=True
            )
    return 1 if failed else 0
