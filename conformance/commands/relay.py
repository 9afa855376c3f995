"""``conformance relay``: a results file in the form of PyTorch's cross-repository CI."""

from __future__ import annotations

import argparse
import datetime
import json
from pathlib import Path
from typing import Any

from conformance.errors import UsageError
from conformance.report import files, relay


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser("relay", help="write results in the form of PyTorch's cross-repository CI")
    parser.add_argument("folder", type=Path, metavar="DIR", help="output folder of a run")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE")
    parser.add_argument("--name", required=True, help="name of the workflow")
    parser.add_argument("--job", required=True, help="name of the job, another one for each leg of a matrix")
    parser.add_argument("--url", required=True, help="https address of the workflow's run")
    parser.add_argument("--run-id", required=True)
    parser.add_argument("--run-attempt", default="1")
    parser.add_argument("--artifact-url", default="")
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    """Write the file; the exit code is 0 even if the run failed."""
    for word in ("run_id", "run_attempt"):
        if not getattr(arguments, word).isdecimal():
            raise UsageError(
                f"--{word.replace('_', '-')} {getattr(arguments, word)!r} is not a number; give the run's"
            )
    for word in (arguments.url, arguments.artifact_url or arguments.url):
        if not word.startswith("https://"):
            raise UsageError(f"{word!r} is not an https address; give one")
    legs = files.read(arguments.folder)
    body = relay.payload(
        legs,
        name=arguments.name,
        job=arguments.job,
        url=arguments.url,
        run_id=arguments.run_id,
        run_attempt=arguments.run_attempt,
        completed=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        artifact=arguments.artifact_url,
    )
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(body, indent=1) + "\n")
    workflow = body["workflow"]
    print(f"{arguments.output}: {workflow['conclusion']}, {workflow['test_results']}")
    return 0
