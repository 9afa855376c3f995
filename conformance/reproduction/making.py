"""From a failure to a snippet that was seen to show it."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from conformance.model.verdicts import Failure
from conformance.reproduction import short, shrinking, tape, whole
from conformance.reproduction.modules import Unwritable
from conformance.reproduction.shrinking import Shrunk
from conformance.reproduction.trial import Trial, signature
from conformance.reproduction.whole import Written

#: Seconds that one run of a snippet may take.
PATIENCE = 120.0

#: Runs a script as one that cannot import the suite.
_ALONE = """
import runpy, sys
for name in ("conformance", "expecttest"):
    sys.modules[name] = None
path = sys.argv[1]
sys.argv = sys.argv[1:]
runpy.run_path(path, run_name="__main__")
"""


@dataclasses.dataclass
class Snippet:
    """A script, and whether it was seen to show the failure."""

    text: str
    form: str
    shrunk: Shrunk
    shows: bool
    output: str
    notes: list[str] = dataclasses.field(default_factory=list)


def make(
    trial: Trial,
    failure: Failure,
    *,
    number: int | None = None,
    simplify: bool = True,
    seconds: float = shrinking.BUDGET,
) -> Snippet:
    """The shortest script that shows a failure, on the smallest sample found.

    Raises :class:`~conformance.reproduction.modules.Unwritable` where no form of it can be written down.
    """
    if trial.target.elsewhere:
        raise Unwritable("it takes several processes")
    shrunk = shrinking.shrink(trial, failure, number=number, budget=seconds, simplify=simplify)
    notes: list[str] = []
    made: list[tuple[Written, str]] = []
    with trial.with_sets(shrunk.sets):
        for writing in (_short, _whole):
            try:
                written = writing(trial, shrunk)
            except Unwritable as error:
                notes.append(f"no {writing.__name__.strip('_')} form: {error}")
                continue
            code, output = run(written.text)
            shows = code == 1 and "WRONG" in output
            if shows and writing is _short and not trial.target.is_cpu:
                # What the CPU fails as well says nothing about the device.
                code, _ = run(written.text, arguments=("cpu",))
                if code != 0:
                    notes.append(f"{written.form}: the CPU fails it as well")
                    continue
            if shows:
                return Snippet(written.text, written.form, shrunk, True, output, notes)
            notes.append(f"{written.form}: the failure did not show (exit code {code})")
            made.append((written, output))
    if not made:
        raise Unwritable("; ".join(notes))
    written, output = made[-1]
    return Snippet(written.text, written.form, shrunk, False, output, notes)


def title_of(trial: Trial) -> str:
    name = trial.target.name.replace("\\", "/").replace('"', "'")
    return f"{trial.id} on target {name}, mode {trial.target.mode}"


def _advice(trial: Trial, shrunk: Shrunk) -> str:
    other = "" if trial.target.is_cpu else ' With the argument "cpu" it shows what the CPU does.'
    return f"Exits with 1 and says WRONG while the failure is there, with 0 once it is gone.{other}"


def _short(trial: Trial, shrunk: Shrunk) -> Written:
    if trial.subject.kind != "operator":
        raise Unwritable(f"a check of kind {trial.subject.kind!r} is more than one call")
    if trial.target.mode != "eager" or trial.target.rehearses:
        raise Unwritable(f"mode {trial.target.mode!r} takes more than one call")
    found = tape.record(trial, signature(shrunk.failure)).found
    if found is None:
        raise Unwritable("the failure is none of a single call's values, metadata or errors")
    return short.write(
        trial.target,
        found,
        title=title_of(trial),
        statement=trial.entry.statement,
        advice=_advice(trial, shrunk),
    )


def _whole(trial: Trial, shrunk: Shrunk) -> Written:
    only = shrunk.failure.sample if shrunk.sample is None else None
    return whole.write(trial, title=title_of(trial), advice=_advice(trial, shrunk), only=only)


def run(text: str, seconds: float = PATIENCE, arguments: Sequence[str] = ()) -> tuple[int | None, str]:
    """(exit code, output) of a script in a process that cannot import the suite; None: it took too long."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "snippet.py"
        path.write_text(text)
        command = [sys.executable, "-W", "ignore", "-c", _ALONE, str(path), *arguments]
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                timeout=seconds,
                env=dict(os.environ),
                errors="replace",
            )
        except subprocess.TimeoutExpired:
            return None, ""
    return done.returncode, done.stdout + done.stderr
