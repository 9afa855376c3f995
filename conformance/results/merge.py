"""Putting results together: legs of several modes and builds side by side, shards of one leg into one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal

from conformance.errors import UsageError
from conformance.expectations import entry_states
from conformance.model.records import Leg
from conformance.results import exit_codes
from conformance.results.leg_summary import SHOWN, Judgement, report

#: Digests that agree between all legs of a file, and those that agree between legs of one target.
_EVERYWHERE = ("suite",)
_SAME_TARGET = ("target", "expectations")
#: Besides all digests, what must agree between the parts of one leg.
_SAME_LEG: tuple[Literal["level", "selection", "samples"], ...] = ("level", "selection", "samples")
#: What it means, in words, that something was not asked for.
_NONE = {"selection": "the whole level"}
_ITSELF_INCOMPLETE = re.compile(r"shard [\d,]+/\d+ is incomplete")


def merge(sources: Sequence[tuple[str, Leg]], *, assembled: bool = False) -> list[Leg]:
    """The legs of one results document, from legs and the names of where they come from.

    A leg of which shards are missing is incomplete, even if only one shard is there: a job that was lost must
    not go by unseen. If the legs of one run are ``assembled``, a shard is all that it was to be.

    Raises:
        UsageError: two legs were made by different suites, target files or expectations, or two parts of one
            leg do not belong together; the sentence names both and what differs.
    """
    groups: dict[tuple[str, str], list[tuple[str, Leg]]] = {}
    for source, leg in sources:
        for other_source, other in sources[:1]:
            _agree(other_source, other, source, leg, _EVERYWHERE, "use one version of the suite for both")
        groups.setdefault((leg["target"]["name"], leg["name"]), []).append((source, leg))
    first_of: dict[str, tuple[str, Leg]] = {}
    for source, leg in sources:
        other_source, other = first_of.setdefault(leg["target"]["name"], (source, leg))
        _agree(other_source, other, source, leg, _SAME_TARGET, "run both with the same files")
    return [_one(parts, assembled=assembled) for parts in groups.values()]


def _agree(
    first_source: str, first: Leg, source: str, leg: Leg, words: Sequence[str], advice: str, *, what: str = ""
) -> None:
    wrong = list(_differences(first, leg, words))
    if wrong:
        where = what or f"{first['name']} of {first_source} and {leg['name']} of {source}"
        raise UsageError(f"{where} cannot be merged, {' and '.join(wrong)}; {advice}")


def _differences(first: Leg, leg: Leg, words: Sequence[str]) -> Iterator[str]:
    """The differences in words. A leg that did not start has no digests that could differ."""
    started = first["planned"] and leg["planned"]
    for word in words:
        first_digest, digest = first["digests"].get(word), leg["digests"].get(word)
        if first_digest != digest and (started or (first_digest is not None and digest is not None)):
            yield f"their digests of {word} differ ({_short(first_digest)} and {_short(digest)})"


def _short(text: str | None) -> str:
    """The beginning of a digest; versions, which are digests too, in full."""
    return "none" if text is None else text[:12] if len(text) == 64 else text


def _one(parts: list[tuple[str, Leg]], *, assembled: bool) -> Leg:
    """One leg from its parts; the part itself if it is whole, or all that there should be."""
    source, first = parts[0]
    if len(parts) == 1 and (assembled or first["shard"] == "1/1"):
        return first
    for other_source, part in parts[1:]:
        what = f"the two parts of leg {first['name']}, {source} and {other_source},"
        # What was asked for comes first: with another level, the digest of its manifest is another one too.
        asked = [
            f"their {key} differs ({spoken(key, first[key])} and {spoken(key, part[key])})"
            for key in _SAME_LEG
            if first[key] != part[key]
        ]
        if asked:
            raise UsageError(f"{what} cannot be merged, {' and '.join(asked)}; leave one out")
        words = tuple(first["digests"])
        _agree(source, first, other_source, part, words, "they are results of different things", what=what)
    return _join(_shards(first["name"], parts), [leg for _, leg in parts])


def spoken(key: str, value: object) -> str:
    """An option of a leg in words: no selection is the whole level."""
    return str(_NONE.get(key, value) if value is None else value)


def _shards(name: str, parts: list[tuple[str, Leg]]) -> tuple[list[int], int]:
    """The numbers of the shards, and how many there are in all; UsageError if one appears twice."""
    seen: dict[int, str] = {}
    counts = set()
    for source, leg in parts:
        numbers, count = _numbers(leg)
        counts.add(count)
        for number in numbers:
            if number in seen and len(counts) == 1:
                raise UsageError(
                    f"shard {number}/{count} of leg {name} is in {seen[number]} and in {source}; "
                    "leave one out"
                )
            seen[number] = source
    if len(counts) > 1:
        words = " and ".join(leg["shard"] for _, leg in parts)
        raise UsageError(f"the parts of leg {name} are shards {words}; run it again in shards of one number")
    return sorted(seen), counts.pop()


def _numbers(leg: Leg) -> tuple[list[int], int]:
    """The numbers of the shards in a leg, and how many there are in all."""
    numbers, _, count = leg["shard"].partition("/")
    return [int(number) for number in numbers.split(",")], int(count)


def absent(leg: Leg) -> str | None:
    """The shards that were missing from a merge, in words; None also for a shard that was not merged."""
    numbers, count = _numbers(leg)
    words = _absent(numbers, count)
    return words if words and _problem(words) in leg["problems"] else None


def _absent(numbers: Sequence[int], count: int) -> str:
    names = [f"{number}/{count}" for number in range(1, count + 1) if number not in numbers]
    if len(names) < 2:
        return "".join(f"shard {name} is missing" for name in names)
    return f"shards {', '.join(names[:-1])} and {names[-1]} are missing"


def _problem(absent: str) -> str:
    return f"{absent}; merge what is missing too"


def alone(leg: Leg) -> Leg:
    """A leg as it was before a merge found that others are missing: its own results may be complete."""
    words = absent(leg)
    if words is None:
        return leg
    problems = [problem for problem in leg["problems"] if problem != _problem(words)]
    whole = not any(map(_ITSELF_INCOMPLETE.fullmatch, problems))
    return {**leg, "problems": problems, "complete": whole}


def own_problems(leg: Leg) -> list[str]:
    """The problems of a leg other than those of its expectations."""
    of_expectations = leg["expectations"]["problems"] if "expectations" in leg else []
    return [problem for problem in leg["problems"] if problem not in of_expectations]


def _join(shards: tuple[list[int], int], parts: list[Leg]) -> Leg:
    numbers, count = shards
    legs = [alone(part) for part in parts]
    problems = [problem for leg in legs for problem in own_problems(leg)]
    for leg in legs:
        if not leg["complete"] and not any(map(_ITSELF_INCOMPLETE.fullmatch, leg["problems"])):
            problems.append(f"shard {leg['shard']} is incomplete")
    missing = _absent(numbers, count)
    if missing:
        problems.append(_problem(missing))
    planned = sum(leg["planned"] for leg in legs)
    complete = not missing and all(leg["complete"] for leg in legs)
    if complete and not planned:
        problems.append("no shard has a result")
        complete = False
    joined: Leg = {**legs[0], "shard": "1/1" if not missing else f"{','.join(map(str, numbers))}/{count}"}
    judgement = Judgement(
        rows=[row for leg in legs for row in leg["results"]],
        left_out=sum(leg["left_out"] for leg in legs),
        missing={
            "count": sum(leg["missing"]["count"] for leg in legs),
            "first": [name for leg in legs for name in leg["missing"]["first"]][:SHOWN],
        },
        complete=complete,
        expectations=report(
            entry_states.join_records(
                leg["expectations"]["entries"] for leg in legs if "expectations" in leg
            ),
            joined["mode"],
            whole=complete
            and entry_states.is_unrestricted(joined)
            and all("expectations" in leg for leg in legs),
        ),
    )
    # The code of a part that lacked nothing but other shards is that of its rows, which are judged here.
    both = zip(parts, legs, strict=True)
    codes = [part["exit"] for part, leg in both if leg["complete"] == part["complete"]]
    return {
        **joined,
        "started": min(leg["started"] for leg in legs),
        "seconds": round(sum(leg["seconds"] for leg in legs), 3),
        "workers": max(leg["workers"] for leg in legs),
        "left_out": judgement.left_out,
        "exit": exit_codes.worst([*codes, judgement.exit]),
        "complete": complete,
        "problems": problems + judgement.expectations["problems"],
        "expectations": judgement.expectations,
        "missing": judgement.missing,
        "planned": planned,
        "totals": judgement.totals,
        "case_totals": judgement.case_totals,
        "cases": judgement.cases,
        "oracle": {
            "checked": sum(leg["oracle"]["checked"] for leg in legs),
            "differences": [line for leg in legs for line in leg["oracle"]["differences"]][:SHOWN],
        },
        "results": list(judgement.rows),
    }
