"""Parse a build specification (release, ``newest``, ``nightly``, wheel, URL), and download its wheel."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import shutil
import subprocess
import sys
import urllib.parse
from pathlib import Path
from typing import Any

from conformance.errors import UsageError

NIGHTLY_INDEX = "https://download.pytorch.org/whl/nightly/"
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
_RELEASE = re.compile(r"\d+\.\d+(\.\d+)?")
_SHA256 = re.compile(r"[0-9a-f]{64}")
#: Matches the name of one of PyTorch's own indexes: cpu, cu126, xpu, rocm6.4.
_VARIANT = re.compile(r"cpu|xpu|cu\d{2,3}|rocm\d+\.\d+(\.\d+)?")


@dataclasses.dataclass(frozen=True)
class BuildRequest:
    """A requested build.

    ``requirement`` and ``options`` are arguments of pip. ``sha256`` is the required digest of the wheel, if
    given.
    """

    spec: str
    kind: str
    requirement: str
    options: tuple[str, ...] = ()
    sha256: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the request as a JSON object."""
        return dataclasses.asdict(self) | {"options": list(self.options)}


def parse_build_spec(spec: str, variant: str | None = None) -> BuildRequest:
    """Parse ``2.6.0``, ``newest``, ``nightly``, a path of a wheel, or ``https://….whl#sha256=…``.

    ``variant`` selects one of PyTorch's own indexes (``cpu``, ``cu126``). If it is None, releases come from
    pip's configured index. Raise UsageError for any other ``spec``, so that pip never receives such a text.
    """
    if variant is not None and not _VARIANT.fullmatch(variant):
        raise UsageError(
            f"torch variant {variant!r} is not one of cpu, xpu, cuNNN, rocmN.N; omit it for the default"
        )
    if spec == "nightly":
        index = f"{NIGHTLY_INDEX}{variant or 'cpu'}"
        return BuildRequest(spec, "nightly", "torch", ("--pre", "--index-url", index))
    index_options = ("--index-url", f"https://download.pytorch.org/whl/{variant}") if variant else ()
    if spec == "newest":
        return BuildRequest(spec, "release", "torch", index_options)
    if _RELEASE.fullmatch(spec):
        exact = spec if spec.count(".") == 2 else f"{spec}.*"
        return BuildRequest(spec, "release", f"torch=={exact}", index_options)
    if "://" in spec:
        return _parse_url(spec)
    if spec.endswith(".whl"):
        path = Path(spec).expanduser().absolute()
        if not path.is_file():
            raise UsageError(f"{spec} does not exist; give the path of a torch wheel")
        return BuildRequest(spec, "wheel", str(path))
    raise UsageError(
        f"torch build {spec!r} is not a release (2.6.0), 'newest', 'nightly', a path of a wheel, or "
        "https://….whl#sha256=…"
    )


def _parse_url(spec: str) -> BuildRequest:
    try:
        parts = urllib.parse.urlsplit(spec)
    except ValueError as error:
        raise UsageError(f"torch build {spec!r} is not an address ({error}); give an https one") from None
    digest = dict(urllib.parse.parse_qsl(parts.fragment)).get("sha256", "")
    if parts.scheme != "https" or not parts.hostname or not parts.path.endswith(".whl"):
        raise UsageError(f"torch build {spec!r} is not an https address of a .whl file; give one")
    if parts.username or parts.password:
        raise UsageError(
            "the address of a torch build contains a user or password; use a public address, or download the "
            "wheel first"
        )
    if not _SHA256.fullmatch(digest):
        raise UsageError(
            f"torch build {spec!r} has no digest; add #sha256= and the 64 hexadecimal digits of its SHA-256"
        )
    name = Path(urllib.parse.unquote(parts.path)).name
    if not re.fullmatch(r"torch-[A-Za-z0-9_.+!-]+\.whl", name):
        raise UsageError(f"{name!r} is not the name of a torch wheel; give the address of a torch wheel")
    return BuildRequest(spec, "url", f"torch @ {spec}", (), digest)


def download_wheel(request: BuildRequest, folder: Path, python: str = sys.executable) -> Path:
    """Download the requested wheel for an interpreter into a folder, and return its path.

    Raise UsageError if the wheel is not available, or its digest differs from the requested digest.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder} cannot be created ({error.strerror}); choose another folder") from None
    if request.kind == "wheel":
        return Path(request.requirement)
    scratch = folder / ".part"  # the folder may contain other builds
    shutil.rmtree(scratch, ignore_errors=True)
    command = [python, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    command += [*request.options, "-d", str(scratch), request.requirement]
    done = subprocess.run(command, capture_output=True, text=True)
    wheels = sorted(scratch.glob("torch-*.whl"))
    if done.returncode or len(wheels) != 1:
        reason = (done.stderr.strip().splitlines() or ["pip gave no reason"])[-1]
        raise UsageError(f"torch build {request.spec!r} is not available: {reason[:500]}")
    wheel = wheels[0].replace(folder / wheels[0].name)
    scratch.rmdir()
    if request.sha256 is not None and sha256(wheel) != request.sha256:
        raise UsageError(
            f"{wheel.name} has SHA-256 {sha256(wheel)} instead of {request.sha256}; ask the publisher of the "
            "wheel for its digest"
        )
    return wheel


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file as hexadecimal digits."""
    with path.open("rb") as file:
        return (
            hashlib.file_digest(file, "sha256").hexdigest()
            if hasattr(hashlib, "file_digest")
            else _sha256(file)
        )


def _sha256(file: Any) -> str:  # Python 3.10 has no hashlib.file_digest
    digest = hashlib.sha256()
    while block := file.read(1 << 20):
        digest.update(block)
    return digest.hexdigest()


def request_json(request: BuildRequest, wheel: Path | None) -> str:
    """Return a request and its downloaded wheel as JSON for workflows."""
    content = request.to_json()
    if wheel is not None:
        content |= {"wheel": wheel.name, "sha256": sha256(wheel)}
    return json.dumps(content, sort_keys=True)
