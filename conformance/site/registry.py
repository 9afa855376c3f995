"""Load the registry of backends: one TOML file per backend."""

from __future__ import annotations

import dataclasses
import datetime
import re
import sys
from pathlib import Path

from conformance.errors import UsageError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(__file__).parent / "backends"
_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
_REPOSITORY = re.compile(r"[A-Za-z0-9_.-]{1,100}/[A-Za-z0-9_.-]{1,100}")
_WORKFLOW = re.compile(r"\.github/workflows/[A-Za-z0-9_.-]{1,100}\.ya?ml")
_KEYS = {
    "name",
    "link",
    "device",
    "repository",
    "workflow",
    "expires",
    "renamed_from",
    "simulated",
    "stand_in",
}


@dataclasses.dataclass(frozen=True)
class Backend:
    """A registered backend.

    Results from ``workflow`` in ``repository`` count as attested by the vendor until ``expires``.
    ``renamed_from`` are former ids, which result folders may still use. ``stand_in`` is true for a
    variant of another backend that exists to test this suite. Comparisons of backends ignore such variants.
    """

    id: str
    name: str
    link: str = ""
    device: str = ""
    repository: str = ""
    workflow: str = ""
    expires: datetime.date | None = None
    renamed_from: tuple[str, ...] = ()
    simulated: bool = False
    stand_in: bool = False


def load(folder: Path = FOLDER) -> dict[str, Backend]:
    """Return all backends by id.

    Raise UsageError with the file name and the error for an invalid file.
    """
    backends = {}
    for file in sorted(folder.glob("*.toml")):
        backends[file.stem] = _read_backend(file)
    former: dict[str, str] = {}
    for backend in backends.values():
        for name in backend.renamed_from:
            if name in backends or former.setdefault(name, backend.id) != backend.id:
                raise UsageError(
                    f"registry: the former id {name!r} of {backend.id} is in use; remove it from renamed_from"
                )
    if not backends:
        raise UsageError(f"registry {folder} contains no backend; add one as ID.toml")
    return backends


def _read_backend(file: Path) -> Backend:
    try:
        data = tomllib.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise UsageError(f"registry file {file.name} cannot be read ({error}); fix it") from None
    wrong = sorted(set(data) - _KEYS)
    if wrong:
        raise UsageError(
            f"registry file {file.name} has an unknown key {wrong[0]!r}; use {', '.join(sorted(_KEYS))}"
        )
    if not _ID.fullmatch(file.stem):
        raise UsageError(
            f"registry file {file.name}: use only lower-case letters, digits and dashes in the file name"
        )
    for key in ("name",) if data.get("simulated") else ("name", "link"):
        if not isinstance(data.get(key), str) or not data[key]:
            raise UsageError(f"registry file {file.name} has no {key}; add one")
    if "link" in data and not re.fullmatch(r"https://[^\s\"'<>]+", str(data["link"])):
        raise UsageError(
            f"registry file {file.name} has a link that is not an https address; give an https address"
        )
    if bool(data.get("repository")) != bool(data.get("workflow")):
        raise UsageError(
            f"registry file {file.name} has only one of repository and workflow; give both, or neither"
        )
    for key, pattern, form in (
        ("repository", _REPOSITORY, "OWNER/NAME"),
        ("workflow", _WORKFLOW, ".github/workflows/NAME.yml"),
    ):
        if key in data and not pattern.fullmatch(str(data[key])):
            raise UsageError(f"registry file {file.name} has a {key} that is not of the form {form}; fix it")
    if data.get("repository") and not data.get("device"):
        raise UsageError(
            f"registry file {file.name} has no device; add the device that its results must have"
        )
    expires = data.get("expires")
    if expires is not None and type(expires) is not datetime.date:
        raise UsageError(
            f"registry file {file.name} has an expiry that is not a date; write expires = 2027-01-31"
        )
    former = data.get("renamed_from", [])
    if not isinstance(former, list) or not all(isinstance(name, str) for name in former):
        raise UsageError(f"registry file {file.name} has a renamed_from that is not a list of ids; write one")
    return Backend(file.stem, **{**data, "renamed_from": tuple(former)})
