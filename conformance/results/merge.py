"""Merge results: legs of several modes and builds side by side, shards of one leg into one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal

from conformance.errors import UsageError
from conformance.expectations import entry_states
from conformance.model.records import Leg
from conformance.results import exit_codes
from conformance.results.leg_summary import MAX_LISTED, LegSummary, expectation_report

#: Digests that must agree between all legs of a file, and digests that must agree within one target.
_EVERYWHERE = ("suite",)
_SAME_TARGET = ("target", "expectations")
#: Fields that must agree between the parts of one leg, besides all digests.
_SAME_LEG: tuple[Literal["level", "selection", "samples"], ...] = ("level", "selection", "samples")
#: The meaning of an option that was not given.
_NONE = {"selection": "the whole level"}
_ITSELF_INCOMPLETE = re.compile(r"shard [\d,]+/\d+ is incomplete")


def merge_legs(sources: Sequence[tuple[str, Leg]], *, assembled: bool = False) -> list[Leg]:
    """Return the legs of one results document, from legs and the names of their sources.

    A leg without some of its shards is incomplete, even if only one shard is present: a lost job must be
    noticed. If the legs of one run are ``assembled``, a single shard is complete by itself.

    Raises:
        UsageError: two legs were made by different suites, target files or expectations, or two parts of one
            leg do not belong together. The message names both and the difference.
    """
    groups: dict[tuple[str, str], list[tuple[str, Leg]]] = {}
    for source, leg in sources:
        for earlier_source, earlier_leg in sources[:1]:
            _check_digests(
                earlier_source, earlier_leg, source, leg, _EVERYWHERE, "use one version of the suite for both"
            )
        groups.setdefault((leg["target"]["name"], leg["name"]), []).append((source, leg))
    first_of: dict[str, tuple[str, Leg]] = {}
    for source, leg in sources:
        earlier_source, earlier_leg = first_of.setdefault(leg["target"]["name"], (source, leg))
        _check_digests(earlier_source, earlier_leg, source, leg, _SAME_TARGET, "run both with the same files")
    return [_merge_parts(parts, assembled=assembled) for parts in groups.values()]


def _check_digests(
    first_source: str,
    first: Leg,
    source: str,
    leg: Leg,
    digest_names: Sequence[str],
    advice: str,
    *,
    description: str = "",
) -> None:
    wrong = list(_differences(first, leg, digest_names))
    if wrong:
        subject = description or f"{first['name']} of {first_source} and {leg['name']} of {source}"
        raise UsageError(f"{subject} cannot be merged, {' and '.join(wrong)}; {advice}")


def _differences(first: Leg, leg: Leg, digest_names: Sequence[str]) -> Iterator[str]:
    """Yield the differences in words. A leg that did not start lacks digests, which therefore cannot
    differ.
    """
    started = first["planned"] and leg["planned"]
    for name in digest_names:
        first_digest, digest = first["digests"].get(name), leg["digests"].get(name)
        if first_digest != digest and (started or (first_digest is not None and digest is not None)):
            both = f"{_short_digest(first_digest)} and {_short_digest(digest)}"
            yield f"their digests of {name} differ ({both})"


def _short_digest(text: str | None) -> str:
    """Return the beginning of a digest; versions, which are digests too, are returned in full."""
    return "none" if text is None else text[:12] if len(text) == 64 else text


def _merge_parts(parts: list[tuple[str, Leg]], *, assembled: bool) -> Leg:
    """Return one leg from its parts; the part itself if it is complete or the only one planned."""
    source, first = parts[0]
    if len(parts) == 1 and (assembled or first["shard"] == "1/1"):
        return first
    for other_source, part in parts[1:]:
        description = f"the two parts of leg {first['name']}, {source} and {other_source},"
        # Compare the options first: with a different level, the manifest digest differs as well.
        option_differences = [
            f"their {key} differs ({describe_option(key, first[key])} and {describe_option(key, part[key])})"
            for key in _SAME_LEG
            if first[key] != part[key]
        ]
        if option_differences:
            raise UsageError(
                f"{description} cannot be merged, {' and '.join(option_differences)}; leave one out"
            )
        digest_names = tuple(first["digests"])
        _check_digests(
            source,
            first,
            other_source,
            part,
            digest_names,
            "they are results of different things",
            description=description,
        )
    return _joined_leg(_shards(first["name"], parts), [leg for _, leg in parts])


def describe_option(key: str, value: object) -> str:
    """Return the value of a leg's option as text; no selection is the whole level."""
    return str(_NONE.get(key, value) if value is None else value)


