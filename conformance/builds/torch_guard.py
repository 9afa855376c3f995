"""Check that the installation of other packages did not replace torch.

A requirement such as ``torch>=2.13`` can silently replace a fork: the version of a fork is a pre-release, and
pip prefers a newer public release.
"""

from __future__ import annotations

import json
from pathlib import Path

from conformance.builds.describe import Build, describe_folder, files_differing_from_record
from conformance.errors import UsageError


def write_record(build: Build, file: Path) -> None:
    """Write the description of a build to a file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(build.to_json(), indent=1, sort_keys=True) + "\n")


def read_record(file: Path) -> Build:
    """Read the description that :func:`write_record` wrote. Raise UsageError if the file is invalid."""
    try:
        return Build.from_json(json.loads(file.read_text()))
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{file} cannot be read as a description of torch ({error}); record it again"
        ) from None


def differences_between(before: Build, after: Build) -> list[str]:
    """Return the differences between two builds as texts. The list is empty if the builds are equal."""
    differences = []
    for aspect, old, new in (
        ("version", before.version, after.version),
        ("commit", before.git_version, after.git_version),
        ("kind", before.kind, after.kind),
        ("C++ ABI", before.abi, after.abi),
        ("list of files", before.record, after.record),
    ):
        if old != new:
            differences.append(f"the {aspect} of torch was {old} and is {new}")
    return differences


def torch_change_problem(before: Build, site: Path, constraints: str | None = None) -> str | None:
    """Return an error sentence if the torch in a folder differs from the recorded build, else None."""
    after = describe_folder(site)
    differences = differences_between(before, after)
    if differences:
        pin = (
            f"install with '--constraint {constraints}'" if constraints else "install with a constraints file"
        )
        return (
            f"torch was replaced: it was {before.name()} and is {after.name()} now "
            f"({'; '.join(differences)}); {pin} and start over"
        )
    changed = files_differing_from_record(site)
    if changed:
        return (
            f"files of torch were changed since its wheel was installed ({', '.join(changed[:3])}, "
            f"{len(changed)} in all); install torch {before.version} again"
        )
    return None


def pip_constraint_line(installed: str, wheel: Path | None) -> str:
    """Return the line of a constraints file that prevents pip from replacing torch.

    ``installed`` is the version in pip's metadata.
    """
    if wheel is None:
        return f"torch=={installed}"
    if not wheel.is_file():
        raise UsageError(f"{wheel} does not exist; give the wheel that torch was installed from")
    return f"torch @ {wheel.absolute().as_uri()}"
