"""Trials in a process of their own: a backend that crashes or hangs costs the trial that was running.

``python -m conformance.doctor.isolated`` reads the names of trials and appends an event to a file before and
after each; :func:`run` starts it, and starts it again behind a trial that it did not survive.
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
from conformance.processes import orphan

#: Seconds that one trial may take; the first one of a process has to import torch and the backend before.
SECONDS = 60.0
#: Processes that may die before the rest is left untried.
LIVES = 25


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a trial found: the empty text is a good end. ``kernels`` are overloads that have no kernel."""

    text: str = ""
    kernels: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.text


def run(
    target_file: Path, mode: str, names: Sequence[str], *, seconds: float = SECONDS
) -> dict[str, Outcome]:
    """The outcome of each trial (``capability:streams``, ``operator:add@float32``, ``dtype:int8``)."""
    found: dict[str, Outcome] = {}
    left = list(names)
    with tempfile.TemporaryDirectory() as scratch:
        for life in range(LIVES):
            if not left:
                break
            asked, events = Path(scratch) / "asked.json", Path(scratch) / f"events-{life}.jsonl"
            asked.write_text(json.dumps(left))
            events.touch()
            end = _process(target_file, mode, asked, events, seconds)
            running = _read(events, found)
            left = [name for name in left if name not in found]
            if running is None and left:
                raise UsageError(f"the trials of {target_file} could not start: {end}")
            if running is not None:
                found[running] = Outcome(f"the process {end}")
                left.remove(running)
    for name in left:
        found[name] = Outcome(f"not tried: {LIVES} processes died before")
    return found


def _process(target_file: Path, mode: str, asked: Path, events: Path, seconds: float) -> str:
    """Run one process to its end, or to the end of its time; how it ended, in words."""
    environment = {**os.environ, orphan.VARIABLE: str(os.getpid()), "PYTHONWARNINGS": "ignore"}
    root = str(Path(__file__).resolve().parents[2])
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [root, environment.get("PYTHONPATH", "")]))
    command = [sys.executable, "-m", "conformance.doctor.isolated", str(asked), str(events)]
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


def _read(events: Path, found: dict[str, Outcome]) -> str | None:
    """Take over what a process has written; the trial that it did not end, or None."""
    running = None
    for line in events.read_text().splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue  # it died while it wrote
        if event["state"] == "start":
            running = str(event["name"])
        else:
            found[str(event["name"])] = Outcome(event["text"], tuple(event["kernels"]))
            running = None
    return running


def main(arguments: list[str] | None = None) -> int:
    """The process itself."""
    parser = argparse.ArgumentParser(prog="python -m conformance.doctor.isolated")
    parser.add_argument("asked", type=Path)
    parser.add_argument("events", type=Path)
    parser.add_argument("--target", required=True)
    parser.add_argument("--mode", required=True)
    options = parser.parse_args(arguments)
    orphan.follow()
    from conformance.device.accelerator import import_backend
    from conformance.target import file as target_file

    file = target_file.load(options.target)
    os.environ.update(file.variables(options.mode))
    target = file.target(options.mode)
    import_backend(target)
    with options.events.open("a") as events:

        def say(**event: Any) -> None:
            events.write(json.dumps(event) + "\n")
            events.flush()

        for name in json.loads(options.asked.read_text()):
            say(state="start", name=name)
            found = _attempt(target, name)
            say(state="end", name=name, text=found.text, kernels=list(found.kernels))
    # A backend that cannot end its process must not be taken for one that cannot do the last trial.
    os._exit(0)


def _attempt(target: Any, name: str) -> Outcome:
    from conformance.doctor import operators, trials

    kind, _, rest = name.partition(":")
    if kind == "capability":
        return Outcome(trials.attempt(rest, target.device))
    if kind == "dtype":
        return Outcome(operators.attempt_dtype(target, rest))
    text, kernels = operators.attempt(target, *rest.rsplit("@", 1))
    return Outcome(text, tuple(kernels))


if __name__ == "__main__":
    sys.exit(main())
