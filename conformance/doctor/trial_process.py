"""Trials in a process of their own: a backend that crashes or hangs fails only the trial that was running.

``python -m conformance.doctor.trial_process`` reads the names of trials and appends an event to a file before
and after each trial. :func:`run` starts the process, and starts it again after a trial that ended it.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from conformance.errors import UsageError
from conformance.process_control import exit_with_parent

#: Seconds that one trial may take; the first one of a process includes the import of torch and the backend.
SECONDS = 60.0
#: Processes that may die before the other trials are given up.
LIVES = 25


@dataclasses.dataclass(frozen=True)
class TrialOutcome:
    """The outcome of a trial: an empty text is a success. ``kernels`` are overloads without a kernel."""

    text: str = ""
    kernels: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """True if the trial succeeded."""
        return not self.text


def run(
    target_file: Path, mode: str, names: Sequence[str], *, seconds: float = SECONDS
) -> dict[str, TrialOutcome]:
    """Run the named trials (``capability:streams``, ``operator:add@float32``, ``dtype:int8``); return
    outcomes by name.
    """
    outcomes: dict[str, TrialOutcome] = {}
    remaining = list(names)
    with tempfile.TemporaryDirectory() as scratch:
        for life in range(LIVES):
            if not remaining:
                break
            requested, events = Path(scratch) / "asked.json", Path(scratch) / f"events-{life}.jsonl"
            requested.write_text(json.dumps(remaining))
            events.touch()
            end = _process(target_file, mode, requested, events, seconds)
            running = _read(events, outcomes)
            remaining = [name for name in remaining if name not in outcomes]
            if running is None and remaining:
                raise UsageError(f"the trials of {target_file} could not start: {end}")
            if running is not None:
                outcomes[running] = TrialOutcome(f"the process {end}")
                remaining.remove(running)
    for name in remaining:
        outcomes[name] = TrialOutcome(f"not tried: {LIVES} processes died before")
    return outcomes


def _process(target_file: Path, mode: str, requested: Path, events: Path, seconds: float) -> str:
    """Run one process until it ends or its time is up; return in words how it ended."""
    environment = {**os.environ, exit_with_parent.VARIABLE: str(os.getpid()), "PYTHONWARNINGS": "ignore"}
    root = str(Path(__file__).resolve().parents[2])
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [root, environment.get("PYTHONPATH", "")]))
    command = [sys.executable, "-m", "conformance.doctor.trial_process", str(requested), str(events)]
    command += ["--target", str(target_file), "--mode", mode]
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=errors)
        size, changed = 0, time.monotonic()
        while process.poll() is None:
            time.sleep(0.05)
            now = events.stat().st_size
            if now != size:
                size, changed = now, time.monotonic()
            elif time.monotonic() - changed > seconds:
                process.kill()
                process.wait()
                return f"hung for {seconds:g} s"
        errors.seek(0)
        last = errors.read().decode(errors="replace").strip().splitlines()[-1:]
    code = process.returncode
    how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
    return ": ".join([how, *last])


def _read(events: Path, outcomes: dict[str, TrialOutcome]) -> str | None:
    """Read the events of a process into ``outcomes``; return the trial that it did not finish, or None."""
    running = None
    for line in events.read_text().splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue  # it died while it wrote
        if event["state"] == "start":
            running = str(event["name"])
        else:
            outcomes[str(event["name"])] = TrialOutcome(event["text"], tuple(event["kernels"]))
            running = None
    return running


def main(arguments: list[str] | None = None) -> int:
    """Run trials in this process, and write an event before and after each."""
    parser = argparse.ArgumentParser(prog="python -m conformance.doctor.trial_process")
    parser.add_argument("requested", type=Path)
    parser.add_argument("events", type=Path)
    parser.add_argument("--target", required=True)
    parser.add_argument("--mode", required=True)
    options = parser.parse_args(arguments)
    exit_with_parent.follow()
    from conformance.device.bring_up import import_backend
    from conformance.target import file as target_file

    file = target_file.load(options.target)
    os.environ.update(file.variables(options.mode))
    target = file.target(options.mode)
    import_backend(target)
    with options.events.open("a") as events:

        def say(**event: Any) -> None:
            events.write(json.dumps(event) + "\n")
            events.flush()

        for name in json.loads(options.requested.read_text()):
            say(state="start", name=name)
            outcome = _attempt(target, name)
            say(state="end", name=name, text=outcome.text, kernels=list(outcome.kernels))
    # A backend that hangs at exit must not count as a failure of the last trial.
    os._exit(0)


def _attempt(target: Any, name: str) -> TrialOutcome:
    from conformance.doctor import capability_trials, operator_trials

    kind, _, rest = name.partition(":")
    if kind == "capability":
        return TrialOutcome(capability_trials.attempt(rest, target.device))
    if kind == "dtype":
        return TrialOutcome(operator_trials.attempt_dtype(target, rest))
    text, kernels = operator_trials.attempt(target, *rest.rsplit("@", 1))
    return TrialOutcome(text, tuple(kernels))


if __name__ == "__main__":
    sys.exit(main())
