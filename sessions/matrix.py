"""Run the suite on the reference device for several torch builds and modes.

Each build has its own environment. All environments use one wheel of the device.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
from pathlib import Path

import nox

from sessions import wheel as wheels
from sessions.environments import ROOT, Environment, make_overlay_environment

TARGET = "hpu-reference"
#: The default builds as SPEC:KIND[:LEVEL]. A build without a level has the level of the command.
BUILDS = ("2.6.0:public", "2.6.0:fork-like:core", "2.13.0:public:core", "2.13.0:fork-like", "newest:public")


def run_matrix(session: nox.Session) -> None:
    """Plan the matrix, run every cell and collect the outcomes. Fail if a cell has an unexpected outcome."""
    parser = argparse.ArgumentParser(prog="nox -s matrix --", allow_abbrev=False)
    parser.add_argument("--level", help="level of all cells (default: smoke, and core on two builds)")
    parser.add_argument("--mode", help="modes, joined by commas (default: all)")
    parser.add_argument(
        "--build", action="append", help="SPEC:KIND[:LEVEL], instead of the default builds; repeatable"
    )
    parser.add_argument("-o", "--output", type=Path, default=Path("matrix-out"))
    options = parser.parse_args(session.posargs)
    builds = options.build or list(BUILDS)
    if options.level:
        builds = [":".join(build.split(":")[:2]) for build in builds]
    torches = tuple(dict.fromkeys(build.split(":")[0] for build in builds))
    wheel = wheels.build_wheel(session, torches)
    environments = prepare_environments(session, torches, wheel)
    output = options.output.resolve()
    if output.exists():
        if not (output / "plan.json").is_file():
            session.error(
                f"{options.output} was not written by an earlier matrix; choose another folder with -o"
            )
        shutil.rmtree(output)
    output.mkdir(parents=True)
    plan = output / "plan.json"
    driver = next(iter(environments.values()))
    build_arguments = [argument for build in builds for argument in ("--build", build)]
    build_arguments += ["--mode", options.mode] if options.mode else []
    driver.run(
        "conformance",
        "matrix",
        "plan",
        "--target",
        TARGET,
        *build_arguments,
        "--level",
        options.level or "smoke",
        "-o",
        str(plan),
    )
    cells = json.loads(plan.read_text())["include"]
    for cell in cells:
        # If the device does not support the newest torch, its cells expect a refusal. Cells of releases that
        # were requested by number always run the suite.
        if cell["spec"] == "newest" and (why := wheels.refusal_reason(environments["newest"])):
            cell.update(says="" if cell["expect"] == "refusal" else wheels.REFUSAL, expect="refusal", why=why)
    plan.write_text(json.dumps({"include": cells}))
    forks: dict[str, Environment] = {}
    for cell in cells:
        spec = cell["spec"]
        environment = environments[spec]
        if cell["kind"] == "fork-like":
            if spec not in forks:
                forks[spec] = make_overlay_environment(environment, driver, f"torch-{spec}-fork")
            environment = forks[spec]
        arguments = ["--target", TARGET, "--mode", cell["mode"], "--level", cell["level"], "--part"]
        # Continue after a failed cell. Its results contain the reason, or the table shows that it has no
        # results.
        with contextlib.suppress(nox.command.CommandFailed):
            environment.run(
                *("python", "-m", "conformance", "run", *arguments, "-o", str(output / cell["id"])),
                success_codes=[0, 1, 2, 3],
                env={"PT_HPU_AUTOLOAD": "0"},
            )
    driver.run("conformance", "matrix", "collect", str(plan), str(output), "-o", str(output))


def prepare_environments(
    session: nox.Session, torches: tuple[str, ...], wheel: Path
) -> dict[str, Environment]:
    """Return an environment for each torch, with the wheel and the suite. Fail if the installation replaced
    torch.
    """
    environments = {}
    for torch in torches:
        environment = environments[torch] = wheels.make_environment(session, torch)
        before = environment.version_of("torch")
        constraints = environment.folder / "constraints.txt"
        constraints.write_text(f"torch=={before}\n")
        environment.install("--constraint", str(constraints), "scipy", "-e", str(ROOT))
        record = environment.folder / "torch.json"
        environment.run("conformance", "torch", "record", str(record), silent=True)
        wheels.install_wheel(environment, wheel)
        environment.run("conformance", "torch", "check", str(record), "--constraints", str(constraints))
    return environments
