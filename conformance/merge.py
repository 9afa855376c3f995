"""Putting results together: legs of several modes and builds side by side, shards of one leg into one."""

from __future__ import annotations

import collections
from collections.abc import Iterator, Sequence
from typing import Any

from conformance import results
from conformance.errors import UsageError
from conformance.expectation import judge
from conformance.model import Verdict

Leg = dict[str, Any]

#: What must agree wherever two legs stand in one file, and what only where they are the same target.
_EVERYWHERE = ("suite",)
_SAME_TARGET = ("target", "expectations")
#: Besides all digests, what must agree between the parts of one leg.
_SAME_LEG = ("level", "selection", "samples")


def merge(found: Sequence[tuple[str, Leg]]) -> list[Leg]:
    """The legs of one results document, from legs and the names of where they come from.

    Raises:
        UsageError: two legs were made by different suites, target files or expectations, or two parts of one
            leg do not belong together; the sentence names both and what differs.
    """
    groups: dict[tuple[str, str], list[tuple[str, Leg]]] = {}
    for source, leg in found:
        for other_source, other in found[:1]:
            _agree(other_source, other, source, leg, _EVERYWHERE, "use one version of the suite for both")
        groups.setdefault((leg["target"]["name"], leg["name"]), []).append((source, leg))
    first_of: dict[str, tuple[str, Leg]] = {}
    for source, leg in found:
        other_source, other = first_of.setdefault(leg["target"]["name"], (source, leg))
        _agree(other_source, other, source, leg, _SAME_TARGET, "run both with the same files")
    return [_one(parts) for parts in groups.values()]


def _agree(
    first_source: str, first: Leg, source: str, leg: Leg, words: Sequence[str], advice: str, *, what: str = ""
) -> None:
    wrong = list(_differences(first, leg, words))
    if wrong:
        where = what or f"{first['name']} of {first_source} and {leg['name']} of {source}"
        raise UsageError(f"{where} cannot be merged, {' and '.join(wrong)}; {advice}")


def _differences(first: Leg, leg: Leg, words: Sequence[str]) -> Iterator[str]:
    """What differs, in words. A leg that did not start found no digests, so there is nothing to differ."""
    started = first["planned"] and leg["planned"]
    for word in words:
        one, other = first["digests"].get(word), leg["digests"].get(word)
        if one != other and (started or (one is not None and other is not None)):
            yield f"their digests of {word} differ ({_short(one)} and {_short(other)})"


def _short(text: str | None) -> str:
    """The beginning of a digest; versions, which are digests too, in full."""
    return "none" if text is None else text[:12] if len(text) == 64 else text


def _one(parts: list[tuple[str, Leg]]) -> Leg:
    """One leg from its parts; itself where it has only one."""
    source, first = parts[0]
    if len(parts) == 1:
        return first
    for other_source, other in parts[1:]:
        what = f"the two parts of leg {first['name']}, {source} and {other_source},"
        words = tuple(first["digests"])
        _agree(source, first, other_source, other, words, "they are results of different things", what=what)
        for key in _SAME_LEG:
            if first[key] != other[key]:
                raise UsageError(
                    f"{what} cannot be merged, their {key} differs ({first[key]} and {other[key]}); "
                    "leave one out"
                )
    return _join(_shards(first["name"], parts), [leg for _, leg in parts])


def _shards(name: str, parts: list[tuple[str, Leg]]) -> tuple[list[int], int]:
    """Which shards the parts are, of how many; UsageError where one is there twice."""
    seen: dict[int, str] = {}
    counts = set()
    for source, leg in parts:
        numbers, _, count = leg["shard"].partition("/")
        counts.add(int(count))
        for number in map(int, numbers.split(",")):
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


def own_problems(leg: Leg) -> list[str]:
    """The problems of a leg other than those of its expectations."""
    of_expectations = leg.get("expectations", {}).get("problems", ())
    return [problem for problem in leg["problems"] if problem not in of_expectations]


def _join(shards: tuple[list[int], int], legs: list[Leg]) -> Leg:
    numbers, count = shards
    problems = [problem for leg in legs for problem in own_problems(leg)]
    missing = [number for number in range(1, count + 1) if number not in numbers]
    if missing:
        problems.append(f"shards {', '.join(f'{number}/{count}' for number in missing)} are not there")
    rows = [row for leg in legs for row in leg["results"]]
    cases = {case: verdict for leg in legs for case, verdict in leg["cases"].items()}
    left_out = sum(leg["left_out"] for leg in legs)
    complete = not missing and all(leg["complete"] for leg in legs)
    joined = {**legs[0], "shard": "1/1" if not missing else f"{','.join(map(str, numbers))}/{count}"}
    expectations = results.judged(
        judge.join(leg["expectations"]["entries"] for leg in legs if "expectations" in leg),
        joined["mode"],
        whole=complete and judge.whole(joined) and all("expectations" in leg for leg in legs),
    )
    totals = results.count_totals(rows, left_out)
    codes = [leg["exit"] for leg in legs]
    codes.append(results.exit_code(totals, complete=complete, expectations=expectations))
    return {
        **joined,
        "started": min(leg["started"] for leg in legs),
        "seconds": round(sum(leg["seconds"] for leg in legs), 3),
        "workers": max(leg["workers"] for leg in legs),
        "left_out": left_out,
        "exit": results.worst_exit(codes),
        "complete": complete,
        "problems": problems + expectations["problems"],
        "expectations": expectations,
        "missing": {
            "count": sum(leg["missing"]["count"] for leg in legs),
            "first": [name for leg in legs for name in leg["missing"]["first"]][: results.MISSING_SHOWN],
        },
        "planned": sum(leg["planned"] for leg in legs),
        "totals": totals,
        "case_totals": results.ordered(collections.Counter(Verdict(word).value for word in cases.values())),
        "cases": cases,
        "oracle": {
            "checked": sum(leg["oracle"]["checked"] for leg in legs),
            "differences": [line for leg in legs for line in leg["oracle"]["differences"]][
                : results.MISSING_SHOWN
            ],
        },
        "results": rows,
    }
