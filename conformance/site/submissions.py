"""Read and check the submitted runs in the results folder. An invalid run is refused with a reason.

Submissions are untrusted data and are never executed.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
from collections.abc import Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from conformance.certificate import leg_status
from conformance.errors import UsageError
from conformance.model.records import Leg, TargetRecord
from conformance.results import document as results
from conformance.results import scrub
from conformance.site import provenance
from conformance.site.build_columns import Build
from conformance.site.provenance import Provenance
from conformance.site.registry import Backend

#: The maximum size of a results file in bytes.
LARGEST = 96 << 20
#: The maximum number of runs of a backend. The newest runs by name are read.
MOST = 500
#: The maximum numbers of legs and of builds of torch in a vendor's results file. Each build is a column of
#: the matrix.
LEGS, BUILDS = 40, 8
#: The maximum number of results of a vendor's leg: more than twice the results of level full.
RESULTS = 150_000
#: The maximum number of patterns that a file declares unsupported, the maximum length of a pattern, and the
#: maximum number of stars in it. The limits exist because every pattern is compared with every result.
PATTERNS, LENGTH, STARS = 400, 200, 8
#: The maximum time between the end of the current day and the start of a run: the run's clock may be ahead.
_AHEAD = datetime.timedelta(hours=26)


@dataclasses.dataclass(frozen=True)
class Submission:
    """One leg of a submitted run, with its provenance and its folder.

    ``started`` comes from the clock of the machine that ran the suite, but is never later than the time of
    receipt.
    """

    backend: Backend
    run: str
    folder: Path
    leg: Leg
    provenance: Provenance
    started: datetime.datetime


@dataclasses.dataclass(frozen=True)
class RefusedRun:
    """A refused run, ``BACKEND/RUN``, and the reason."""

    place: str
    why: str


def read_submissions(
    folder: Path,
    registry: Mapping[str, Backend],
    today: datetime.date,
    refused: list[RefusedRun],
    own_repository: str = "",
    known_runs: Container[str] = (),
) -> Iterator[list[Submission]]:
    """Yield the legs of each run in ``folder/BACKEND/RUN``, with one run in memory at a time.

    Args:
        folder: the results folder; UsageError if it does not exist.
        registry: the registered backends by id.
        today: the current day; a run that started later is refused.
        refused: the list to which refused runs are appended.
        own_repository: the repository of this project.
        known_runs: the runs to skip, as ``BACKEND/RUN``.
    """
    for backend, run in run_folders(folder, registry, refused):
        if run_label(run) in known_runs:
            continue
        try:
            yield list(_legs_of_run(run, backend, today, own_repository))
        except UsageError as error:
            refused.append(RefusedRun(run_label(run), printable_text(str(error).replace(str(run), ""), 500)))
        except Exception as error:  # an error in one submission must not prevent the display of the others
            refused.append(RefusedRun(run_label(run), f"it cannot be read ({type(error).__name__})"))


def run_folders(
    folder: Path, registry: Mapping[str, Backend], refused: list[RefusedRun] | None = None
) -> Iterator[tuple[Backend, Path]]:
    """Yield the backend and the folder of each run in ``folder/BACKEND/RUN``, the newest by name first.

    Invalid entries are appended to ``refused``. Raise UsageError if the folder does not exist.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder} does not exist; give the folder with BACKEND/RUN/results.json")
    refused = [] if refused is None else refused
    former = {name: backend for backend in registry.values() for name in backend.renamed_from}
    for entry in sorted(folder.iterdir()):
        name = printable_text(entry.name)
        if name.startswith(".") or (entry.is_file() and not entry.is_symlink()):
            continue  # other files of the results repository
        backend = registry.get(entry.name) or former.get(entry.name)
        if backend is None or entry.is_symlink():
            why = "it is a link" if entry.is_symlink() else "no backend of the registry has this id"
            refused.append(RefusedRun(name, why))
            continue
        of_backend = sorted((path for path in entry.iterdir() if not path.name.startswith(".")), reverse=True)
        refused += [RefusedRun(run_label(run), "there are too many runs") for run in of_backend[MOST:]]
        yield from ((backend, run) for run in of_backend[:MOST])


def run_label(run: Path) -> str:
    """Return the printable name of a run, ``BACKEND/RUN``."""
    return f"{printable_text(run.parent.name)}/{printable_text(run.name)}"


