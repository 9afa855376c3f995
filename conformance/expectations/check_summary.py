"""The coverage of a check of expectations: an entry counts as true only if a whole run decided so."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping, Sequence

from conformance.expectations import entry_states
from conformance.expectations.entries import Book, Expectation
from conformance.expectations.index import Index
from conformance.model.records import Leg


@dataclasses.dataclass(frozen=True)
class EntryCounts:
    """Entries by what is known of them.

    In all modes of a ``true`` entry, results fail as it says. An entry is ``unclear`` if a whole run left
    that open. Of the rest of ``here``, no whole run covers some modes (``missing``, of ``modes``). Entries
    ``elsewhere`` apply to other versions of torch only.
    """

    true: int
    unclear: int
    here: int
    elsewhere: int
    missing: tuple[str, ...]
    modes: tuple[str, ...]


def look(
    book: Book,
    plans: Mapping[str, frozenset[str]],
    legs: Sequence[Leg],
    versions: Sequence[str],
    today: datetime.date,
) -> EntryCounts:
    """Hold the entries of a target against its legs, of which only whole ones decide."""
    indices = {mode: Index(ids) for mode, ids in plans.items()}
    shown = [_shown(book, leg, today) for leg in legs if entry_states.decides(leg)]
    missing: set[str] = set()
    true = unclear = here = 0
    for entry in book.entries:
        spoken = entry.modes or tuple(plans)
        if not any(entry.speaks_of(mode, version) for mode in spoken for version in versions):
            continue
        here += 1
        answers = {
            mode: [failing[entry] for where, failing in shown if where == mode and entry in failing]
            for mode in spoken
            if mode in plans and indices[mode].matches(entry.id)
        }
        unseen = {mode for mode, words in answers.items() if not words}
        if unseen:
            missing |= unseen
        elif answers and all(all(words) for words in answers.values()):
            true += 1
        else:
            unclear += 1
    return EntryCounts(
        true,
        unclear,
        here,
        len(book.entries) - here,
        tuple(mode for mode in plans if mode in missing),
        tuple(plans),
    )


def _shown(book: Book, leg: Leg, today: datetime.date) -> tuple[str, dict[Expectation, bool]]:
    """The mode of a leg, and whether something fails as each entry says that speaks of it."""
    rows = {row["id"]: row for row in leg["results"]}
    spoken = [entry for entry in book.entries if entry.speaks_of(leg["mode"], leg["torch"])]
    records = entry_states.records(rows, book, leg["mode"], leg["torch"], today)
    return leg["mode"], {entry: record["fails"] > 0 for entry, record in zip(spoken, records, strict=True)}


def summary(looked: EntryCounts, problems: int) -> str:
    """The last line of a check: how many entries there are, and what is known of them."""
    total = looked.here + looked.elsewhere
    if not total:
        return "there are no entries"
    parts = [f"{total} entries"]
    if problems:
        parts[0] += f", {problems} problems"
    elif looked.true == total:
        return f"{total} entries are true"
    elif looked.here:
        parts[0] += ": names, modes and days are right"
        parts[0] += f", and {looked.true} are true" if looked.true else ""
    if looked.missing:
        which = "the others" if looked.true or looked.unclear or problems else "they"
        modes = f" in {', '.join(looked.missing)}" if looked.missing != looked.modes else ""
        parts.append(f"whether {which} are stale only a whole run at the level full{modes} can tell")
    if looked.unclear and not problems:
        parts.append(
            f"of {looked.unclear} the run decided nothing, for what they match came to no pass and no failure"
        )
    if looked.elsewhere:
        parts.append(f"{looked.elsewhere} speak of other versions of torch and were not looked at")
    return "; ".join(parts)
