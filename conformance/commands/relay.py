"""``conformance relay``: write and send a callback to PyTorch's cross-repository CI."""

from __future__ import annotations

import argparse
import datetime
import json
from pathlib import Path
from typing import Any

from conformance.ci import relay_client
from conformance.errors import UsageError
from conformance.report import output_files, relay, relay_callback
from conformance.report.relay import Job, RelayEvent
from conformance.report.relay_callback import Callback


def add_parser(commands: Any) -> None:
    """Add the command ``relay`` to the command line."""
    parser = commands.add_parser(
        "relay",
        help="report a run to PyTorch's cross-repository CI",
        description=(
            "Write and validate the callback for PyTorch's relay; --send also sends it. Exit code 0 even if "
            "the run failed or the relay is unreachable, 2 if the callback is invalid or the relay rejected "
            "it."
        ),
    )
    parser.add_argument(
        "folder", type=Path, nargs="?", metavar="DIR", help="output folder of a run (not for in_progress)"
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE")
    parser.add_argument(
        "--status", choices=("in_progress", "completed"), default="completed", help="(default: completed)"
    )
    parser.add_argument(
        "--event",
        default="nightly",
        metavar="nightly|periodic|FILE",
        help="kind of the self-reported run, or the file of the event that the relay dispatched: "
        "GITHUB_EVENT_PATH (default: nightly)",
    )
    parser.add_argument("--name", required=True, help="name of the workflow")
    parser.add_argument(
        "--job", help="name of the job, unique for each leg of a matrix (default: level, modes, build)"
    )
    parser.add_argument("--url", required=True, help="https address of the workflow's run")
    parser.add_argument("--run-id", required=True)
    parser.add_argument("--run-attempt", default="1")
    parser.add_argument(
        "--check-run-id", default="", help="GitHub's job.check_run_id (default: RUN_ID-RUN_ATTEMPT)"
    )
    parser.add_argument("--artifact-url", default="")
    parser.add_argument("--send", metavar="URL", help="post the callback to this address of the relay")
    parser.add_argument(
        "--token-variable",
        default=relay_client.TOKEN,
        metavar="NAME",
        help=f"environment variable with the token of the job (default: {relay_client.TOKEN})",
    )
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    """Write the callback, and send it if ``--send`` gives an address."""
    _check_arguments(arguments)
    body = _callback_of_arguments(arguments)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(body, indent=1) + "\n")
    workflow = body["workflow"]
    print(f"{arguments.output}: {workflow['conclusion'] or workflow['status']}, {workflow['job_name']}")
    if "test_results" in workflow:
        print(", ".join(f"{count} {outcome}" for outcome, count in workflow["test_results"].items()))
    if arguments.send is not None:
        _send_callback(body, arguments)
    return 0


def _check_arguments(arguments: argparse.Namespace) -> None:
    for option in ("run_id", "run_attempt", "check_run_id"):
        value = getattr(arguments, option)
        if not (value.isascii() and value.isdecimal()) and not (option == "check_run_id" and not value):
            raise UsageError(
                f"--{option.replace('_', '-')} {value!r} is not a number; give the number from GitHub"
            )
    for address in (arguments.url, arguments.artifact_url or arguments.url):
        if not address.startswith("https://"):
            raise UsageError(f"{address!r} is not an https address; give an https:// address")


def _callback_of_arguments(arguments: argparse.Namespace) -> Callback:
    own = arguments.event in relay_callback.SELF_REPORTED
    occasion = RelayEvent(arguments.event) if own else relay.read_event(Path(arguments.event))
    now = datetime.datetime.now(datetime.timezone.utc)
    if arguments.status == "in_progress":
        if own:
            raise UsageError(
                f"the relay does not accept an in_progress callback of a {arguments.event} run; report the "
                "run when it is completed"
            )
        if arguments.job is None:
            raise UsageError("--job is missing; an in_progress callback needs the name of the job")
        return relay.in_progress_callback(_job_of_arguments(arguments, arguments.job), occasion, now)
    if arguments.folder is None:
        raise UsageError("the folder of the run is missing; give it, or report --status in_progress")
    legs = output_files.read_legs(arguments.folder)
    return relay.completed_callback(
        legs, _job_of_arguments(arguments, arguments.job or relay.job_name(legs)), occasion, now
    )


def _job_of_arguments(arguments: argparse.Namespace, job: str) -> Job:
    return Job(
        name=arguments.name,
        job=job,
        url=arguments.url,
        run_id=arguments.run_id,
        run_attempt=arguments.run_attempt,
        check_run_id=arguments.check_run_id,
        artifact=arguments.artifact_url,
    )


def _send_callback(body: Callback, arguments: argparse.Namespace) -> None:
    try:
        answer = relay_client.send_callback(body, arguments.send, arguments.token_variable)
    except relay_client.RelayUnavailable as error:
        # An outage of the relay must not make the job fail. The relay's own reporter ignores outages too.
        print(f"not sent: {error}")
        return
    if answer.accepted:
        print(f"sent: HTTP {answer.status}")
    else:
        print("sent, but ignored: the repository is not at L2 or above in the relay's allowlist")
