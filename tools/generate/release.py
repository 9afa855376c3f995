"""``python -m tools.generate release [MINOR]``: add the installed torch to the manifest, and print what a
person must decide about this release.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from conformance.builds.describe import Build, describe_environment
from conformance.builds.known_builds import known_builds
from conformance.errors import UsageError
from conformance.expectations import entries
from conformance.model.vocabulary import MODES
from conformance.plan.levels import manifest as manifests
from conformance.plan.levels.manifest import Manifest, Minor
from tools.generate import manifest as manifest_generator

ROOT = Path(__file__).resolve().parents[2]
KERNEL_TABLES = ROOT / "reference_backend" / "tests" / "kernels" / "tables"
#: Files that name the releases of CI.
CI_FILES = (
    "sessions/releases.py",
    "sessions/wheel.py",
    "sessions/matrix.py",
    ".github/workflows/nightly.yml",
    "docker/docker-bake.json",
)
#: Maximum number of names in one line.
SHOWN = 8


def main(arguments: Sequence[str]) -> int:
    """Write the manifest with the installed release, and print the decisions. Always return 0.

    Raises:
        UsageError: the requested minor version is not the installed minor version.
    """
    minor = manifests.minor_of(torch.__version__)
    for requested in arguments:
        if manifests.minor_of(requested) != minor:
            raise UsageError(
                f"torch {torch.__version__} is installed, so release {requested} cannot be added; install "
                f"torch {requested} in this environment, or omit {requested}"
            )
    before = manifests.load() if manifests.PATH.is_file() else None
    after = manifest_generator.generate(before, minor)
    manifests.PATH.write_text(manifest_generator.manifest_text(after))
    print(f"wrote {manifests.PATH.relative_to(ROOT)}")
    for line in difference_lines(after, minor):
        print(line)
    print("to decide:")
    previous = max((listed for listed in after.minors if listed < minor), default=(0, 0))
    for number, decision in enumerate(decision_lines(minor, previous, describe_environment()), 1):
        print(f"{number}. {decision}")
    return 0


def difference_lines(manifest: Manifest, minor: Minor) -> Iterator[str]:
    """Yield lines that compare the results on a minor with the results on the previous minor of the manifest.

    If the manifest has no previous minor, the first minor is used instead.
    """
    compared_minors = [listed for listed in manifest.minors if listed != minor]
    if not compared_minors:
        return
    nearest = max((listed for listed in compared_minors if listed < minor), default=min(compared_minors))
    for mode in MODES:
        results, compared = (
            {f"{s.name}/{subject}@{dtype}" for s, subject, dtype in manifest.ids(which, mode)}
            for which in (minor, nearest)
        )
        if results != compared:
            yield (
                f"{mode}: {len(results)} results; compared with torch {manifests.minor_text(nearest)}, "
                f"{_subject_counts_text(results - compared)} added and "
                f"{_subject_counts_text(compared - results)} removed"
            )


def _subject_counts_text(ids: set[str]) -> str:
    """Return a text with the number of results and the subjects that have most of these results."""
    subjects = Counter(name.partition("/")[2].rpartition("@")[0] for name in ids)
    most = ", ".join(subject for subject, _ in subjects.most_common(SHOWN))
    more = f" and {len(subjects) - SHOWN} other subjects" if len(subjects) > SHOWN else ""
    return f"{len(ids)} (of {most}{more})" if ids else "0"


def decision_lines(minor: Minor, previous: Minor, build: Build) -> Iterator[str]:
    """Yield the decisions that a person must make for the release, each with a command or a file.

    ``previous`` is the nearest earlier minor of the manifest.
    """
    text = manifests.minor_text(minor)
    if build.record is not None and build.record not in known_builds():
        yield (
            f"Is this build public? If so, add record {build.record} to conformance/builds/known_builds.toml."
        )
    expired = [
        f"{entry.id} ({entry.source})"
        for target in manifests.OWN_TARGETS
        for entry in entries.load_expectations(entries.expectation_files(target)).entries
        if entry.until.startswith("torch ")
        and previous < manifests.minor_of(entry.until.removeprefix("torch ")) <= minor
    ]
    if expired:
        more = f", and {len(expired) - SHOWN} more" if len(expired) > SHOWN else ""
        yield (
            f"{len(expired)} expected failures expire with this release: {', '.join(expired[:SHOWN])}{more}. "
            "Run them (conformance run --target cpu -k SUBJECT). If a result still fails, set a later "
            "release in the key 'until' of its entry, and describe the run in the entry's section of "
            "docs/torch-bugs.md."
        )
    yield (
        "Run 'conformance run --target cpu --mode eager,compile,distributed --level full'. Each failure is a "
        "bug of torch (an expectation), a change of PyTorch's documentation (the property), or a function "
        "that an older release lacks (conformance/plan/release_exclusions.toml)."
    )
    if not (KERNEL_TABLES / f"torch-{text}.txt").is_file():
        yield (
            f"The reference device has no kernel table for torch {text}. To support the release, build the "
            "device and run 'python reference_backend/tests/kernels/test_kernel_table.py'."
        )
    pattern = re.compile(rf"(?<![\d.]){re.escape(text)}\.")
    without = [name for name in CI_FILES if not pattern.search((ROOT / name).read_text())]
    if without:
        yield f"Does CI run torch {text}? These files do not name it: {', '.join(without)}."
