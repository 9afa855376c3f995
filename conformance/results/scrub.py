"""Removal of what a certificate leaves out: host names, paths, users, and variables not on the list."""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping
from typing import Any, cast

from conformance.builds import installed_torch
from conformance.model.records import Facts, Leg, ResultRow

#: A path of a file system: a folder below the root, a home, or a drive; not the path of a web address.
_PATH = re.compile(
    r"(?<![\w/:.@<>-])(?:file:/{1,3}|~\w*/|/|\\\\)(?:[\w.@+~=$%-]+[/\\])+[\w.@+~=$%-]*"
    r"|(?<![\w/:.@<>-])~\w*/[\w.@+~=$%-]+"
    r"|file:/{1,3}\S+"
    r"|(?<!\w)[A-Za-z]:\\[^\s'\",;)]*"
)
#: user@host and host names with dots, as they stand in errors of sockets and file systems.
_HOST = re.compile(
    r"(?<![\w/.@-])\w[\w.-]*@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+(?![\w/])|\b(?:\d{1,3}\.){3}\d{1,3}\b"
)
#: Keys of ``facts`` that a certificate keeps; whatever else a run knew of its machine goes.
_TORCH = ("version", "revision", "kind", "evidence", "abi", "debug", "wheel")
_BACKEND = ("module", "version", "digest", "abi")


def text(words: str) -> str:
    """A text without paths and host names."""
    return _HOST.sub("<host>", _PATH.sub("<path>", words))


def scrubbed(value: Any) -> Any:
    """A JSON value with every text in it scrubbed; keys are names that the suite gives."""
    if isinstance(value, str):
        return text(value)
    if isinstance(value, list):
        return [scrubbed(item) for item in value]
    if isinstance(value, dict):
        return {key: scrubbed(item) for key, item in value.items()}
    return value


def without_host(value: Any) -> Any:
    """A JSON value without the name of this machine, which only the machine itself can know to leave out."""
    names = {platform.node(), platform.node().partition(".")[0]} - {"", "localhost"}
    expression = re.compile("|".join(rf"(?<!\w){re.escape(name)}(?!\w)" for name in sorted(names)) or "(?!)")

    def walk(item: Any) -> Any:
        if isinstance(item, str):
            return expression.sub("<host>", item)
        if isinstance(item, list):
            return [walk(part) for part in item]
        if isinstance(item, dict):
            return {key: walk(part) for key, part in item.items()}
        return item

    return walk(value)


def leg(whole: Leg) -> Leg:
    """A leg as a bundle holds it."""
    kept = scrubbed(
        {key: value for key, value in whole.items() if key not in ("facts", "digests", "results")}
    )
    kept["digests"] = dict(whole["digests"])
    kept["facts"] = facts(whole["facts"])
    kept["results"] = [row(each) for each in whole["results"]]
    return cast("Leg", kept)


def row(whole: ResultRow) -> ResultRow:
    """A row of results: ids stay as they are, messages and notes are scrubbed."""
    kept = {
        key: scrubbed(value) if key in ("failures", "notes", "attempts") else value
        for key, value in whole.items()
    }
    return cast("ResultRow", kept)


def facts(whole: Facts) -> Facts:
    """The facts that a certificate keeps: versions, the kind of system, variables of the allow-list."""
    known: Mapping[str, object] = whole.get("torch", {})
    backend: Mapping[str, object] = whole.get("backend", {})
    variables = {str(key): str(value) for key, value in whole.get("environment", {}).items()}
    kept = {
        "python": text(str(whole.get("python", ""))),
        "platform": system(str(whole.get("platform", ""))),
        "torch": {key: known[key] for key in _TORCH if key in known},
        "backend": {key: backend[key] for key in _BACKEND if key in backend},
        "environment": installed_torch.recorded_variables(variables),
        "extra": list(whole.get("extra", ())),
    }
    return cast("Facts", kept)


def system(name_of_system: str) -> str:
    """``Linux x86_64``: neither the release of the kernel, which may be anybody's, nor anything else."""
    name = next(
        (word for word in ("Linux", "Darwin", "macOS", "Windows") if name_of_system.startswith(word)), "other"
    )
    machine = re.search(r"\b(x86_64|AMD64|aarch64|arm64|ppc64le|s390x|riscv64)\b", name_of_system)
    return f"{name} {machine.group(1)}" if machine else name
