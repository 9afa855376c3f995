"""``python -m sessions.images``: the command of ``nox -s docker``."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import docker
from conformance.errors import UsageError
from sessions.images import bake, docker_engine, wheels
from sessions.images.bake import Image

ROOT = Path(__file__).resolve().parents[2]
TARGET = "hpu-reference"
#: The modes in which the suite runs inside an image, by the kind of the image's torch.
MODES = {"public": ("eager", "graph"), "fork-like": ("lazy", "graph")}


def main() -> int:
    """Build each image, run the suite inside, and write a report. Return the worst exit code of the suite."""
    parser = argparse.ArgumentParser(prog="nox -s docker --", allow_abbrev=False)
    parser.add_argument("--image", action="append", metavar="NAME", help="image or group (default: default)")
    parser.add_argument("--base", metavar="IMAGE", help="base image instead of the base in docker-bake.json")
    parser.add_argument("--level", default="smoke", help="level of the run inside the image (default: smoke)")
    parser.add_argument("--registry", default="conformance", help="beginning of the tags")
    parser.add_argument("--save", type=Path, metavar="DIR", help="write each image to a file there")
    parser.add_argument("-o", "--output", type=Path, default=Path("docker-out"), help="folder of the results")
    options = parser.parse_args()
    values = {"REGISTRY": options.registry, "REVISION": current_commit(), "SOURCE": repository_url()}
    groups, images = bake.load_images(ROOT / "docker" / "docker-bake.json", values)
    chosen = [images[name] for name in image_names(options.image or ["default"], groups, images)]
    client = docker_engine.connect_to_engine()
    program = docker_engine.buildkit_program()
    output = options.output.resolve()
    if output.exists() and any(output.iterdir()):
        if not (output / "images.json").is_file():
            raise UsageError(
                f"{options.output} is not empty and was not written by an earlier run of this session. "
                "Choose another folder with -o."
            )
        shutil.rmtree(output)
    output.mkdir(parents=True, exist_ok=True)
    wheels.suite_wheel()
    report = {}
    codes = [0]
    for image in chosen:  # before any build: new files in the wheel folder invalidate image layers
        wheels.torch_wheel(
            image.args["TORCH"], "public", image.args["PYTHON"]
        )  # the image compiles the device for this torch
        wheels.torch_wheel(image.args["TORCH"], image.args["KIND"], image.args["PYTHON"])
    for image in chosen:
        base = options.base or docker_engine.available_base_image(
            client, image.args["BASE"], image.args["PYTHON"]
        )
        print(f"{image.name}: building on {base.partition('@')[0]}", flush=True)
        seconds = docker_engine.build_image(program, image, base)
        facts = docker_engine.inspect_image(client, image)
        print(f"{image.tags[0]}: {facts['bytes'] / 1e6:.0f} MB, built in {seconds:.0f} s", flush=True)
        healthy = docker_engine.passes_health_check(client, image)
        codes.append(0 if healthy else 1)
        print(f"{image.name}: {'healthy' if healthy else 'NOT HEALTHY'}", flush=True)
        runs = {
            mode: run_suite_in_image(client, image, mode, options.level, output)
            for mode in MODES[image.args["KIND"]]
        }
        codes += runs.values()
        report[image.name] = {"tag": image.tags[0], **facts, "base": base, "healthy": healthy, "runs": runs}
        if options.save is not None:
            save_image(client, image, options.save)
    (output / "images.json").write_text(json.dumps(report, indent=1) + "\n")
    bad = [code for code in codes if code]
    return next((code for code in (2, 3, 1) if code in bad), max(codes, default=0))


def image_names(requested: list[str], groups: dict[str, list[str]], images: dict[str, Image]) -> list[str]:
    """Return the names of images, with groups expanded. Raise UsageError for an unknown name."""
    names = []
    for name in requested:
        if name not in groups and name not in images:
            raise UsageError(f"image {name!r} does not exist; use one of {', '.join([*groups, *images])}")
        names += groups.get(name, [name])
    return list(dict.fromkeys(names))


def run_suite_in_image(client: docker.DockerClient, image: Image, mode: str, level: str, output: Path) -> int:
    """Run the suite inside an image in one mode; return its exit code, or 1 if the image contains another
    kind of torch.
    """
    inside = "/home/conformance/out"
    command = ["run", "--target", TARGET, "--mode", mode, "--level", level, "-o", inside]
    folder = output / image.name / mode
    code, logs = docker_engine.run_in_image(client, image, command, folder, inside)
    file = folder / "results.json"
    if not file.is_file():
        print(logs[-3000:])
        print(f"{image.name} {mode}: the run wrote no results.json")
        return code or 3
    (leg,) = json.loads(file.read_text())["legs"]
    totals = ", ".join(f"{count} {verdict}" for verdict, count in leg["totals"].items() if count)
    print(f"{image.name} {mode}: exit {code}, torch {leg['torch']}, {totals}", flush=True)
    kind = leg["facts"]["torch"]["kind"]
    if kind != image.args["KIND"]:
        print(f"{image.name}: the image contains a {kind} torch, not a {image.args['KIND']} torch")
        return 1
    if code:
        print(logs[-3000:])
    return code


def save_image(client: docker.DockerClient, image: Image, folder: Path) -> None:
    """Write an image to a file, so that another machine can push the image."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{image.name}.tar").open("wb") as file:
        for part in client.images.get(image.tags[0]).save(named=True):
            file.write(part)


def current_commit() -> str:
    """Return the commit of this checkout, or 'unknown'."""
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def repository_url() -> str:
    """Return the URL of the repository that the workflow runs for, or 'unknown'."""
    server, name = os.environ.get("GITHUB_SERVER_URL", ""), os.environ.get("GITHUB_REPOSITORY", "")
    return f"{server}/{name}" if server and name else "unknown"


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (UsageError, bake.UnreadableBakeFile) as error:
        print(f"docker: {error}", file=sys.stderr)
        sys.exit(2)
