"""Describe a build of torch: version, commit, kind with evidence, ABI, and digest of its wheel."""

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

#: Matches the local version labels of PyTorch's own wheels.
_OWN_LABEL = re.compile(r"|cpu(\.cxx11\.abi)?|cu\d{2,3}(\.full|\.with\.pypi\.cudnn)?|rocm\d+(\.\d+)+|xpu")
KINDS = ("public", "fork", "fork-like", "source", "unknown")


@dataclasses.dataclass(frozen=True)
class Build:
    """A build of torch.

    ``kind`` is one of ``KINDS``, and ``evidence`` lists the reasons for this kind. ``record`` is the digest
    of the build's list of files. ``source`` is the origin that pip recorded, or None.
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
        """Return the build of a JSON object that :meth:`to_json` returned.

        Raise UsageError for any other object.
        """
        names = {field.name for field in dataclasses.fields(cls)}
        if not isinstance(data, dict) or set(data) != names or data["kind"] not in KINDS:
            raise UsageError(
                "this is not a description of a build of torch; write one with 'conformance torch record'"
            )
        return cls(**{**data, "evidence": tuple(data["evidence"])})

    def torch_facts(self) -> TorchFacts:
        """Return the facts about torch for a results file."""
        return {
            "version": self.version,
            "revision": self.git_version,
            "kind": self.kind,
            "evidence": list(self.evidence),
            "abi": self.abi,
            "wheel": self.record,
        }

    def name(self) -> str:
        """Return a short name of the build: version, kind and ABI."""
        return f"{self.version} ({self.kind}, ABI {self.abi})"


def describe_environment(python: str = sys.executable) -> Build:
    """Describe the torch of an environment. ``python`` is the interpreter of the environment (default: the
    running interpreter).
    """
    environment = describe_interpreter(python)
    if environment.site is None:
        raise UsageError(f"{python} has no torch; install a build of torch there")
    return describe_folder(Path(environment.site), python=environment.python)


def describe_folder(site: Path, *, python: str | None = None) -> Build:
    """Describe the torch of a site-packages folder."""
    version_file = _read_required(site / "torch" / "version.py")
    version = version_of(version_file, str(site))
    info = find_dist_info(site, version)
    record = _read_optional(info / "RECORD") if info else None
    direct = _read_optional(info / "direct_url.json") if info else None
    marked = (site / "torch" / "_fork.json").exists()
    return _make_build(
        version_file,
        str(site),
        record,
        direct,
        marked,
        abi.abi_of_torch(site),
        python,
        _origin_without_local_path(direct),
    )


def describe_wheel(path: Path) -> Build:
    """Describe the torch in a wheel."""
    measured = abi.abi_of_torch(path)
    with zipfile.ZipFile(path) as wheel:
        names = wheel.namelist()
        if "torch/version.py" not in names:
            raise UsageError(f"{path} has no torch/version.py; give a wheel of torch")
        version_file = wheel.read("torch/version.py").decode()
        info = next((name for name in names if re.fullmatch(r"torch-[^/]+\.dist-info/RECORD", name)), None)
        record = wheel.read(info).decode() if info else None
        marked = "torch/_fork.json" in names
    return _make_build(version_file, str(path), record, None, marked, measured, None, path.name)


def _make_build(
    version_file: str,
    where: str,
    record: str | None,
    direct: str | None,
    has_fork_marker: bool,
    measured: abi.Abi,
    python: str | None,
    source: str | None,
) -> Build:
    version = version_of(version_file, where)
    kind, evidence = kind_and_evidence(
        version, version_file, digest_of_record(record), direct, has_fork_marker
    )
    return Build(
        version=version,
        git_version=_assigned_text(version_file, "git_version"),
        kind=kind,
        evidence=tuple(evidence),
        abi=measured.value,
        abi_evidence=measured.describe(),
        record=digest_of_record(record),
        python=python,
        source=source,
    )


def kind_and_evidence(
    version: str, version_file: str, record: str | None, direct_url: str | None, has_fork_marker: bool
) -> tuple[str, list[str]]:
    """Return the kind of a build and the evidence for it.

    Gaudi's package ``habana_frameworks`` treats a build whose local label begins with ``git`` as a fork.
    Source builds of public PyTorch have such a label too. With the label alone the kind is therefore
    ``source``; ``fork`` requires a marker file or a known digest.
    """
    evidence: list[str] = []
    local = version.partition("+")[2]
    repacked = _assigned_text(version_file, "repacked_from")
    vouched = known_builds.known_builds().get(record or "")
    if repacked is not None:
        return "fork-like", [
            f"torch/version.py sets repacked_from = {repacked!r}: it is a copy of that build with a new label"
        ]
    if vouched is not None:
        sentence = f"the digest of its files identifies {vouched.name}, a known build of kind {vouched.kind}"
        return vouched.kind, [sentence]
    if has_fork_marker:
        return "fork", ["torch/_fork.json exists, the marker of a fork; its content was not checked"]
    if direct_url is not None and '"editable": true' in direct_url:
        return "source", ["direct_url.json records an editable installation from a source tree"]
    if local.startswith(("git", "hpu")):
        evidence.append(
            f"its local label {local!r} marks a build from source; the label does not show whether the "
            "source is a fork or public PyTorch"
        )
        return "source", evidence
    released = re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+)?", version.partition("+")[0])
    if released and record is not None and _OWN_LABEL.fullmatch(local):
        evidence.append(
            f"version {version} belongs to a public release or nightly, installed from a wheel; its digest "
            f"{record[:12]} is not in the list of known builds"
        )
        return "public", evidence
    return "unknown", [f"version {version} is not a release of PyTorch, and its origin is not recorded"]


def digest_of_record(record: str | None) -> str | None:
    """Return the SHA-256 of the lines about torch's files in the text of a wheel's RECORD.

    The digest is equal in every installation of the same wheel. Return None if ``record`` is None, because
    torch was not installed from a wheel.
    """
    rows = [
        line
        for line in (record or "").splitlines()
        if line.startswith("torch/") and ",sha256=" in line and "__pycache__/" not in line
    ]
    return hashlib.sha256("\n".join(sorted(rows)).encode()).hexdigest() if rows else None


def version_of(version_file: str, where: str) -> str:
    """Return the version in the text of ``torch/version.py``. Raise UsageError if it is missing."""
    version = _assigned_text(version_file, "__version__")
    if version is None:
        raise UsageError(f"torch in {where} has no __version__ in version.py; install torch again")
    return version


def files_differing_from_record(site: Path) -> list[str]:
    """Return the names of at most 20 files of torch that are missing, or whose size differs from the size in
    the wheel's RECORD.
    """
    info = find_dist_info(site, version_of(_read_required(site / "torch" / "version.py"), str(site)))
    record = _read_optional(info / "RECORD") if info else None
    changed = []
    for row in csv.reader((record or "").splitlines()):
        if len(row) == 3 and row[0].startswith("torch/") and row[2].isdigit() and "__pycache__" not in row[0]:
            file = site / row[0]
            if not file.exists() or file.stat().st_size != int(row[2]):
                changed.append(row[0])
    return changed[:20]


def _assigned_text(version_file: str, name: str) -> str | None:
    """Return the string that ``version.py`` assigns to a name, or None."""
    match = re.search(rf"^{name}\s*(?::[^=]*)?=\s*['\"]([^'\"]+)['\"]", version_file, re.M)
    return None if match is None else match.group(1)


@dataclasses.dataclass(frozen=True)
class Environment:
    """An interpreter, its version, and the site-packages folder with torch, if any."""

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


def describe_interpreter(python: str) -> Environment:
    """Find the torch of an interpreter without importing it. Raise UsageError if the interpreter fails."""
    try:
        done = subprocess.run([python, "-c", _CODE], capture_output=True, text=True, check=True, timeout=60)
        return Environment(**json.loads(done.stdout.splitlines()[-1]))
    except (OSError, subprocess.SubprocessError, ValueError, LookupError) as error:
        raise UsageError(f"{python} cannot report its torch ({error}); give a Python interpreter") from None


_PACKAGE = """
import importlib.util as u, json, sys
sys.path[:] = [path for path in sys.path if path != ""]
spec = u.find_spec(sys.argv[1])
print(json.dumps(spec and [*(spec.submodule_search_locations or [spec.origin])]))
"""


def locate_package(python: str, name: str) -> Path:
    """Return the folder or the file of an installed top-level package, without importing it.

    Raise UsageError if the package is not installed.
    """
    if not name.isidentifier():
        raise UsageError(
            f"--package {name!r} is not the name of a top-level package; give an importable name"
        )
    try:
        done = subprocess.run(
            [python, "-c", _PACKAGE, name], capture_output=True, text=True, check=True, timeout=60
        )
        locations = json.loads(done.stdout.splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, LookupError) as error:
        raise UsageError(
            f"{python} cannot report the location of {name} ({error}); give a Python interpreter"
        ) from None
    if not locations:
        raise UsageError(f"{python} has no package {name}; install the backend there")
    return Path(locations[0])


def find_dist_info(site: Path, version: str) -> Path | None:
    """Return the metadata folder of torch, or None if it does not exist.

    In PyPI's wheels the name of the folder does not contain the local label of the version.
    """
    folders = {
        _normalize_version(path.name[6:-10]): path for path in site.glob("torch-*.dist-info") if path.is_dir()
    }
    return folders.get(_normalize_version(version)) or folders.get(
        _normalize_version(version.partition("+")[0])
    )


def _normalize_version(version: str) -> str:
    """Return a version with the separators of PEP 440, because torch/version.py may use other separators."""
    return re.sub(r"[-_]", ".", version.lower())


def installed_version(python: str) -> str:
    """Return the version of torch in pip's metadata, which may omit the local label.

    Raise UsageError if pip did not install torch.
    """
    environment = describe_interpreter(python)
    site = None if environment.site is None else Path(environment.site)
    info = None if site is None else find_dist_info(site, describe_folder(site).version)
    if info is None:
        raise UsageError(f"{python} has no torch that pip installed; install torch from a wheel")
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


def _origin_without_local_path(direct: str | None) -> str | None:
    if direct is None:
        return None
    try:
        url = json.loads(direct).get("url")
    except (ValueError, AttributeError):
        return None
    # Omit local paths, so that results do not expose paths of this machine.
    if url is None:
        return None
    return str(url).rpartition("/")[2] if str(url).startswith("file:") else str(url)
