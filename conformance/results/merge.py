"""Merge results: collect the legs of several modes and builds, and join the shards of one leg."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal

from conformance.errors import UsageError
from conformance.expectations import entry_states
from conformance.model import seeds
from conformance.model.records import Leg
from conformance.results import exit_codes
from conformance.results.leg_summary import MAX_LISTED, LegSummary, expectation_report

#: ``_EVERYWHERE``: digests that must agree between all legs of a results file. ``_SAME_TARGET``: digests that
#: must agree between all legs of one target.
_EVERYWHERE = ("suite",)
_SAME_TARGET = ("target", "expectations")
#: Fields that must agree between the parts of one leg, besides all digests.
_SAME_LEG: tuple[Literal["level", "selection", "samples"], ...] = ("level", "selection", "samples")
#: Descriptions of options that the user did not set.
_NONE = {"selection": "the whole level"}
_ITSELF_INCOMPLETE = re.compile(r"shard [\d,]+/\d+ is incomplete")


def merge_legs(sources: Sequence[tuple[str, Leg]], *, assembled: bool = False) -> list[Leg]:
    """Return the legs of one results document. ``sources`` are pairs of a source name and a leg.

    Legs with the same name are shards of one leg and are joined. A leg with missing shards is incomplete, so
    that a lost CI job is noticed. If ``assembled`` is true, the legs come from a single run, and a leg with
    one shard is complete.

    Raises:
        UsageError: two legs were made by different suites, target files or expectations, or two shards of one
            leg were made with different options. The message names both sources and the difference.
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
    """Yield a description of each digest that differs. Digests that are absent from a leg, because the leg
    did not start, are skipped.
    """
    started = first["planned"] and leg["planned"]
    for name in digest_names:
        first_digest, digest = first["digests"].get(name), leg["digests"].get(name)
        if first_digest != digest and (started or (first_digest is not None and digest is not None)):
            both = f"{_short_digest(first_digest)} and {_short_digest(digest)}"
            yield f"their digests of {name} differ ({both})"


def _short_digest(text: str | None) -> str:
    """Return the first 12 characters of a SHA-256 digest; a version that serves as a digest is not cut."""
    return "none" if text is None else text[:12] if len(text) == 64 else text


def _merge_parts(parts: list[tuple[str, Leg]], *, assembled: bool) -> Leg:
    """Join the parts (shards) of one leg; return a single part unchanged if no other shard was planned."""
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
        run_seeds = [shard.get("seed", seeds.RELEASE_SEED) for shard in (first, part)]
        if run_seeds[0] != run_seeds[1]:
            option_differences.append(f"their seed differs ({run_seeds[0]} and {run_seeds[1]})")
        parities = [shard.get("parity", "strict") for shard in (first, part)]
        if parities[0] != parities[1]:
            option_differences.append(f"their parity differs ({' and '.join(parities)})")
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
            "the shards of one leg must be made with the same files and versions",
            description=description,
        )
    return _joined_leg(_present_shards(first["name"], parts), [leg for _, leg in parts])


def describe_option(key: str, value: object) -> str:
    """Return the value of a leg's option as text; ``the whole level`` if no selection was set."""
    return str(_NONE.get(key, value) if value is None else value)


def _present_shards(name: str, parts: list[tuple[str, Leg]]) -> tuple[list[int], int]:
    """Return the sorted shard numbers of the parts and the total count; raise UsageError for a duplicate
    shard.
    """
    source_of_shard: dict[int, str] = {}
    counts = set()
    for source, leg in parts:
        numbers, count = _shard_numbers(leg)
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
            f"the parts of leg {name} are shards {shard_texts}, with different total numbers of shards; "
            "rerun them with one total number"
        )
    return sorted(source_of_shard), counts.pop()


def _shard_numbers(leg: Leg) -> tuple[list[int], int]:
    """Return the shard numbers of a leg and the total count, from text such as ``1,3/4``."""
    numbers, _, count = leg["shard"].partition("/")
    return [int(number) for number in numbers.split(",")], int(count)


def missing_shards(leg: Leg) -> str | None:
    """Return a description of the shards that were missing in a merge.

    Return None if no shard is missing, or if the leg is a single shard that was never merged.
    """
    numbers, count = _shard_numbers(leg)
    description = _missing_shards_text(numbers, count)
    return description if description and _missing_shards_problem(description) in leg["problems"] else None


def _missing_shards_text(numbers: Sequence[int], count: int) -> str:
    names = [f"{number}/{count}" for number in range(1, count + 1) if number not in numbers]
    if len(names) < 2:
        return "".join(f"shard {name} is missing" for name in names)
    return f"shards {', '.join(names[:-1])} and {names[-1]} are missing"


def _missing_shards_problem(missing_text: str) -> str:
    # Do not change this text: ``missing_shards`` looks for it in results files that were written earlier.
    return f"{missing_text}; merge what is missing too"


def leg_without_merge_problem(leg: Leg) -> Leg:
    """Return a leg without the problem "shards are missing" that a merge added to it.

    The returned leg is complete if every shard that it contains is complete.
    """
    description = missing_shards(leg)
    if description is None:
        return leg
    problems = [problem for problem in leg["problems"] if problem != _missing_shards_problem(description)]
    whole = not any(map(_ITSELF_INCOMPLETE.fullmatch, problems))
    return {**leg, "problems": problems, "complete": whole}


def problems_without_expectations(leg: Leg) -> list[str]:
    """Return the problems of a leg, without the problems of its expectations."""
    of_expectations = leg["expectations"]["problems"] if "expectations" in leg else []
    return [problem for problem in leg["problems"] if problem not in of_expectations]


def _joined_leg(shards: tuple[list[int], int], parts: list[Leg]) -> Leg:
    numbers, count = shards
    legs = [leg_without_merge_problem(part) for part in parts]
    problems = [problem for leg in legs for problem in problems_without_expectations(leg)]
    for leg in legs:
        if not leg["complete"] and not any(map(_ITSELF_INCOMPLETE.fullmatch, leg["problems"])):
            problems.append(f"shard {leg['shard']} is incomplete")
    missing = _missing_shards_text(numbers, count)
    if missing:
        problems.append(_missing_shards_problem(missing))
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
            entry_states.merge_shard_records(
                leg["expectations"]["entries"] for leg in legs if "expectations" in leg
            ),
            joined["mode"],
            whole=complete
            and entry_states.is_unrestricted(joined)
            and all("expectations" in leg for leg in legs),
        ),
    )
    # A part may have been incomplete only because other shards were missing. Its exit code is then ignored,
    # and the code of its rows is recomputed in ``judgement``.
    both = zip(parts, legs, strict=True)
    codes = [part["exit"] for part, leg in both if leg["complete"] == part["complete"]]
    return {
        **joined,
        "started": min(leg["started"] for leg in legs),
        "seconds": round(sum(leg["seconds"] for leg in legs), 3),
        "workers": max(leg["workers"] for leg in legs),
        "left_out": judgement.left_out,
        "exit": exit_codes.worst_exit_code([*codes, judgement.exit_code]),
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
