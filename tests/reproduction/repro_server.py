"""Server process: for each request, create snippets of results on the broken backend in a fork of this
process, and print the outcomes as JSON.

This process has loaded the suite. If its own variable FAULT is set, this process also imports the broken
backend. Otherwise the forks import the backend. A request has ``mode``, ``ids``, ``seconds`` for shrinking,
and ``variables``, in which ``FAULT`` names the fault.
"""

from __future__ import annotations

import importlib
import json
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch._dynamo  # noqa: F401  (the broken backend needs it)
from fork_server import ForkServer, serve_requests

from conformance.commands.repro import subject_kind_of
from conformance.device.bring_up import bring_up
from conformance.model.verdicts import ResultId
from conformance.properties.registry import find_property
from conformance.reproduction import script, snippet
from conformance.reproduction.module_ast import NotWritableAsSource
from conformance.reproduction.rerun import RerunTrial
from conformance.subjects import catalogue
from conformance.target import file as target_file
from conformance.worker.executor import Executor

_server: ForkServer


def run_snippet_in_fork(
    text: str, seconds: float = 0.0, arguments: Sequence[str] = ()
) -> tuple[int | None, str]:
    """Run a script in a fork of a process that has loaded torch. Return the exit code and the output, like
    :func:`conformance.reproduction.script.run_script`.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "snippet.py"
        path.write_text(text)
        request = {"path": str(path), "variables": dict(os.environ), "arguments": list(arguments)}
        answer = _server.request(request)
    return answer["code"], answer["output"]


def print_snippet_outcomes(request: Any) -> None:
    """Create the snippet of each result in ``request["ids"]``, and print each outcome as a line of JSON."""
    script.run_script = run_snippet_in_fork
    loaded = target_file.load(str(Path(__file__).parent / "broken.toml"))
    os.environ.update(loaded.variables(request["mode"]))
    target = loaded.target(request["mode"])
    bring_up(target)
    executor = Executor(target)
    for text in request["ids"]:
        print(json.dumps(snippet_and_outcomes(executor, text, request["seconds"])), flush=True)


def snippet_and_outcomes(executor: Executor, text: str, seconds: float) -> dict[str, Any]:
    """Return the snippet of one result, and the outcomes of the snippet on the broken device and on the
    correct device.
    """
    result_id = ResultId.parse(text)
    kind = subject_kind_of(result_id)
    entry = find_property(kind, result_id.case.property)
    trial = RerunTrial(executor, entry, executor.subject(kind, result_id.case.subject), result_id)
    started = time.perf_counter()
    result = trial.run()
    answer: dict[str, Any] = {"id": text, "verdict": result.verdict.value}
    if not result.failures:
        return answer
    answer["message"] = result.failures[0].message[:300]
    try:
        made_snippet = snippet.make_snippet(trial, result.failures[0], seconds=seconds)
    except NotWritableAsSource as error:
        return answer | {"unwritable": str(error)}
    fault = os.environ.pop("FAULT")
    code, output = run_snippet_in_fork(made_snippet.text)
    os.environ["FAULT"] = fault
    return answer | {
        "shows": made_snippet.shows,
        "form": made_snippet.form,
        "notes": made_snippet.notes,
        "sample": made_snippet.shrunk.summary,
        "lines": made_snippet.text.count("\n"),
        "text": made_snippet.text,
        "output": made_snippet.output[-600:],
        "healed": code,
        "healed_output": output[-600:],
        "seconds": round(time.perf_counter() - started, 1),
    }


if __name__ == "__main__":
    _server = ForkServer("snippet_server.py")
    if os.environ["FAULT"]:
        importlib.import_module("broken_backend")
    for kind in ("operator", "module", "optimizer"):
        catalogue.subjects(kind)
    serve_requests(print_snippet_outcomes)
