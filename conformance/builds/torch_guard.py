"""Check that torch is still the build that it was before other things were installed.

An ordinary requirement of another package can replace a fork silently: a fork's version is a pre-release, and
``torch>=2.13`` prefers a newer public one.
"""

from __future__ import annotations

import json
from pathlib import Path

from conformance.builds.describe import Build, describe_folder, files_changed
from conformance.errors import UsageError


def write_record(build: Build, file: Path) -> None:
    """Write the description of a build to a file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(build.to_json(), indent=1, sort_keys=True) + "\n")


def read_record(file: Path) -> Build:
    """Read the description that :func:`record` wrote; UsageError if the file is unreadable."""
    try:
        return Build.from_json(json.loads(file.read_text()))
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{file} cannot be read as a description of torch ({error}); record it again"
        ) from None


def differences_between(before: Build, after: Build) -> list[str]:
    """List the differences of two builds in words; an empty list if they are the same."""
    differences = []
    for aspect, old, new in (
        ("version", before.version, after.version),
        ("commit", before.git_version, after.git_version),
        ("kind", before.kind, after.kind),
        ("C++ ABI", before.abi, after.abi),
        ("list of files", before.record, after.record),
    ):
        if old != new:
            differences.append(f"its {aspect} was {old} and is {new}")
    return differences


def torch_problem(before: Build, site: Path, constraints: str | None = None) -> str | None:
    """Return one sentence if the torch in a folder is no longer the recorded one, else None."""
    after = describe_folder(site)
    differences = differences_between(before, after)
    if differences:
        pin = (
            f"install with '--constraint {constraints}'" if constraints else "install with a constraints file"
        )
        return (
            f"torch was swapped: it was {before.name()} and is {after.name()} now "
            f"({'; '.join(differences)}); {pin} and start over"
        )
    changed = files_changed(site)
    if changed:
        return (
            f"files of torch were changed since its wheel was installed ({', '.join(changed[:3])}, "
            f"{len(changed)} in all); install torch {before.version} again"
        )
    return None


def constraint_line(installed: str, wheel: Path | None) -> str:
    """Write a line of a constraints file that keeps pip from replacing torch, by the version that pip
    knows.
    """
    if wheel is None:
        return f"torch=={installed}"
    if not wheel.is_file():
        raise UsageError(f"{wheel} does not exist; name the wheel that torch was installed from")
    return f"torch @ {wheel.absolute().as_uri()}"
