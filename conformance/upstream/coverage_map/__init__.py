"""The map of upstream's device-generic test methods to the suite's properties that cover them.

``test_names/*.json`` pin the names of upstream's test methods, file by file, with the commit that they were read
from. ``maps/*.toml`` give for each method the properties that cover it, or the reason, of a closed list, why
none does. A method without an entry is uncovered. Both are data of the suite: names, no code.
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

#: Why a method needs no property here. Anything else is uncovered.
REASONS: dict[str, str] = {
    "cuda-internal": "about kernels, flags or versions of CUDA and ROCm",
    "other-device": "about one other device (MPS, XPU, NPU, XLA, mkldnn) alone",
    "jit-legacy": "about TorchScript",
    "private-api": "about private attributes and internals that no user of a device sees",
    "framework-test": "about torch.testing or upstream's test framework itself",
    "no-device": "about Python or the host alone; no tensor of a device takes part",
    "needs-source": "needs files or C++ of PyTorch's source tree, or the internet",
    "deprecated": "about an API that is deprecated or gone",
    "platform": "about Windows, macOS or 32 bit alone",
    "distributed": "about collectives: the distributed level's",
    "memory-size": "needs tens of gigabytes",
}


class CoverageError(ValueError):
    """The map contradicts itself, the pinned names, or the suite."""


@dataclasses.dataclass(frozen=True)
class Method:
    """A test method of upstream: ``covered_by`` names properties (``write-through-select/views``, or
    ``value`` alone for one over a database), ``reason`` a word of :data:`REASONS`; neither means uncovered.
    ``wheel`` says that the data it runs over is in the torch wheel.
    """

    file: str
    owner: str
    name: str
    wheel: bool
    covered_by: tuple[str, ...] = ()
    reason: str | None = None


def file_stems() -> list[str]:
    """List the names under which upstream's files are pinned, in order."""
    return sorted(path.stem for path in (FOLDER / "test_names").glob("*.json"))


def pinned_names(stem: str) -> dict[str, Any]:
    """Read ``file``, ``commit`` (None if the names come from ports) and ``classes`` of a pinned file."""
    data: dict[str, Any] = json.loads((FOLDER / "test_names" / f"{stem}.json").read_text())
    return data


def methods(stem: str) -> list[Method]:
    """List the methods of a file with their entries in the map; CoverageError if the map names anything
    else.
    """
    names = pinned_names(stem)
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
                listed_methods.append(Method(names["file"], owner, name, in_wheel, reason=entry))
            else:
                listed_methods.append(Method(names["file"], owner, name, in_wheel, covered_by=tuple(entry)))
    return listed_methods


def _check_names(path: Path, table: dict[str, Any], wheel: set[str], classes: dict[str, list[str]]) -> None:
    pinned_names = {f"{owner}.{name}" for owner, listed in classes.items() for name in listed}
    for owner, entries in table.items():
        for name in entries:
            if f"{owner}.{name}" not in pinned_names:
                raise CoverageError(f"{path.name}: {owner}.{name} is not a pinned method; fix the name")
    for wheel_name in wheel:
        if wheel_name not in pinned_names and wheel_name not in classes:
            raise CoverageError(
                f"{path.name}: {wheel_name} in wheel is not a pinned class or method; fix the name"
            )
    for owner, listed in classes.items():
        twice = [name for name, count in collections.Counter(listed).items() if count > 1]
        if twice:
            raise CoverageError(f"{path.stem}.json: {owner}.{twice[0]} is pinned twice; remove one")
