"""Whether torch is still the build that it was before other things were installed.

An ordinary requirement of another package can replace a fork silently: a fork's version is a pre-release, and
``torch>=2.13`` prefers a newer public one.
"""

from __future__ import annotations

import json
from pathlib import Path

from conformance.builds.describe import Build, files_changed, of_folder
from conformance.errors import UsageError


def record(build: Build, file: Path) -> None:
    """Write a description to a file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(build.to_json(), indent=1, sort_keys=True) + "\n")


def recorded(file: Path) -> Build:
    """What :func:`record` has written; UsageError where that is not to be read."""
    try:
        return Build.from_json(json.loads(file.read_text()))
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{file} cannot be read as a description of torch ({error}); record it again"
        ) from None


def swapped(before: Build, after: Build) -> list[str]:
    """Sentences that say in what torch is another one; none where it is the same."""
    found = []
    for what, old, new in (
        ("version", before.version, after.version),
        ("commit", before.git_version, after.git_version),
        ("kind", before.kind, after.kind),
        ("C++ ABI", before.abi, after.abi),
        ("list of files", before.record, after.record),
    ):
        if old != new:
            found.append(f"its {what} was {old} and is {new}")
    return found


def verdict(before: Build, site: Path, constraints: str | None = None) -> str | None:
    """One sentence where the torch in a folder is not the recorded one any more, None where it is."""
    after = of_folder(site)
    differences = swapped(before, after)
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


def constraint(installed: str, wheel: Path | None) -> str:
    """A line for a constraints file that keeps pip from replacing torch: by the version that pip knows."""
    if wheel is None:
        return f"torch=={installed}"
    if not wheel.is_file():
        raise UsageError(f"there is no wheel {wheel}; name the one that torch came from")
    return f"torch @ {wheel.absolute().as_uri()}"
