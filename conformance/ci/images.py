"""Push a saved Docker image to a registry with ``skopeo``, which needs no Docker engine."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from conformance.errors import UsageError

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_HOST = re.compile(r"[a-z0-9][a-z0-9.-]*(:\d{1,5})?")
_REPOSITORY = re.compile(r"[a-z0-9]+([._/-][a-z0-9]+)*")
_VERSION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,60}")
#: Matches registries on this machine. Like Docker, this module accesses them by plain HTTP.
_LOCAL = re.compile(r"(localhost|127\.0\.0\.1)(:\d+)?")
#: Matches the message in a line of skopeo's log.
_MESSAGE = re.compile(r'\bmsg=("(?:[^"\\]|\\.)*")')


def push_image(
    file: Path, registry: str, repository: str, version: str, user: str, token: str
) -> tuple[str, str]:
    """Push a saved image as ``REGISTRY/REPOSITORY:VERSION-TAG``; return its name without tag, and its digest.

    ``token`` is passed to skopeo on standard input. The login is kept in Docker's settings, as after 'docker
    login', because the workflow step that signs the digest needs the login. Raise UsageError if the registry
    rejects the push.
    """
    repository = repository.lower()  # registries require lower case
    for option, value, pattern in (
        ("registry", registry, _HOST),
        ("repository", repository, _REPOSITORY),
        ("version", version, _VERSION),
    ):
        if not pattern.fullmatch(value):
            raise UsageError(
                f"--{option} {value!r} cannot be part of the name of an image; choose another value"
            )
    if not file.is_file():
        raise UsageError(f"image {file} does not exist; save one with 'nox -s docker -- --save DIR'")
    tag = _image_name(file).rpartition(":")[2]
    name = f"{registry}/{repository}"
    verify = "false" if _LOCAL.fullmatch(registry) else "true"
    with tempfile.TemporaryDirectory() as scratch:
        login, digest = Path(scratch) / "auth.json", Path(scratch) / "digest"
        login_options = ["--authfile", str(login)] if token else []
        if token:
            account = ["--username", user, "--password-stdin"]
            _skopeo(
                "login", *login_options, f"--tls-verify={verify}", *account, registry, standard_input=token
            )
            _save_login(login)
        options = [*login_options, f"--dest-tls-verify={verify}", "--digestfile", str(digest)]
        _skopeo("copy", *options, f"docker-archive:{file}", f"docker://{name}:{version}-{tag}")
        pushed = digest.read_text().strip() if digest.is_file() else ""
    if not _DIGEST.fullmatch(pushed):
        raise UsageError(f"the push of {name}:{version}-{tag} reported no digest; check the registry")
    return name, pushed


def _image_name(file: Path) -> str:
    """Return the name of a saved image. Raise UsageError unless the file has exactly one named image."""
    names = json.loads(_skopeo("list-tags", f"docker-archive:{file}")).get("Tags") or []
    if len(names) != 1:
        raise UsageError(f"{file.name} contains {len(names)} named images; save exactly one image to a file")
    return str(names[0])


def _save_login(login: Path) -> None:
    """Add a login to Docker's settings file. skopeo itself would drop the other settings in this file."""
    settings = Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker") / "config.json"
    try:
        settings_data = json.loads(settings.read_text()) if settings.exists() else {}
        settings_data.setdefault("auths", {}).update(json.loads(login.read_text())["auths"])
        settings.parent.mkdir(parents=True, exist_ok=True)
        settings.touch(mode=0o600)
        settings.write_text(json.dumps(settings_data, indent=1) + "\n")
    except (OSError, ValueError, AttributeError) as error:
        raise UsageError(f"the login cannot be saved in {settings} ({error}); set DOCKER_CONFIG") from None


def _skopeo(*arguments: str, standard_input: str | None = None) -> str:
    program = shutil.which("skopeo")
    if program is None:
        raise UsageError(
            "the program skopeo is not installed; run 'apt-get install skopeo' (GitHub's own runners have it)"
        )
    done = subprocess.run([program, *arguments], input=standard_input, capture_output=True, text=True)
    if done.returncode:
        messages = [json.loads(text) for text in _MESSAGE.findall(done.stderr)] or [done.stderr.strip()]
        raise UsageError(f"skopeo {arguments[0]} failed: {messages[-1][-300:]}")
    return done.stdout
