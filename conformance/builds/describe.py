"""Description of a build of torch: version, commit, kind with the evidence, ABI, digest of its wheel."""

from __future__ import annotations

import csv
import dataclasses
import hashlib
import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from conformance.builds import abi, known_builds
from conformance.errors import UsageError
from conformance.model.records import TorchFacts

#: Local labels of PyTorch's own wheels.
_OWN_LABEL = re.compile(r"|cpu(\.cxx11\.abi)?|cu\d{2,3}(\.full|\.with\.pypi\.cudnn)?|rocm\d+(\.\d+)+|xpu")
KINDS = ("public", "fork", "fork-like", "source", "unknown")


@dataclasses.dataclass(frozen=True)
class Build:
    """A build of torch. ``kind`` is one of ``KINDS``, ``evidence`` the sentences that it rests on, ``record``
    the digest of the list of its files, ``source`` the origin that pip recorded, if any.
    """

    version: str
    git_version: str | None
    kind: str
    evidence: tuple[str, ...]
    abi: str
    abi_evidence: str
    record: str | None
    python: str | None
    source: str | None

    def to_json(self) -> dict[str, Any]:
        """Return the description as a JSON object."""
        return dataclasses.asdict(self) | {"evidence": list(self.evidence)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Build:
        """Read the object that :meth:`to_json` returns; UsageError if it is something else."""
        names = {field.name for field in dataclasses.fields(cls)}
        if not isinstance(data, dict) or set(data) != names or data["kind"] not in KINDS:
            raise UsageError(
                "this is not a description of a build of torch; write one with 'conformance torch record'"
            )
        return cls(**{**data, "evidence": tuple(data["evidence"])})

    def facts(self) -> TorchFacts:
        """Return the facts about torch that a results file holds."""
        return {
            "version": self.version,
            "revision": self.git_version,
            "kind": self.kind,
            "evidence": list(self.evidence),
            "abi": self.abi,
            "wheel": self.record,
        }

    def name(self) -> str:
        """Name the build by version and kind, for sentences."""
        return f"{self.version} ({self.kind}, ABI {self.abi})"


def describe_environment(python: str = sys.executable) -> Build:
    """Describe the torch of an environment, given by its interpreter (default: this one)."""
    environment = locate(python)
    if environment.site is None:
        raise UsageError(f"{python} has no torch; install the build that it is for")
    return describe_folder(Path(environment.site), python=environment.python)


def describe_folder(site: Path, *, python: str | None = None) -> Build:
    """Describe the torch of a site-packages folder."""
    version_file = _read_required(site / "torch" / "version.py")
    version = version_of(version_file, str(site))
    info = dist_info(site, version)
    record = _read_optional(info / "RECORD") if info else None
    direct = _read_optional(info / "direct_url.json") if info else None
    marked = (site / "torch" / "_fork.json").exists()
    return _build(
        version_file, str(site), record, direct, marked, abi.abi_of_torch(site), python, _source_of(direct)
    )


def describe_wheel(path: Path) -> Build:
    """Describe the torch in a wheel."""
    measured = abi.abi_of_torch(path)
    with zipfile.ZipFile(path) as wheel:
        names = wheel.namelist()
        if "torch/version.py" not in names:
            raise UsageError(f"{path} has no torch/version.py; name a wheel of torch")
        version_file = wheel.read("torch/version.py").decode()
        info = next((name for name in names if re.fullmatch(r"torch-[^/]+\.dist-info/RECORD", name)), None)
        record = wheel.read(info).decode() if info else None
        marked = "torch/_fork.json" in names
    return _build(version_file, str(path), record, None, marked, measured, None, path.name)


def _build(
    version_file: str,
    where: str,
    record: str | None,
    direct: str | None,
    marked: bool,
    measured: abi.Abi,
    python: str | None,
    source: str | None,
) -> Build:
    version = version_of(version_file, where)
    kind, evidence = classify(version, version_file, digest(record), direct, marked)
    return Build(
        version=version,
        git_version=_assigned_text(version_file, "git_version"),
        kind=kind,
        evidence=tuple(evidence),
        abi=measured.value,
        abi_evidence=measured.words(),
        record=digest(record),
        python=python,
        source=source,
    )


def classify(
    version: str, version_file: str, record: str | None, direct_url: str | None, marked: bool
) -> tuple[str, list[str]]:
    """Return the kind of a build and the evidence for it, the strongest first.

    Gaudi's bridge takes a local label that begins with ``git`` for a fork. Every source build of public
    PyTorch has one too, so that the label alone means ``source``; ``fork`` needs a marker or a known digest.
    """
    evidence: list[str] = []
    local = version.partition("+")[2]
    repacked = _assigned_text(version_file, "repacked_from")
    vouched = known_builds.known_builds().get(record or "")
    if repacked is not None:
        return "fork-like", [
            f"torch/version.py says repacked_from = {repacked!r}: that build's binaries under another label"
        ]
    if vouched is not None:
        sentence = f"the digest of its files is that of {vouched.name}, which is known as {vouched.kind}"
        return vouched.kind, [sentence]
    if marked:
        return "fork", ["torch/_fork.json is there, the marker of a fork; what it says was not checked"]
    if direct_url is not None and '"editable": true' in direct_url:
        return "source", ["direct_url.json says that it was installed editable, from a source tree"]
    if local.startswith(("git", "hpu")):
        evidence.append(
            f"its local label {local!r} is that of a build from source: of a fork or of public PyTorch, "
            "which the label does not tell"
        )
        return "source", evidence
    released = re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+)?", version.partition("+")[0])
    if released and record is not None and _OWN_LABEL.fullmatch(local):
        evidence.append(
            f"version {version} is that of a public release or nightly, and a wheel brought it; its digest "
            f"{record[:12]} is not among the known ones"
        )
        return "public", evidence
    return "unknown", [
        f"version {version} is that of no release of PyTorch's own, and nothing says where it comes from"
    ]


