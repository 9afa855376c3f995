"""The Docker engine: build images with its command line, run containers with its SDK."""

from __future__ import annotations

import functools
import io
import os
import re
import shutil
import subprocess
import tarfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import docker
from conformance.errors import UsageError
from sessions.images.bake import Image

ROOT = Path(__file__).resolve().parents[2]
LOCAL_BASE = "conformance-base:bookworm"


def connect_to_engine() -> docker.DockerClient:
    """Return a client of the engine. Raise UsageError with instructions if no engine responds."""
    try:
        client = docker.from_env()
        client.ping()
    except docker.errors.DockerException as error:
        raise UsageError(
            f"no Docker engine responds ({str(error)[:120]}); install one (apt-get install docker.io "
            "debootstrap) and start it as root: dockerd > dockerd.log 2>&1 &"
        ) from None
    return client


def buildkit_program() -> str:
    """Return a ``docker`` program that can build with BuildKit. Raise UsageError if none exists.

    The program has the plugin buildx, or is older than version 23. The older versions contain BuildKit.
    """
    for folder in os.environ["PATH"].split(os.pathsep):
        program = shutil.which("docker", path=folder)
        if program is None:
            continue
        if _output_or_none(program, "buildx", "version") is not None:
            return program
        version = _output_or_none(program, "version", "--format", "{{.Client.Version}}")
        if version is not None and int(re.split(r"\D", version)[0]) < 23:
            return program
    raise UsageError(
        "no docker command on the PATH can build with BuildKit. Install docker-buildx, or docker.io of "
        "Debian 12."
    )


def _output_or_none(program: str, *arguments: str) -> str | None:
    done = subprocess.run([program, *arguments], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


def available_base_image(client: docker.DockerClient, named: str, python: str) -> str:
    """Return the name of a base image: ``named``, or a local image if no registry responds.

    The local image is made from Debian's packages. Raise UsageError if no base is available.
    """
    if _is_present(client, named) or _can_pull(client, named):
        return named
    if python != "3.11":
        raise UsageError(
            f"the base for Python {python} cannot be pulled, and Debian 12 has Python 3.11 only; "
            "choose another base with --base"
        )
    if _is_present(client, LOCAL_BASE):
        return LOCAL_BASE
    print(f"making {LOCAL_BASE} from Debian's packages (a minute)")
    if subprocess.run([str(ROOT / "docker" / "base.sh"), LOCAL_BASE]).returncode:
        raise UsageError("the base image could not be made; see the reason above")
    return LOCAL_BASE


def _is_present(client: docker.DockerClient, name: str) -> bool:
    try:
        client.images.get(name)
    except docker.errors.ImageNotFound:
        return False
    return True


@functools.cache
def _can_pull(client: docker.DockerClient, name: str) -> bool:
    try:
        client.images.pull(name)
    except docker.errors.APIError as error:
        print(f"{name.partition('@')[0]} cannot be pulled ({str(error)[:160]})")
        return False
    return True


def build_image(program: str, image: Image, base_image: str) -> float:
    """Build an image and return the duration in seconds. If the build fails, print its output and raise
    UsageError.
    """
    command = [program, "build", "--progress", "plain", "-f", str(ROOT / image.dockerfile)]
    command += ["--target", image.target]
    for tag in image.tags:
        command += ["--tag", tag]
    for name, value in {**image.args, "BASE": base_image}.items():
        command += ["--build-arg", f"{name}={value}"]
    bundle = os.environ.get("PIP_CERT", "")
    if bundle and Path(bundle).is_file():
        command += ["--secret", f"id=ca,src={bundle}"]
    started = time.monotonic()
    done = subprocess.run(
        [*command, str(ROOT / image.context)],
        env={**os.environ, "DOCKER_BUILDKIT": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        print(done.stdout[-6000:])
        raise UsageError(f"{image.name} could not be built; see the reason above")
    return time.monotonic() - started


def inspect_image(client: docker.DockerClient, image: Image) -> dict[str, Any]:
    """Return the id, size and labels of an image.

    Raise UsageError if the image runs as root, has no health check, or has a missing or wrong label.
    """
    inspected = client.images.get(image.tags[0])
    config = inspected.attrs["Config"]
    labels = config["Labels"] or {}
    wrong = []
    if config["User"] in ("", "0", "root") or config["User"].startswith("0:"):
        wrong.append("it runs as root")
    if not config.get("Healthcheck"):
        wrong.append("it has no health check")
    for label, argument in (("torch", "TORCH"), ("kind", "KIND"), ("python", "PYTHON")):
        if labels.get(f"conformance.{label}") != image.args[argument]:
            wrong.append(f"label conformance.{label} is {labels.get(f'conformance.{label}')!r}")
    if wrong:
        raise UsageError(f"{image.name}: {'; '.join(wrong)}")
    return {"id": inspected.id, "bytes": inspected.attrs["Size"], "labels": labels}


def run_in_image(
    client: docker.DockerClient, image: Image, command: Sequence[str], output: Path, inside: str
) -> tuple[int, str]:
    """Run a command in an image without a network. Return the exit code and the logs.

    The folder ``inside`` of the container is copied to ``output`` if it exists.
    """
    container = client.containers.run(
        image.tags[0], list(command), detach=True, network_mode="none", shm_size="1g", cap_drop=["ALL"]
    )
    try:
        code = int(container.wait(timeout=3600)["StatusCode"])
        logs = container.logs().decode(errors="replace")
        try:
            stream, _ = container.get_archive(inside)
        except docker.errors.NotFound:
            return code, logs
        _extract_files(b"".join(stream), output)
        return code, logs
    finally:
        container.remove(force=True)


def _extract_files(archive: bytes, output: Path) -> None:
    """Extract the regular files of the archive's folder. Paths outside the folder are skipped."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        for member in tar.getmembers():
            parts = Path(member.name).parts[1:]
            if not member.isfile() or ".." in parts:
                continue
            target = output.joinpath(*parts)
            target.parent.mkdir(parents=True, exist_ok=True)
            source = tar.extractfile(member)
            assert source is not None
            target.write_bytes(source.read())


def passes_health_check(client: docker.DockerClient, image: Image, seconds: int = 180) -> bool:
    """Return whether the image's own health check passes."""
    container = client.containers.run(
        image.tags[0],
        ["3600"],
        entrypoint=["sleep"],
        detach=True,
        network_mode="none",
        healthcheck={"interval": 10**9, "timeout": 120 * 10**9, "retries": 1, "start_period": 0},
    )
    try:
        for _ in range(seconds):
            container.reload()
            status = container.attrs["State"].get("Health", {}).get("Status")
            if status in ("healthy", "unhealthy"):
                if status == "unhealthy":
                    print(container.attrs["State"]["Health"]["Log"][-1]["Output"][-2000:])
                return bool(status == "healthy")
            time.sleep(1)
        return False
    finally:
        container.remove(force=True)
