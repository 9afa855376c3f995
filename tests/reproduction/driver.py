"""Makes snippets of results on the broken backend in one process; says in JSON what became of each.

``driver.py TARGET MODE SECONDS ID...``
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from conformance.commands.repro import find_kind
from conformance.device.accelerator import bring_up
from conformance.model.verdicts import ResultId
from conformance.properties.registry import find
from conformance.reproduction import making
from conformance.reproduction.trial import Trial
from conformance.target import file as target_file
from conformance.worker.executor import Executor


class Zygote:
    """Runs snippets as :func:`conformance.reproduction.making.run` does, without loading torch for each."""

    def __init__(self) -> None:
        command = [sys.executable, str(Path(__file__).parent / "zygote.py")]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, text: str, seconds: float = 0.0, arguments: Sequence[str] = ()) -> tuple[int | None, str]:
        assert self.process.stdin is not None and self.process.stdout is not None
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "snippet.py"
            path.write_text(text)
            asked = {"path": str(path), "variables": dict(os.environ), "arguments": list(arguments)}
            self.process.stdin.write(json.dumps(asked) + "\n")
            self.process.stdin.flush()
            said = json.loads(self.process.stdout.readline())
        return said["code"], said["output"]


def main() -> None:
    making.run = Zygote().run
    file, mode, seconds, *ids = sys.argv[1:]
    loaded = target_file.load(file)
    os.environ.update(loaded.variables(mode))
    target = loaded.target(mode)
    bring_up(target)
    executor = Executor(target)
    for text in ids:
        print(json.dumps(one(executor, text, float(seconds))), flush=True)


def one(executor: Executor, text: str, seconds: float) -> dict[str, Any]:
    result_id = ResultId.parse(text)
    kind = find_kind(result_id)
    entry = find(kind, result_id.case.property)
    trial = Trial(executor, entry, executor.subject(kind, result_id.case.subject), result_id)
    started = time.perf_counter()
    result = trial.run()
    said: dict[str, Any] = {"id": text, "verdict": result.verdict.value}
    if not result.failures:
        return said
    said["message"] = result.failures[0].message[:300]
    try:
        made = making.make(trial, result.failures[0], seconds=seconds)
    except making.Unwritable as error:
        return said | {"unwritable": str(error)}
    broken = os.environ.pop("FAULT")
    code, output = making.run(made.text)
    os.environ["FAULT"] = broken
    return said | {
        "shows": made.shows,
        "form": made.form,
        "notes": made.notes,
        "sample": made.shrunk.words,
        "lines": made.text.count("\n"),
        "text": made.text,
        "output": made.output[-600:],
        "healed": code,
        "healed_output": output[-600:],
        "seconds": round(time.perf_counter() - started, 1),
    }


if __name__ == "__main__":
    main()
