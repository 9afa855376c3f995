"""The images of ``docker/docker-bake.hcl``, also where there is no buildx.

Groups, targets, what they inherit, and variables are read; whatever else HCL can say is refused.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import hcl2

_KNOWN = {"inherits", "context", "dockerfile", "target", "args", "tags"}
_VARIABLE = re.compile(r"\$\{([A-Z]+)\}")


class Unreadable(Exception):
    """The file says something that is not understood here."""


@dataclasses.dataclass(frozen=True)
class Image:
    """An image: what ``docker build`` is told."""

    name: str
    context: str
    dockerfile: str
    target: str
    args: Mapping[str, str]
    tags: tuple[str, ...]


def load(file: Path, values: Mapping[str, str]) -> tuple[dict[str, list[str]], dict[str, Image]]:
    """Groups by name, and all images that have tags; ``values`` are those of variables."""
    with file.open() as handle:
        data = _plain(hcl2.load(handle))
    known = _named(data.get("variable", []))
    variables = {name: values.get(name, body.get("default", "")) for name, body in known.items()}
    groups = {name: list(body["targets"]) for name, body in _named(data.get("group", [])).items()}
    targets = _named(data.get("target", []))
    images = {}
    for name, body in targets.items():
        whole = _whole(name, targets)
        if "tags" in body:
            filled = _filled(whole, variables)
            images[name] = Image(
                name,
                filled["context"],
                filled["dockerfile"],
                filled["target"],
                filled["args"],
                tuple(filled["tags"]),
            )
    for name, members in groups.items():
        if strange := [member for member in members if member not in images]:
            raise Unreadable(f"group {name} has {strange[0]}, which is no image; define it or leave it out")
    return groups, images


def _plain(value: Any) -> Any:
    """Without what the reader adds: quotes around texts, and keys of its own."""
    if isinstance(value, dict):
        return {_plain(key): _plain(item) for key, item in value.items() if not str(key).startswith("__")}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, str) and len(value) > 1 and value[0] == value[-1] == '"':
        return value[1:-1]
    return value


def _named(blocks: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for block in blocks:
        for name, body in block.items():
            if name in found:
                raise Unreadable(f"{name} is defined twice; name each once")
            found[name] = body
    return found


def _whole(name: str, targets: Mapping[str, Mapping[str, Any]], seen: tuple[str, ...] = ()) -> dict[str, Any]:
    if name not in targets or name in seen:
        raise Unreadable(f"target {name} is inherited and not there, or inherits itself; mend it")
    body = targets[name]
    if strange := set(body) - _KNOWN:
        raise Unreadable(f"target {name} has {min(strange)!r}; known are {', '.join(sorted(_KNOWN))}")
    found: dict[str, Any] = {"args": {}}
    for parent in body.get("inherits", []):
        inherited = _whole(parent, targets, (*seen, name))
        found = {**found, **inherited, "args": {**found["args"], **inherited["args"]}}
    own = {key: value for key, value in body.items() if key not in ("inherits", "args")}
    return {**found, **own, "args": {**found["args"], **body.get("args", {})}}


def _filled(value: Any, variables: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _filled(item, variables) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, variables) for item in value]
    if not isinstance(value, str):
        return value

    def of(match: re.Match[str]) -> str:
        if match[1] not in variables:
            raise Unreadable(f"variable {match[1]} is not defined; define it")
        return variables[match[1]]

    filled = _VARIABLE.sub(of, value)
    if "${" in filled:
        raise Unreadable(f"{value!r} is more than a variable; write it out")
    return filled
