"""Plan the cells of a matrix. Each cell must produce results, or a refusal that the target file declares."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from conformance.builds import build_spec
from conformance.errors import UsageError
from conformance.plan import levels
from conformance.target.file import TargetFile

#: The kinds of builds that a matrix can request.
KINDS = ("public", "fork-like")
_MAKERS = "'conformance matrix plan', in a workflow 'conformance ci plan'"
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")


@dataclasses.dataclass(frozen=True)
class RequestedBuild:
    """A requested build of a matrix: a specification (:mod:`conformance.builds.build_spec`), kind and level.

    A ``fork-like`` build is relabelled after the download.
    """

    spec: str
    kind: str = "public"
    level: str | None = None

    @classmethod
    def parse(cls, text: str) -> RequestedBuild:
        """Parse ``SPEC[:KIND[:LEVEL]]``, such as ``2.6.0:fork-like:core``.

        Raise UsageError for any other text.
        """
        spec, kind, level = text, "public", None
        for kind_name in KINDS:
            head, separator, tail = text.rpartition(f":{kind_name}")
            if separator and (not tail or tail.startswith(":")):
                spec, kind, level = head, kind_name, tail[1:] or None
        if spec == text and ":" in spec and "://" not in spec and not spec.endswith(".whl"):
            raise UsageError(
                f"build {text!r} has no valid kind after the colon; write SPEC[:KIND[:LEVEL]]; KIND is "
                f"one of {', '.join(KINDS)}"
            )
        build_spec.parse_build_spec(spec)
        if level is not None:
            levels.check_level(level)
        return cls(spec, kind, level)

    @property
    def name(self) -> str:
        """The name of the build, valid as the name of a folder and an artifact."""
        stem = Path(self.spec.partition("#")[0]).name.removesuffix(".whl") if "/" in self.spec else self.spec
        return f"{re.sub(r'[^A-Za-z0-9._+-]', '-', stem)}-{self.kind}"[:80]


@dataclasses.dataclass(frozen=True)
class Cell:
    """A cell of a matrix.

    ``expect`` is ``results``, or ``refusal`` if the target declares that the mode does not run on this kind
    of build. ``why`` names the declaration. ``says`` is a text that the refusal must contain.
    """

    id: str
    target: str
    build: str
    spec: str
    kind: str
    mode: str
    level: str
    expect: str = "results"
    why: str = ""
    says: str = ""

    def to_json(self) -> dict[str, str]:
        """Return the cell as a JSON object of strings for workflows."""
        return dataclasses.asdict(self)


def plan_cells(
    target: TargetFile, builds: Sequence[RequestedBuild], modes: Sequence[str], level: str
) -> list[Cell]:
    """Return one cell for each build and mode.

    Raise UsageError for a mode that the target does not have, or a duplicate build or mode.
    """
    levels.check_level(level)
    for mode in modes:
        target.check_mode(mode)
    if len(set(modes)) != len(modes):
        raise UsageError(f"modes {','.join(modes)} contain a duplicate; give each mode once")
    names = [build.name for build in builds]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"build {name} is a duplicate; give each build once")
    planned = []
    for build in builds:
        for mode in modes:
            needed = target.mode_builds.get(mode, "any")
            refuses = needed not in ("any", build.kind)
            planned.append(
                Cell(
                    id=f"{build.name}-{mode}",
                    target=target.name,
                    build=build.name,
                    spec=build.spec,
                    kind=build.kind,
                    mode=mode,
                    level=build.level or level,
                    expect="refusal" if refuses else "results",
                    why=f"{target.path.name}: mode {mode} is for {needed} builds" if refuses else "",
                )
            )
    return planned


def read_plan(file: Path) -> list[Cell]:
    """Read the cells of a plan file (see :func:`plan_json`). Raise UsageError if the file is not valid."""
    try:
        data: Any = json.loads(file.read_text())
        planned = [Cell(**entry) for entry in data["include"]]
    except OSError as error:
        raise UsageError(f"plan {file} cannot be read ({error.strerror}); make one with {_MAKERS}") from None
    except (ValueError, TypeError, KeyError, RecursionError):
        raise UsageError(f"{file} is not a plan of a matrix; make one with {_MAKERS}") from None
    if not planned or len({cell.id for cell in planned}) != len(planned):
        raise UsageError(f"{file} has no cell, or a duplicate id; make a new plan")
    for cell in planned:
        texts = dataclasses.asdict(cell).values()
        if not all(isinstance(text, str) for text in texts) or not _ID.fullmatch(cell.id):
            raise UsageError(f"{file} contains a malformed cell ({str(cell)[:80]}); make a new plan")
    return planned


def plan_json(planned: Sequence[Cell]) -> str:
    """Return the cells as JSON for the key ``strategy.matrix`` of a workflow."""
    return json.dumps({"include": [cell.to_json() for cell in planned]})