def _shards(name: str, parts: list[tuple[str, Leg]]) -> tuple[list[int], int]:
    """Return the numbers of the shards and their total count; raise UsageError if one appears twice."""
    source_of_shard: dict[int, str] = {}
    counts = set()
    for source, leg in parts:
        numbers, count = _numbers(leg)
        counts.add(count)
        for number in numbers:
            if number in source_of_shard and len(counts) == 1:
                raise UsageError(
                    f"shard {number}/{count} of leg {name} is in {source_of_shard[number]} and in {source}; "
                    "leave one out"
                )
            source_of_shard[number] = source
    if len(counts) > 1:
        shard_texts = " and ".join(leg["shard"] for _, leg in parts)
        raise UsageError(
            f"the parts of leg {name} are shards {shard_texts}; run it again in shards of one number"
        )
    return sorted(source_of_shard), counts.pop()


def _numbers(leg: Leg) -> tuple[list[int], int]:
    """Return the numbers of the shards in a leg, and their total count."""
    numbers, _, count = leg["shard"].partition("/")
    return [int(number) for number in numbers.split(",")], int(count)


def missing_shards(leg: Leg) -> str | None:
    """Return a description of the shards that a merge lacked; None also for a shard that was not merged."""
    numbers, count = _numbers(leg)
    description = _missing_text(numbers, count)
    return description if description and _missing_problem(description) in leg["problems"] else None


def _missing_text(numbers: Sequence[int], count: int) -> str:
    names = [f"{number}/{count}" for number in range(1, count + 1) if number not in numbers]
    if len(names) < 2:
        return "".join(f"shard {name} is missing" for name in names)
    return f"shards {', '.join(names[:-1])} and {names[-1]} are missing"


def _missing_problem(absent: str) -> str:
    return f"{absent}; merge what is missing too"


def before_merge(leg: Leg) -> Leg:
    """Return a leg as it was before a merge found missing shards: its own results may be complete."""
    description = missing_shards(leg)
    if description is None:
        return leg
    problems = [problem for problem in leg["problems"] if problem != _missing_problem(description)]
    whole = not any(map(_ITSELF_INCOMPLETE.fullmatch, problems))
    return {**leg, "problems": problems, "complete": whole}


def own_problems(leg: Leg) -> list[str]:
    """Return the problems of a leg, without the problems of its expectations."""
    of_expectations = leg["expectations"]["problems"] if "expectations" in leg else []
    return [problem for problem in leg["problems"] if problem not in of_expectations]


def _joined_leg(shards: tuple[list[int], int], parts: list[Leg]) -> Leg:
    numbers, count = shards
    legs = [before_merge(part) for part in parts]
    problems = [problem for leg in legs for problem in own_problems(leg)]
    for leg in legs:
        if not leg["complete"] and not any(map(_ITSELF_INCOMPLETE.fullmatch, leg["problems"])):
            problems.append(f"shard {leg['shard']} is incomplete")
    missing = _missing_text(numbers, count)
    if missing:
        problems.append(_missing_problem(missing))
    planned = sum(leg["planned"] for leg in legs)
    complete = not missing and all(leg["complete"] for leg in legs)
    if complete and not planned:
        problems.append("no shard has a result")
        complete = False
    joined: Leg = {**legs[0], "shard": "1/1" if not missing else f"{','.join(map(str, numbers))}/{count}"}
    judgement = LegSummary(
        rows=[row for leg in legs for row in leg["results"]],
        left_out=sum(leg["left_out"] for leg in legs),
        missing={
            "count": sum(leg["missing"]["count"] for leg in legs),
            "first": [name for leg in legs for name in leg["missing"]["first"]][:MAX_LISTED],
        },
        complete=complete,
        expectations=expectation_report(
            entry_states.join_records(
                leg["expectations"]["entries"] for leg in legs if "expectations" in leg
            ),
            joined["mode"],
            whole=complete
            and entry_states.is_unrestricted(joined)
            and all("expectations" in leg for leg in legs),
        ),
    )
    # If a part lacked only other shards, its own exit code is ignored: its rows are judged here.
    both = zip(parts, legs, strict=True)
    codes = [part["exit"] for part, leg in both if leg["complete"] == part["complete"]]
    return {
        **joined,
        "started": min(leg["started"] for leg in legs),
        "seconds": round(sum(leg["seconds"] for leg in legs), 3),
        "workers": max(leg["workers"] for leg in legs),
        "left_out": judgement.left_out,
        "exit": exit_codes.worst_exit_code([*codes, judgement.exit]),
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
            "differences": [line for leg in legs for line in leg["oracle"]["differences"]][:MAX_LISTED],
        },
        "results": list(judgement.rows),
    }
