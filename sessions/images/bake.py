"""Read the images of ``docker/docker-bake.json``, also for engines without buildx.

Groups, targets, inheritance and variables are supported. All other contents are rejected.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_KNOWN = {"inherits", "context", "dockerfile", "target", "args", "tags"}
_VARIABLE = re.compile(r"\$\{([A-Z]+)\}")


class UnreadableBakeFile(Exception):
    """Error: the bake file contains something that this reader does not support."""


@dataclasses.dataclass(frozen=True)
class Image:
    """A Docker image: its name, and the arguments of the ``docker build`` that builds the image."""

    name: str
    context: str
    dockerfile: str
    target: str
    args: Mapping[str, str]
    tags: tuple[str, ...]


def load_images(file: Path, values: Mapping[str, str]) -> tuple[dict[str, list[str]], dict[str, Image]]:
    """Return the groups by name, and all images that have tags. ``values`` override the defaults of
    variables.

    Raise Unreadable if buildx would interpret the file differently.
    """
    try:
        data = json.loads(file.read_text(), object_pairs_hook=_object_without_duplicates)
    except ValueError as error:
        raise UnreadableBakeFile(f"{file.name} is not JSON ({error}); fix it") from None
    if unknown := sorted(set(data) - {"variable", "group", "target"}):
        raise UnreadableBakeFile(
            f"{file.name} has the unknown key {unknown[0]!r}. Use group, target or variable."
        )
    defaults = {name: body.get("default", "") for name, body in data.get("variable", {}).items()}
    variables = {name: values.get(name, default) for name, default in defaults.items()}
    groups = {name: list(body["targets"]) for name, body in data.get("group", {}).items()}
    targets = data.get("target", {})
    images = {}
    for name, body in targets.items():
        complete = _with_inherited_values(name, targets)
        if "tags" in body:
            filled = _with_variable_values(complete, variables)
            images[name] = Image(
                name,
                filled["context"],
                filled["dockerfile"],
                filled["target"],
                filled["args"],
                tuple(filled["tags"]),
            )
    for name, members in groups.items():
        if unknown := [member for member in members if member not in images]:
            raise UnreadableBakeFile(
                f"group {name} lists {unknown[0]}, which is not an image. Define it or remove the entry."
            )
    return groups, images


def _object_without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object as a dict. Raise Unreadable for a duplicate key.

    Without this check, json would use only the last value of the key.
    """
    content: dict[str, Any] = {}
    for name, value in pairs:
        if name in content:
            raise UnreadableBakeFile(f"key {name} is defined twice. Define it once.")
        content[name] = value
    return content


def _with_inherited_values(
    name: str, targets: Mapping[str, Mapping[str, Any]], heirs: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Return a target with all inherited values. ``heirs`` are the targets that inherit from this target."""
    if name not in targets or name in heirs:
        raise UnreadableBakeFile(
            f"target {name} is inherited but does not exist, or it inherits itself. Fix the key inherits."
        )
    body = targets[name]
    if unknown := set(body) - _KNOWN:
        raise UnreadableBakeFile(
            f"target {name} has the unknown key {min(unknown)!r}. Use one of {', '.join(sorted(_KNOWN))}."
        )
    complete: dict[str, Any] = {"args": {}}
    for parent in body.get("inherits", []):
        inherited = _with_inherited_values(parent, targets, (*heirs, name))
        complete = {**complete, **inherited, "args": {**complete["args"], **inherited["args"]}}
    direct = {key: value for key, value in body.items() if key not in ("inherits", "args")}
    return {**complete, **direct, "args": {**complete["args"], **body.get("args", {})}}


def _with_variable_values(value: Any, variables: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _with_variable_values(item, variables) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_variable_values(item, variables) for item in value]
    if not isinstance(value, str):
        return value

    def value_of_variable(match: re.Match[str]) -> str:
        if match[1] not in variables:
            raise UnreadableBakeFile(f"variable {match[1]} is not defined. Add it to the key variable.")
        return variables[match[1]]

    filled = _VARIABLE.sub(value_of_variable, value)
    if "${" in filled:
        raise UnreadableBakeFile(
            f"{value!r} contains an expression. This reader supports only plain variables. Write out "
            "the value."
        )
    return filled
