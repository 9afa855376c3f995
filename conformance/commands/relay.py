"""``conformance relay``: a callback of PyTorch's cross-repository CI, written and sent."""

from __future__ import annotations

import argparse
import datetime
import json
from pathlib import Path
from typing import Any

from conformance.ci import relay_client
from conformance.errors import UsageError
from conformance.report import output_files, relay, relay_callback
from conformance.report.relay import Event, Job
from conformance.report.relay_callback import Callback


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "relay",
        help="report a run to PyTorch's cross-repository CI",
        description=(
            "Write the callback that PyTorch's relay takes, checked against its form, and send it with "
            "--send. Exit code 0 even if the run failed or the relay is down, 2 if the relay would refuse "
            "the callback or did."
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
        help="the occasion: a run of your own, or the event that the relay dispatched, as in "
        "GITHUB_EVENT_PATH (default: nightly)",
    )
    parser.add_argument("--name", required=True, help="name of the workflow")
    parser.add_argument(
        "--job", help="name of the job, another one for each leg of a matrix (default: level, modes, build)"
    )
    parser.add_argument("--url", required=True, help="https address of the workflow's run")
    parser.add_argument("--run-id", required=True)
    parser.add_argument("--run-attempt", default="1")
    parser.add_argument("--check-run-id", default="", help="GitHub's job.check_run_id (default: of the run)")
    parser.add_argument("--artifact-url", default="")
    parser.add_argument("--send", metavar="URL", help="post the callback to this address of the relay")
    parser.add_argument(
        "--token-variable",
        default=relay_client.TOKEN,
        metavar="NAME",
        help=f"variable of the environment that holds the job's token (default: {relay_client.TOKEN})",
    )
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    """Write the callback, and send it if an address is given."""
    _check(arguments)
    body = _body(arguments)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(body, indent=1) + "\n")
    workflow = body["workflow"]
    print(f"{arguments.output}: {workflow['conclusion'] or workflow['status']}, {workflow['job_name']}")
    if "test_results" in workflow:
        print(", ".join(f"{count} {word}" for word, count in workflow["test_results"].items()))
    if arguments.send is not None:
        _send(body, arguments)
    return 0


def _check(arguments: argparse.Namespace) -> None:
    for word in ("run_id", "run_attempt", "check_run_id"):
        value = getattr(arguments, word)
        if not (value.isascii() and value.isdecimal()) and not (word == "check_run_id" and not value):
            raise UsageError(f"--{word.replace('_', '-')} {value!r} is not a number; give the run's")
    for word in (arguments.url, arguments.artifact_url or arguments.url):
        if not word.startswith("https://"):
            raise UsageError(f"{word!r} is not an https address; give one")


def _body(arguments: argparse.Namespace) -> Callback:
    own = arguments.event in relay_callback.SELF_REPORTED
    occasion = Event(arguments.event) if own else relay.event(Path(arguments.event))
    now = datetime.datetime.now(datetime.timezone.utc)
    if arguments.status == "in_progress":
        if own:
            raise UsageError(
                f"the relay takes no in_progress callback of a {arguments.event} run; report it when it is "
                "completed"
            )
        if arguments.job is None:
            raise UsageError("--job is missing; before the run only you know its name")
        return relay.in_progress(_job(arguments, arguments.job), occasion, now)
    if arguments.folder is None:
        raise UsageError("the folder of the run is missing; name it, or report --status in_progress")
    legs = output_files.read(arguments.folder)
    return relay.completed(legs, _job(arguments, arguments.job or relay.job_name(legs)), occasion, now)


def _job(arguments: argparse.Namespace, job: str) -> Job:
    return Job(
        name=arguments.name,
        job=job,
        url=arguments.url,
        run_id=arguments.run_id,
        run_attempt=arguments.run_attempt,
        check_run_id=arguments.check_run_id,
        artifact=arguments.artifact_url,
    )


def _send(body: Callback, arguments: argparse.Namespace) -> None:
    try:
        answer = relay_client.send(body, arguments.send, arguments.token_variable)
    except relay_client.Unavailable as error:
        # As with the relay's own reporter: its outage must not make a job fail.
        print(f"not sent: {error}")
        return
    if answer.taken:
        print(f"sent: HTTP {answer.status}")
    else:
        print("sent, and left aside: the repository is not at L2 or above in the relay's allowlist")
