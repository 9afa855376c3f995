"""The reference device on builds of torch × modes: each build in its own environment, one wheel for all."""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
from pathlib import Path

import nox

from sessions import wheel as wheels
from sessions.environments import ROOT, Environment, lay_over

TARGET = "hpu-reference"
#: Builds with their kinds and, where it is not that of the command, their level.
BUILDS = ("2.6.0:public", "2.6.0:fork-like:core", "2.13.0:public:core", "2.13.0:fork-like", "newest:public")


def run(session: nox.Session) -> None:
    """Plan, run every cell, collect. Fails where a cell is not as it should be."""
    parser = argparse.ArgumentParser(prog="nox -s matrix --", allow_abbrev=False)
    parser.add_argument("--level", help="level of all cells (default: smoke, and core on two builds)")
    parser.add_argument("--mode", help="modes, joined by commas (default: all)")
    parser.add_argument("--build", action="append", help="builds instead of the usual five")
    parser.add_argument("-o", "--output", type=Path, default=Path("matrix-out"))
    own = parser.parse_args(session.posargs)
    builds = own.build or list(BUILDS)
    if own.level:
        builds = [":".join(build.split(":")[:2]) for build in builds]
    torches = tuple(dict.fromkeys(build.split(":")[0] for build in builds))
    wheel = wheels.build(session, torches)
    environments = prepared(session, torches, wheel)
    output = own.output.resolve()
    if output.exists():
        if not (output / "plan.json").is_file():
            session.error(f"{own.output} was left by no earlier matrix; name another folder with -o")
        shutil.rmtree(output)
    output.mkdir(parents=True)
    plan = output / "plan.json"
    driver = next(iter(environments.values()))
    words = [word for build in builds for word in ("--build", build)]
    words += ["--mode", own.mode] if own.mode else []
    driver.run(
        "conformance",
        "matrix",
        "plan",
        "--target",
        TARGET,
        *words,
        "--level",
        own.level or "smoke",
        "-o",
        str(plan),
    )
    cells = json.loads(plan.read_text())["include"]
    for cell in cells:
        # Nobody chose what 'newest' is; a release that was asked for by name is to be measured.
        if cell["spec"] == "newest" and (why := wheels.refusal(environments["newest"])):
            cell.update(says="" if cell["expect"] == "refusal" else wheels.REFUSAL, expect="refusal", why=why)
    plan.write_text(json.dumps({"include": cells}))
    forks: dict[str, Environment] = {}
    for cell in cells:
        spec = cell["spec"]
        made = environments[spec]
        if cell["kind"] == "fork-like":
            if spec not in forks:
                forks[spec] = lay_over(made, driver, f"torch-{spec}-fork")
            made = forks[spec]
        arguments = ["--target", TARGET, "--mode", cell["mode"], "--level", cell["level"], "--part"]
        # What an exit code means stands in the results, and what left none is missing in the table.
        with contextlib.suppress(nox.command.CommandFailed):
            made.run(
                *("python", "-m", "conformance", "run", *arguments, "-o", str(output / cell["id"])),
                success_codes=[0, 1, 2, 3],
                env={"PT_HPU_AUTOLOAD": "0"},
            )
    driver.run("conformance", "matrix", "collect", str(plan), str(output), "-o", str(output))


def prepared(session: nox.Session, torches: tuple[str, ...], wheel: Path) -> dict[str, Environment]:
    """An environment for each torch, with the wheel and the suite; an error where that swapped torch."""
    found = {}
    for torch in torches:
        made = found[torch] = wheels.environment(session, torch)
        before = made.version_of("torch")
        constraints = made.folder / "constraints.txt"
        constraints.write_text(f"torch=={before}\n")
        made.install("--constraint", str(constraints), "scipy", "-e", str(ROOT))
        record = made.folder / "torch.json"
        made.run("conformance", "torch", "record", str(record), silent=True)
        wheels.install(made, wheel)
        made.run("conformance", "torch", "check", str(record), "--constraints", str(constraints))
    return found