def printable_text(text: str, most: int = 120) -> str:
    """Return untrusted text without private paths and unprintable characters, cut to ``most`` characters."""
    return scrub.scrub_text(text.encode("utf-8", "replace").decode("utf-8", "replace"))[:most]


def _legs_of_run(
    run: Path, backend: Backend, today: datetime.date, own_repository: str
) -> Iterator[Submission]:
    if run.is_symlink() or not run.is_dir():
        raise UsageError("it is a link or not a folder")
    file = run / "results.json"
    if file.is_symlink() or not file.is_file():
        raise UsageError("it has no regular file results.json")
    document = results.read_results(file, limit=LARGEST)
    json.dumps(document, ensure_ascii=False).encode()  # raises an error for lone surrogates
    origin = provenance.read_provenance(run / "provenance.json", backend, today, own_repository)
    if origin.channel != "our-workflow":
        _check_size(document["legs"])
    if not document["legs"]:
        raise UsageError("it has no legs")
    torches_and_modes = set()
    for leg in document["legs"]:
        started = _parse_time(leg["started"])
        end_of_today = datetime.datetime.combine(today, datetime.time.max, datetime.timezone.utc)
        if started > end_of_today + _AHEAD:
            raise UsageError(f"it started on {started.date()}, which is in the future")
        if leg["selection"] is not None or leg["shard"] != "1/1" or leg["left_out"]:
            raise UsageError(f"leg {leg['mode']} is a selection or a shard; submit a complete run")
        if not all(isinstance(leg["facts"].get(fact, {}), dict) for fact in ("torch", "backend")):
            raise UsageError(f"facts.torch or facts.backend of leg {leg['mode']} is not an object")
        if not isinstance(leg["facts"].get("extra", []), list):
            raise UsageError(f"facts.extra of leg {leg['mode']} is not a list")
        _check_device(backend, leg["target"])
        leg_status.leg_status(leg)  # an exception here refuses only this run
        if (leg["torch"], leg["mode"]) in torches_and_modes:
            raise UsageError(f"two legs have mode {leg['mode']} on one build")
        torches_and_modes.add((leg["torch"], leg["mode"]))
        # The clock of the machine is untrusted: a run cannot start after its receipt.
        yield Submission(backend, printable_text(run.name), run, leg, origin, min(started, origin.received))


def _check_size(legs: Sequence[Leg]) -> None:
    """Raise UsageError for a file with too many legs, builds, results or patterns."""
    if len(legs) > LEGS:
        raise UsageError(f"it has {len(legs)} legs; at most {LEGS} are accepted")
    builds = {Build.from_leg(leg) for leg in legs}
    if len(builds) > BUILDS:
        raise UsageError(f"it has {len(builds)} builds of torch; at most {BUILDS} are accepted")
    for leg in legs:
        if len(leg["results"]) > RESULTS:
            raise UsageError(
                f"leg {leg['mode']} has {len(leg['results'])} results; at most {RESULTS} are accepted"
            )
    patterns = {pattern for leg in legs for pattern in _declared_unsupported(leg)}
    if len(patterns) > PATTERNS:
        raise UsageError(f"it declares {len(patterns)} patterns unsupported; at most {PATTERNS} are accepted")
    for pattern in patterns:
        if len(pattern) > LENGTH or pattern.count("*") > STARS:
            raise UsageError(
                f"it declares {pattern[:40]!r} unsupported; at most {LENGTH} characters with {STARS} stars "
                "are accepted"
            )


def _declared_unsupported(leg: Leg) -> Mapping[str, Any]:
    declared = leg["target"].get("declared")
    unsupported = declared.get("unsupported", {}) if isinstance(declared, dict) else {}
    return unsupported if isinstance(unsupported, dict) else {}


def _check_device(backend: Backend, target: TargetRecord) -> None:
    if target["device"] != backend.device:
        raise UsageError(
            f"its device is {target['device']!r}, but the device of {backend.id} is {backend.device!r}"
        )
    if bool(target.get("simulated")) != backend.simulated:
        phrases = ("is simulated", "is not") if target.get("simulated") else ("is not simulated", "is")
        raise UsageError(f"its device {phrases[0]}, but the device of {backend.id} {phrases[1]}")


def _parse_time(text: str) -> datetime.datetime:
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"its start {text[:40]!r} is not a time") from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=datetime.timezone.utc)
