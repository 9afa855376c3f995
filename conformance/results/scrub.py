"""Remove host names, paths, users and unlisted variables from the data of a certificate."""

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
#: ``user@host`` and IPv4 addresses, as in error messages of sockets and file systems.
_HOST = re.compile(
    r"(?<![\w/.@-])\w[\w.-]*@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+(?![\w/])|\b(?:\d{1,3}\.){3}\d{1,3}\b"
)
#: Keys of ``facts`` that a certificate keeps. All other facts about the machine are removed.
_TORCH = ("version", "revision", "kind", "evidence", "abi", "debug", "wheel")
_BACKEND = ("module", "version", "digest", "abi")


def scrub_text(raw_text: str) -> str:
    """Return a text without file system paths, ``user@host`` names and IP addresses."""
    return _HOST.sub("<host>", _PATH.sub("<path>", raw_text))


def scrub_value(value: Any) -> Any:
    """Return a JSON value with every string in it scrubbed. Keys are unchanged, because the suite defines the
    keys.
    """
    if isinstance(value, str):
        return scrub_text(value)
    if isinstance(value, list):
        return [scrub_value(item) for item in value]
    if isinstance(value, dict):
        return {key: scrub_value(item) for key, item in value.items()}
    return value


def without_host_name(value: Any) -> Any:
    """Return a JSON value in which the host name of this machine is replaced by ``<host>``."""
    names = {platform.node(), platform.node().partition(".")[0]} - {"", "localhost"}
    expression = re.compile("|".join(rf"(?<!\w){re.escape(name)}(?!\w)" for name in sorted(names)) or "(?!)")

    def replace_names(item: Any) -> Any:
        if isinstance(item, str):
            return expression.sub("<host>", item)
        if isinstance(item, list):
            return [replace_names(part) for part in item]
        if isinstance(item, dict):
            return {key: replace_names(part) for key, part in item.items()}
        return item

    return replace_names(value)


def scrub_leg(original: Leg) -> Leg:
    """Return a copy of a leg without paths, host names and unlisted variables."""
    scrubbed_leg = scrub_value(
        {key: value for key, value in original.items() if key not in ("facts", "digests", "results")}
    )
    scrubbed_leg["digests"] = dict(original["digests"])
    scrubbed_leg["facts"] = scrub_facts(original["facts"])
    scrubbed_leg["results"] = [scrub_row(each) for each in original["results"]]
    return cast("Leg", scrubbed_leg)


def scrub_row(original: ResultRow) -> ResultRow:
    """Return a scrubbed result row: messages and notes are scrubbed, ids are unchanged."""
    scrubbed_row = {
        key: scrub_value(value) if key in ("failures", "notes", "attempts") else value
        for key, value in original.items()
    }
    return cast("ResultRow", scrubbed_row)


def scrub_facts(original: Facts) -> Facts:
    """Return the facts that a certificate contains: versions, the operating system, and the environment
    variables of the allow-list.
    """
    torch_facts: Mapping[str, object] = original.get("torch", {})
    backend: Mapping[str, object] = original.get("backend", {})
    variables = {str(key): str(value) for key, value in original.get("environment", {}).items()}
    scrubbed_facts = {
        "python": scrub_text(str(original.get("python", ""))),
        "platform": system_name(str(original.get("platform", ""))),
        "torch": {key: torch_facts[key] for key in _TORCH if key in torch_facts},
        "backend": {key: backend[key] for key in _BACKEND if key in backend},
        "environment": installed_torch.environment_variables_to_record(variables),
        "extra": list(original.get("extra", ())),
    }
    return cast("Facts", scrubbed_facts)


def system_name(platform_text: str) -> str:
    """Return the operating system and the machine architecture, such as ``Linux x86_64``, without the
    release.
    """
    name = next(
        (
            system_prefix
            for system_prefix in ("Linux", "Darwin", "macOS", "Windows")
            if platform_text.startswith(system_prefix)
        ),
        "other",
    )
    machine = re.search(r"\b(x86_64|AMD64|aarch64|arm64|ppc64le|s390x|riscv64)\b", platform_text)
    return f"{name} {machine.group(1)}" if machine else name