def digest(record: str | None) -> str | None:
    """Return the SHA-256 of the list of torch's files with their digests, as in a wheel's RECORD.

    It is the same in every installation of the same wheel; None if torch was not installed from a wheel.
    """
    rows = [
        line
        for line in (record or "").splitlines()
        if line.startswith("torch/") and ",sha256=" in line and "__pycache__/" not in line
    ]
    return hashlib.sha256("\n".join(sorted(rows)).encode()).hexdigest() if rows else None


def version_of(version_file: str, where: str) -> str:
    """Read the version in the text of ``torch/version.py``; UsageError if it has none."""
    version = _assigned_text(version_file, "__version__")
    if version is None:
        raise UsageError(f"torch in {where} does not say which version it is; install torch again")
    return version


def files_changed(site: Path) -> list[str]:
    """List the first few files of torch that are gone, or whose size differs from that in the wheel's
    RECORD.
    """
    info = dist_info(site, version_of(_read_required(site / "torch" / "version.py"), str(site)))
    record = _read_optional(info / "RECORD") if info else None
    changed = []
    for row in csv.reader((record or "").splitlines()):
        if len(row) == 3 and row[0].startswith("torch/") and row[2].isdigit() and "__pycache__" not in row[0]:
            file = site / row[0]
            if not file.exists() or file.stat().st_size != int(row[2]):
                changed.append(row[0])
    return changed[:20]


def _assigned_text(version_file: str, name: str) -> str | None:
    """Return the text that a file assigns to a name, or None."""
    match = re.search(rf"^{name}\s*(?::[^=]*)?=\s*['\"]([^'\"]+)['\"]", version_file, re.M)
    return None if match is None else match.group(1)


@dataclasses.dataclass(frozen=True)
class Environment:
    """An interpreter and the folder in which it finds torch, if any."""

    executable: str
    python: str
    site: str | None


_CODE = """
import importlib.util as u, json, os, sys
sys.path[:] = [path for path in sys.path if path != ""]  # the working folder may hold a checkout
spec = u.find_spec("torch")
site = spec and spec.origin and os.path.dirname(os.path.dirname(spec.origin))
python = ".".join(map(str, sys.version_info[:3]))
print(json.dumps({"site": site, "python": python, "executable": sys.executable}))
"""


def locate(python: str) -> Environment:
    """Find the torch of an interpreter without importing it. UsageError if the interpreter does not
    answer.
    """
    try:
        done = subprocess.run([python, "-c", _CODE], capture_output=True, text=True, check=True, timeout=60)
        return Environment(**json.loads(done.stdout.splitlines()[-1]))
    except (OSError, subprocess.SubprocessError, ValueError, LookupError) as error:
        raise UsageError(
            f"{python} cannot be asked for its torch ({error}); name a Python interpreter"
        ) from None


_PACKAGE = """
import importlib.util as u, json, sys
sys.path[:] = [path for path in sys.path if path != ""]
spec = u.find_spec(sys.argv[1])
print(json.dumps(spec and [*(spec.submodule_search_locations or [spec.origin])]))
"""


def locate_package(python: str, name: str) -> Path:
    """Find the folder, or the one file, of an installed top-level package without importing it. UsageError if
    there is none.
    """
    if not name.isidentifier():
        raise UsageError(
            f"--package {name!r} is not the name of a top-level package; give one that can be imported"
        )
    try:
        done = subprocess.run(
            [python, "-c", _PACKAGE, name], capture_output=True, text=True, check=True, timeout=60
        )
        locations = json.loads(done.stdout.splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, LookupError) as error:
        raise UsageError(
            f"{python} cannot be asked for {name} ({error}); name a Python interpreter"
        ) from None
    if not locations:
        raise UsageError(f"{python} has no package {name}; install the backend there")
    return Path(locations[0])


def dist_info(site: Path, version: str) -> Path | None:
    """Find the folder with torch's metadata. Its name may lack the local label, as for PyPI's wheels."""
    folders = {
        _normalized(path.name[6:-10]): path for path in site.glob("torch-*.dist-info") if path.is_dir()
    }
    return folders.get(_normalized(version)) or folders.get(_normalized(version.partition("+")[0]))


def _normalized(version: str) -> str:
    """Write a version in the form of PEP 440, which torch/version.py need not have."""
    return re.sub(r"[-_]", ".", version.lower())


def installed_version(python: str) -> str:
    """Return the version that pip knows, which may lack torch's local label. UsageError without torch."""
    environment = locate(python)
    site = None if environment.site is None else Path(environment.site)
    info = None if site is None else dist_info(site, describe_folder(site).version)
    if info is None:
        raise UsageError(f"{python} has no torch that pip has installed; install one from a wheel")
    return info.name[6:-10]


def _read_required(path: Path) -> str:
    try:
        return path.read_text()
    except OSError as error:
        raise UsageError(f"torch has no readable {path} ({error.strerror}); install it again") from None


def _read_optional(path: Path) -> str | None:
    try:
        return path.read_text()
    except OSError:
        return None


def _source_of(direct: str | None) -> str | None:
    if direct is None:
        return None
    try:
        url = json.loads(direct).get("url")
    except (ValueError, AttributeError):
        return None
    # Paths of this machine stay here.
    if url is None:
        return None
    return str(url).rpartition("/")[2] if str(url).startswith("file:") else str(url)
