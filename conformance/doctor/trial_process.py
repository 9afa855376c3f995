"""Run trials in a separate process, so that a backend that crashes or hangs fails only the running trial.

``python -m conformance.doctor.trial_process`` is that process. It reads the names of trials from its parent
and replies with their outcomes.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from conformance.errors import UsageError
from conformance.process_control.child import Child, ChildEnd, EndKind
from conformance.process_control.parent_link import ParentLink
from conformance.process_control.supervisor import ChildNotStarted, Supervisor

#: Time limit in seconds for one trial, and for importing torch and the backend.
SECONDS = 60.0
#: The remaining trials are skipped after this number of processes crashed or hung.
MAX_LOST = 25


@dataclasses.dataclass(frozen=True)
class TrialOutcome:
    """The outcome of a trial. ``text`` is the error message, empty on success. ``kernels`` are the overloads
    whose kernel is missing. If ``broken`` is true, the trial itself failed, which says nothing about the
    device.
    """

    text: str = ""
    kernels: tuple[str, ...] = ()
    broken: bool = False

    @property
    def ok(self) -> bool:
        """True if the trial succeeded."""
        return not self.text


def run_trials(
    target_file: Path, mode: str, names: Sequence[str], *, seconds: float = SECONDS
) -> dict[str, TrialOutcome]:
    """Run trials in separate processes and return their outcomes by name.

    Examples of names: ``capability:streams``, ``operator:add@float32``, ``dtype:int8``,
    ``precision:flush-denormals``. The text of a precision trial is the deviation that the class allows.
    """
    outcomes: dict[str, TrialOutcome] = {}
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.txt"
        spawn = functools.partial(_spawn_trial_process, target_file, mode, log)
        lost = 0
        with Supervisor[str](spawn, start=seconds) as supervisor:
            try:
                for name, reply in supervisor.run_units(names, silence=seconds):
                    if isinstance(reply, ChildEnd):
                        lost += 1
                        outcomes[name] = TrialOutcome(f"the process {_describe_child_end(reply, seconds)}")
                    else:
                        outcomes[name] = TrialOutcome(reply["text"], tuple(reply["kernels"]), reply["broken"])
                    if lost == MAX_LOST:
                        break
            except ChildNotStarted as error:
                how = _describe_child_end(error.end, seconds)
                raise UsageError(f"the trials of {target_file} could not start: the process {how}") from None
    for name in names:
        outcomes.setdefault(
            name, TrialOutcome(f"not tried, because {MAX_LOST} earlier trials crashed or hung")
        )
    return outcomes


def _spawn_trial_process(target_file: Path, mode: str, log: Path) -> Child:
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    root = str(Path(__file__).resolve().parents[2])
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [root, environment.get("PYTHONPATH", "")]))
    command = [sys.executable, "-m", "conformance.doctor.trial_process"]
    command += ["--target", str(target_file), "--mode", mode]
    return Child.exec(command, environment, log=log, channel=True, stdout=False)


def _describe_child_end(end: ChildEnd, seconds: float) -> str:
    """Return a text about how a process ended, such as ``was killed by signal 11``."""
    if end.how is EndKind.STALLED:
        return f"hung for {seconds:g} s"
    if end.how is EndKind.BROKEN:
        how = "stopped replying"
    else:
        how = f"was killed by signal {-end.code}" if end.code < 0 else f"ended with code {end.code}"
    return ": ".join(filter(None, [how, end.last_line]))


def main(arguments: list[str] | None = None) -> int:
    """Run trials in this process until the parent closes the channel."""
    parser = argparse.ArgumentParser(prog="python -m conformance.doctor.trial_process")
    parser.add_argument("--target", required=True)
    parser.add_argument("--mode", required=True)
    options = parser.parse_args(arguments)
    link = ParentLink.connect()
    from conformance.device.bring_up import import_backend
    from conformance.target import file as target_file

    file = target_file.load(options.target)
    os.environ.update(file.variables(options.mode))
    target = file.target(options.mode)
    import_backend(target)
    for name in link.requests():
        link.reply(dataclasses.asdict(_run_trial(target, name)))
    # A backend that hangs at exit must not count as a failure of the last trial.
    os._exit(0)


def _run_trial(target: Any, name: str) -> TrialOutcome:
    from conformance.doctor import capability_trials, operator_trials, precision_trials

    kind, _, rest = name.partition(":")
    if kind == "capability":
        try:
            return TrialOutcome(capability_trials.error_of_capability_trial(rest, target.device))
        except capability_trials.DefectiveTrial as error:
            return TrialOutcome(str(error), broken=True)
    if kind == "precision":
        return TrialOutcome(precision_trials.deviation_from_ieee(rest, target.device))
    if kind == "dtype":
        return TrialOutcome(operator_trials.error_of_dtype_trial(target, rest))
    text, kernels = operator_trials.first_error_and_missing_kernels(target, *rest.rsplit("@", 1))
    return TrialOutcome(text, tuple(kernels))


if __name__ == "__main__":
    sys.exit(main())
