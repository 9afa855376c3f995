"""``conformance ci``: run one step of a GitHub workflow. Package ``conformance.ci`` implements the steps."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from conformance.ci import (
    cell_regressions,
    github,
    images,
    install,
    issues,
    merge_artifacts,
    results_branch,
    step_outputs,
    summary,
    template,
    vendor_results,
)
from conformance.commands import common
from conformance.errors import UsageError
from conformance.matrix import collect, plan, table
from conformance.report import output_files, relay
from conformance.site import registry
from conformance.target import file as target_file

#: The maximum number of jobs in one matrix on GitHub.
_JOBS = 256


def add_parser(commands: Any) -> None:
    """Add the command ``ci`` to the command line."""
    parser = commands.add_parser("ci", help="the steps of the workflows (docs/workflows.md)")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    _add_plan_commands(actions)
    _add_install_commands(actions)
    _add_result_commands(actions)
    _add_publish_commands(actions)


def _add_plan_commands(actions: Any) -> None:
    command = actions.add_parser("plan", help="check the inputs of a workflow, and plan its matrix")
    common.add_target_option(command)
    command.add_argument("--builds", required=True, metavar="WORDS", help="SPEC[:KIND[:LEVEL]] …")
    command.add_argument("--modes", default="", metavar="WORDS", help="(default: all modes of the target)")
    command.add_argument("--level", default="smoke")
    command.add_argument("--name", default="conformance", help="prefix of the names of all artifacts")
    command.add_argument("-o", "--output", type=Path, required=True, metavar="FILE")
    command.set_defaults(execute=_execute_plan)

    command = actions.add_parser("template", help="write the workflow for a vendor's own runner")
    command.add_argument("--suite", required=True, metavar="OWNER/NAME@COMMIT", help="this project, pinned")
    command.add_argument("--target", required=True, help="target file in the vendor's repository, or a name")
    command.add_argument(
        "--runner", required=True, metavar="LABELS", help="labels of the runner, comma-separated"
    )
    command.add_argument("--python", default="python3", help="interpreter that has torch and the backend")
    command.add_argument("--package", default="", help="import name of the backend, to check its C++ ABI")
    command.add_argument("--modes", default="eager", metavar="M[,M]", help="(default: eager)")
    command.add_argument("--level", default="core", help="(default: core)")
    command.add_argument("-o", "--output", type=Path, required=True, metavar="FILE")
    command.set_defaults(execute=_execute_template)


def _add_install_commands(actions: Any) -> None:
    command = actions.add_parser("environment", help="make an environment for a cell: torch, suite, backend")
    command.add_argument("plan", type=Path)
    command.add_argument("--cell", required=True, metavar="ID")
    command.add_argument("--suite", type=Path, required=True, metavar="WHEEL", help="the suite to install")
    command.add_argument(
        "--backend", default="", metavar="WORDS", help="requirement, wheel, https://…#sha256=…"
    )
    command.add_argument(
        "--backend-wheels", type=Path, metavar="DIR", help="folder of wheels, instead of --backend"
    )
    command.add_argument("--index", default="default", help="cpu, cu126, …: one of PyTorch's own indexes")
    command.add_argument("--python", default=sys.executable)
    command.add_argument("-o", "--output", type=Path, required=True, metavar="DIR")
    command.set_defaults(execute=_execute_environment)

    command = actions.add_parser(
        "install", help="install the suite into an environment that has torch and the backend"
    )
    command.add_argument("--python", required=True)
    command.add_argument("--suite", type=Path, required=True, metavar="WHEEL")
    command.add_argument(
        "-o",
        "--output",
        type=Path,
        required=True,
        metavar="DIR",
        help="folder for the files of the torch guard",
    )
    command.set_defaults(execute=_execute_install)


def _add_result_commands(actions: Any) -> None:
    command = actions.add_parser(
        "report", help="write the job summary of a run, and a callback for PyTorch's relay"
    )
    command.add_argument("folder", type=Path, metavar="DIR", help="output folder of a run")
    command.add_argument("--job", required=True, help="name of the job or leg")
    command.set_defaults(execute=_execute_report)

    command = actions.add_parser("gather", help="merge the artifacts of all legs; missing legs are reported")
    command.add_argument("plan", type=Path)
    command.add_argument("artifacts", type=Path, help="folder with one subfolder for each artifact")
    command.add_argument("--name", default="conformance")
    command.add_argument("-o", "--output", type=Path, required=True, metavar="OUT")
    command.set_defaults(execute=_execute_gather)


def _add_publish_commands(actions: Any) -> None:
    command = actions.add_parser(
        "fetch", help="fetch the results branch; the folder stays empty if the branch does not exist"
    )
    command.add_argument("--branch", default="results")
    command.add_argument("--repository", metavar="URL", help="(default: the repository of the workflow)")
    command.add_argument("-o", "--output", type=Path, required=True, metavar="DIR")
    command.add_argument(
        "--store",
        action="store_true",
        help="fetch the site's store, and only the runs that the store does not contain",
    )
    command.set_defaults(execute=_execute_fetch)

    command = actions.add_parser("keep", help="replace the site's store on the results branch")
    command.add_argument("folder", type=Path, metavar="STORE")
    command.add_argument("--branch", default="results")
    command.add_argument("--repository", metavar="URL", help="(default: the repository of the workflow)")
    command.set_defaults(execute=_execute_keep)

    command = actions.add_parser("store", help="add a run to the results branch")
    command.add_argument("folder", type=Path, metavar="DIR", help="output folder of 'gather'")
    command.add_argument("--backend", required=True, metavar="ID", help="id in the registry")
    command.add_argument("--branch", default="results")
    command.add_argument("--repository", metavar="URL", help="(default: the repository of the workflow)")
    command.set_defaults(execute=_execute_store)

    command = actions.add_parser("pull", help="fetch new results of the registered vendors, and add them")
    command.add_argument("--branch", default="results")
    command.add_argument("--present", type=Path, required=True, metavar="DIR", help="checkout of the branch")
    command.add_argument("--registry", type=Path, default=registry.FOLDER, metavar="DIR")
    command.add_argument("--repository", metavar="URL", help="(default: the repository of the workflow)")
    command.set_defaults(execute=_execute_pull)

    command = actions.add_parser("push", help="push a saved image to a registry; outputs: name and digest")
    command.add_argument("file", type=Path)
    command.add_argument("--registry", default="ghcr.io")
    command.add_argument("--repository", required=True, metavar="OWNER/NAME")
    command.add_argument("--version", required=True)
    command.set_defaults(execute=_execute_push)

    command = actions.add_parser("issues", help="open or update one issue for each cell that regressed")
    command.add_argument("folder", type=Path, metavar="DIR", help="output folder of 'gather'")
    command.add_argument("--before", type=Path, required=True, metavar="DIR", help="checkout of the branch")
    command.add_argument("--backend", required=True, metavar="ID")
    common.add_target_option(command)
    command.set_defaults(execute=_execute_issues)


def _execute_plan(arguments: argparse.Namespace) -> int:
    file = target_file.load(arguments.target)
    _check_name(arguments.name)
    modes = arguments.modes.replace(",", " ").split() or list(file.modes)
    builds = [plan.RequestedBuild.parse(text) for text in arguments.builds.split()]
    if not builds:
        raise UsageError("--builds is empty; give builds such as '2.13.0 newest:public:core'")
    cells = plan.plan_cells(file, builds, modes, arguments.level)
    if len(cells) > _JOBS:
        raise UsageError(
            f"the plan has {len(cells)} cells, but a matrix allows {_JOBS} jobs; plan fewer builds or modes"
        )
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(plan.plan_json(cells) + "\n")
    # A workflow needs only the ids of the cells. The plan file contains everything else.
    ids = [cell.id for cell in cells]
    step_outputs.set_outputs(
        cells=json.dumps(ids), torches=json.dumps(list(dict.fromkeys(build.spec for build in builds)))
    )
    print(f"{len(cells)} cells: {', '.join(ids)}")
    return 0


def _execute_template(arguments: argparse.Namespace) -> int:
    text = template.render_workflow(
        suite=arguments.suite,
        target=arguments.target,
        runner=arguments.runner.split(","),
        python=arguments.python,
        modes=arguments.modes,
        level=arguments.level,
        package=arguments.package,
    )
    if arguments.output.exists():
        raise UsageError(f"{arguments.output} exists already; remove it or choose another file")
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(text)
    print(f"{arguments.output} written; read it, and commit it to the vendor's repository")
    return 0


def _execute_environment(arguments: argparse.Namespace) -> int:
    cell = install.find_cell_in_plan(arguments.plan, arguments.cell)
    index = None if arguments.index == "default" else arguments.index
    requirements = install.backend_requirements(arguments.backend, arguments.backend_wheels)
    _check_wheel(arguments.suite)
    python = install.make_environment(
        cell, arguments.output, index, install.find_interpreter(arguments.python)
    )
    installed = install.record_torch(python, arguments.output / "guard")
    install.install_suite(installed, arguments.suite)
    if requirements:
        install.install_with_constraints(installed, requirements)
    return _check_torch_and_set_outputs(installed, mode=cell.mode, level=cell.level, expect=cell.expect)


def _execute_install(arguments: argparse.Namespace) -> int:
    _check_wheel(arguments.suite)
    python = install.find_interpreter(arguments.python)
    installed = install.record_torch(python, arguments.output)
    install.install_suite(installed, arguments.suite)
    return _check_torch_and_set_outputs(installed)


def _check_torch_and_set_outputs(installed: install.GuardedEnvironment, **outputs: str) -> int:
    wrong = install.check_torch(installed)
    if wrong is not None:
        print(wrong)
        return 1
    step_outputs.set_outputs(python=installed.python, **outputs)
    return 0


def _execute_report(arguments: argparse.Namespace) -> int:
    legs = output_files.read_legs(arguments.folder)
    server = os.environ.get("GITHUB_SERVER_URL", "https://github.com")
    repository, number = os.environ.get("GITHUB_REPOSITORY", ""), os.environ.get("GITHUB_RUN_ID", "0")
    url = f"{server}/{repository}/actions/runs/{number}"
    (arguments.folder / merge_artifacts.NAMED).write_text(f"{arguments.job}\n")
    step_outputs.add_summary(summary.summary_markdown(legs, arguments.job))
    job = relay.Job(
        name=os.environ.get("GITHUB_WORKFLOW", "conformance"),
        job=arguments.job,
        url=url,
        run_id=number,
        run_attempt=os.environ.get("GITHUB_RUN_ATTEMPT", "1"),
    )
    try:
        body = relay.completed_callback(
            legs, job, _relay_event(), datetime.datetime.now(datetime.timezone.utc)
        )
    except UsageError as error:
        # A locally built torch may have no commit. The results are valid without a callback for the relay.
        print(f"relay.json was not written: {error}")
        return 0
    (arguments.folder / "relay.json").write_text(json.dumps(body, indent=1) + "\n")
    print(f"{arguments.folder}: {body['workflow']['conclusion']}")
    return 0


def _relay_event() -> relay.RelayEvent:
    """Return the event with which the relay started this workflow; a nightly event if the relay did not start
    it.
    """
    if os.environ.get("GITHUB_EVENT_NAME") == "repository_dispatch":
        return relay.read_event(Path(os.environ.get("GITHUB_EVENT_PATH", "")))
    return relay.RelayEvent()


def _execute_gather(arguments: argparse.Namespace) -> int:
    _check_name(arguments.name)
    cells = plan.read_plan(arguments.plan)
    outcomes, any_results = merge_artifacts.merge_artifacts(
        cells, arguments.artifacts, arguments.output, arguments.name
    )
    step_outputs.add_summary((arguments.output / "matrix.md").read_text())
    code = collect.exit_code(outcomes)
    step_outputs.set_outputs(results="true" if any_results else "false", exit=str(code))
    print(table.terminal_table(outcomes))
    bad = [outcome for outcome in outcomes if not outcome.is_as_expected]
    print(f"{len(outcomes) - len(bad)} of {len(outcomes)} cells are good")
    return code


def _execute_fetch(arguments: argparse.Namespace) -> int:
    exists = results_branch.fetch_branch(
        _repository_url(arguments),
        arguments.branch,
        arguments.output,
        os.environ.get("GH_TOKEN", ""),
        with_store=arguments.store,
    )
    state = "fetched" if exists else "does not exist yet"
    print(f"branch {arguments.branch} {state}")
    return 0


def _execute_keep(arguments: argparse.Namespace) -> int:
    token = os.environ.get("GH_TOKEN", "")
    commit = results_branch.replace_site_store(
        _repository_url(arguments), arguments.branch, arguments.folder, token
    )
    print(f"the store is on branch {arguments.branch}: {commit}")
    return 0


def _execute_store(arguments: argparse.Namespace) -> int:
    results = arguments.folder / "results.json"
    if not results.is_file():
        raise UsageError(f"{arguments.folder} has no results.json: no leg produced results")
    matrix = arguments.folder / "matrix.json"
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        origin = results_branch.provenance_of_this_workflow_run("our-workflow")
        run_folder = results_branch.write_run_entry(
            results, arguments.backend, origin, folder, matrix if matrix.is_file() else None
        )
        commit = results_branch.add_runs(
            _repository_url(arguments), arguments.branch, folder, os.environ.get("GH_TOKEN", "")
        )
    step_outputs.set_outputs(run=run_folder.name, commit=commit)
    print(f"{arguments.backend}/{run_folder.name} is on branch {arguments.branch} at {commit}")
    return 0


def _execute_pull(arguments: argparse.Namespace) -> int:
    today = datetime.datetime.now(datetime.timezone.utc).date()
    lines = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for backend in registry.load(arguments.registry).values():
            try:
                lines += list(vendor_results.pull_new_runs(backend, folder, arguments.present, today))
            except (
                UsageError,
                LookupError,
                TypeError,
                ValueError,
                AttributeError,
            ) as error:  # an error of one vendor must not prevent the pull from the other vendors
                lines.append(f"{backend.id}: {type(error).__name__}: {str(error)[:300]}")
        if any(folder.glob("*/*")):
            results_branch.add_runs(
                _repository_url(arguments), arguments.branch, folder, os.environ.get("GH_TOKEN", "")
            )
    print("\n".join(lines) or "nothing new from any vendor")
    step_outputs.add_summary(
        "\n".join(f"* {table.escape_markdown(line)}" for line in lines) or "Nothing new from any vendor."
    )
    return 0


def _execute_push(arguments: argparse.Namespace) -> int:
    user, token = os.environ.get("GITHUB_ACTOR", ""), os.environ.get("GH_TOKEN", "")
    name, digest = images.push_image(
        arguments.file, arguments.registry, arguments.repository, arguments.version, user, token
    )
    step_outputs.set_outputs(name=name, digest=digest)
    step_outputs.add_summary(f"* `{name}@{digest}`: {table.escape_markdown(arguments.file.stem)}\n")
    print(f"{arguments.file.stem}: {name}@{digest}")
    return 0


def _execute_issues(arguments: argparse.Namespace) -> int:
    repository = os.environ.get("GITHUB_REPOSITORY", "")
    if not github.REPOSITORY.fullmatch(repository):
        raise UsageError(f"GITHUB_REPOSITORY {repository!r} is not a repository; set it to OWNER/NAME")
    number = os.environ.get("GITHUB_RUN_ID", "")
    if not arguments.before.is_dir():
        raise UsageError(
            f"{arguments.before} does not exist; fetch the results branch with 'conformance ci fetch'"
        )
    _check_backend_is_registered(arguments.backend)
    # ``arguments.target`` is only quoted in the issue and not read, because the target file may be in a
    # different repository.
    before = cell_regressions.earlier_runs(arguments.before, arguments.backend, exclude_run_id=number)
    changes = cell_regressions.compare_cells(before, arguments.folder)
    server = os.environ.get("GITHUB_SERVER_URL", "https://github.com")
    run = f"{server}/{repository}/actions/runs/{number}" if number.isdecimal() else ""
    done = issues.update_issues(repository, arguments.backend, changes, run, arguments.target)
    for action in done:
        print(f"{action.cell}: {action.done}{'' if action.number is None else f' #{action.number}'}")
    worse = [change for change in changes if change.has_regressed]
    since = f" since {before[0].name}" if before else ": there is no earlier run"
    print(f"{len(worse)} of {len(changes)} cells regressed{since}")
    return 0


def _repository_url(arguments: argparse.Namespace) -> str:
    if arguments.repository:
        return str(arguments.repository)
    server, name = (os.environ.get(f"GITHUB_{suffix}", "") for suffix in ("SERVER_URL", "REPOSITORY"))
    if not server or not github.REPOSITORY.fullmatch(name):
        raise UsageError("the repository is unknown outside a workflow; give --repository")
    return f"{server}/{name}"


def _check_backend_is_registered(name: str) -> None:
    backends = registry.load()
    if name not in backends:
        raise UsageError(f"the registry has no backend {name!r}; known are {', '.join(sorted(backends))}")


def _check_name(name: str) -> None:
    if not step_outputs.NAME.fullmatch(name):
        raise UsageError(
            f"name {name!r} may contain only letters, digits, dots and dashes; choose another name"
        )


def _check_wheel(suite: Path) -> None:
    if suite.suffix != ".whl" or not suite.is_file():
        raise UsageError(f"--suite {suite} is not an existing wheel; give the wheel of the suite")
