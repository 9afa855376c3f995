"""The coverage map: upstream's device-generic test methods and the properties that cover them.

``test_names/*.json`` lists the names of the upstream test methods in each test file, with the commit of
PyTorch from which the names were read. ``maps/*.toml`` lists for each method the properties that cover it, or
one of ``REASONS`` why no property is needed. A method without an entry is uncovered. The files contain only
names, no code of PyTorch.
"""

from __future__ import annotations

import collections
import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(__file__).parent

#: The reasons why the suite needs no property for an upstream test method.
REASONS: dict[str, str] = {
    "cuda-internal": "about kernels, flags or versions of CUDA and ROCm",
    "other-device": "about a single other device (MPS, XPU, NPU, XLA, mkldnn)",
    "jit-legacy": "about TorchScript",
    "private-api": "about private attributes and internals that a user of a device does not see",
    "framework-test": "about torch.testing or upstream's test framework itself",
    "no-device": "about Python or the host only; no device tensor is involved",
    "needs-source": "needs files or C++ of PyTorch's source tree, or the internet",
    "deprecated": "about a deprecated or removed API",
    "platform": "about Windows, macOS or 32-bit systems only",
    "distributed": "about collectives, which the properties of mode distributed cover",
    "memory-size": "needs tens of gigabytes of memory",
}


class CoverageError(ValueError):
    """The coverage map contradicts itself, the names in ``test_names``, or the properties of the suite."""


@dataclasses.dataclass(frozen=True)
class UpstreamTestMethod:
    """An upstream test method.

    ``covered_by`` lists properties: ``write-through-select/views`` is a behaviour, and a name without a
    subject, such as ``value``, is a property of database entries. ``reason`` is a key of :data:`REASONS`. The
    method is uncovered if both are empty. ``wheel`` is True if the torch wheel contains the data that the
    method runs over.
    """

    file: str
    owner: str
    name: str
    wheel: bool
    covered_by: tuple[str, ...] = ()
    reason: str | None = None


def file_stems() -> list[str]:
    """Return the stems of the files in ``test_names``, sorted."""
    return sorted(path.stem for path in (FOLDER / "test_names").glob("*.json"))


def read_test_names(stem: str) -> dict[str, Any]:
    """Return the content of a file in ``test_names``: ``file``, ``commit`` and ``classes``. ``commit`` is
    None if the names come from public adaptations of the test file.
    """
    data: dict[str, Any] = json.loads((FOLDER / "test_names" / f"{stem}.json").read_text())
    return data


def methods_of_file(stem: str) -> list[UpstreamTestMethod]:
    """Return the methods of a file with their entries in the map.

    Raise CoverageError if the map contains a name that the file in ``test_names`` does not list.
    """
    names = read_test_names(stem)
    path = FOLDER / "maps" / f"{stem}.toml"
    table: dict[str, Any] = tomllib.loads(path.read_text()) if path.is_file() else {}
    wheel = set(table.pop("wheel", ()))
    classes: dict[str, list[str]] = names["classes"]
    _check_names(path, table, wheel, classes)
    listed_methods = []
    for owner, listed in classes.items():
        entries = table.get(owner, {})
        for name in listed:
            entry = entries.get(name, ())
            in_wheel = owner in wheel or f"{owner}.{name}" in wheel
            if isinstance(entry, str):
                if entry not in REASONS:
                    reason_names = ", ".join(REASONS)
                    raise CoverageError(
                        f"{path.name}: {owner}.{name} has reason {entry!r}; use one of {reason_names}"
                    )
                listed_methods.append(UpstreamTestMethod(names["file"], owner, name, in_wheel, reason=entry))
            else:
                listed_methods.append(
                    UpstreamTestMethod(names["file"], owner, name, in_wheel, covered_by=tuple(entry))
                )
    return listed_methods


def _check_names(path: Path, table: dict[str, Any], wheel: set[str], classes: dict[str, list[str]]) -> None:
    pinned_names = {f"{owner}.{name}" for owner, listed in classes.items() for name in listed}
    for owner, entries in table.items():
        for name in entries:
            if f"{owner}.{name}" not in pinned_names:
                raise CoverageError(
                    f"{path.name}: {owner}.{name} is not a method in test_names; fix the name"
                )
    for wheel_name in wheel:
        if wheel_name not in pinned_names and wheel_name not in classes:
            raise CoverageError(
                f"{path.name}: the list 'wheel' names {wheel_name}, which is not a class or method in "
                "test_names; fix the name"
            )
    for owner, listed in classes.items():
        twice = [name for name, count in collections.Counter(listed).items() if count > 1]
        if twice:
            raise CoverageError(f"{path.stem}.json: {owner}.{twice[0]} is listed twice; remove one")
