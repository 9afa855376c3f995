"""A saved Docker image, pushed to a registry under the release's name; what counts is its digest."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from conformance.errors import UsageError

_LOADED = re.compile(r"Loaded image: (\S+)")
_DIGEST = re.compile(r"digest: (sha256:[0-9a-f]{64})")
_HOST = re.compile(r"[a-z0-9][a-z0-9.-]*(:\d{1,5})?")
_REPOSITORY = re.compile(r"[a-z0-9]+([._/-][a-z0-9]+)*")
_VERSION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,60}")


def push(file: Path, registry: str, repository: str, version: str, user: str, token: str) -> tuple[str, str]:
    """Load a saved image and push it as ``REGISTRY/REPOSITORY:VERSION-TAG``; that name without its tag, and
    the digest that the registry gave.

    ``token`` goes to the login on its standard input, and nowhere else. UsageError on a refusal.
    """
    repository = repository.lower()  # as registries want it
    for what, value, pattern in (
        ("registry", registry, _HOST),
        ("repository", repository, _REPOSITORY),
        ("version", version, _VERSION),
    ):
        if not pattern.fullmatch(value):
            raise UsageError(f"--{what} {value!r} cannot stand in the name of an image; give another one")
    if not file.is_file():
        raise UsageError(f"there is no image {file}; save one with 'nox -s docker -- --save DIR'")
    loaded = _LOADED.findall(_docker("load", "--input", str(file)))
    if len(loaded) != 1:
        raise UsageError(f"{file.name} holds {len(loaded)} named images; save one to a file")
    tag = loaded[0].rpartition(":")[2]
    name = f"{registry}/{repository}"
    if token:
        _docker("login", registry, "--username", user, "--password-stdin", said=token)
    _docker("tag", loaded[0], f"{name}:{version}-{tag}")
    found = _DIGEST.findall(_docker("push", f"{name}:{version}-{tag}"))
    if len(found) != 1:
        raise UsageError(f"the push of {name}:{version}-{tag} told no digest; look at the registry")
    return name, found[0]


def _docker(*arguments: str, said: str | None = None) -> str:
    program = shutil.which("docker")
    if program is None:
        raise UsageError("there is no program docker; GitHub's own runners have it, elsewhere install it")
    done = subprocess.run([program, *arguments], input=said, capture_output=True, text=True)
    if done.returncode:
        raise UsageError(f"docker {arguments[0]} failed: {done.stderr.strip()[-300:]}")
    return done.stdout
