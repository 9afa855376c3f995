"""The summary of a job: a table of its legs, and the first results of each that are not as expected."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from conformance.matrix.table import coded, escaped
from conformance.model.verdicts import Verdict

#: How many results, and problems, of a leg are named.
_NAMED = 20


def markdown(legs: Sequence[dict[str, Any]], job: str) -> str:
    """The summary of the legs of a results file; what a device has said is code or escaped."""
    lines = [f"### {escaped(job)}", "", "| leg | level | exit | results |", "|---|---|---|---|"]
    for leg in legs:
        totals = ", ".join(f"{count} {verdict}" for verdict, count in leg["totals"].items() if count)
        lines.append(_row(name(leg), leg["level"], leg["exit"], totals or "none"))
    for leg in legs:
        wrong = [row for row in leg["results"] if Verdict(row["verdict"]).unexpected]
        said = [str(problem) for problem in leg["problems"]]
        lacking, differences = int(leg["missing"]["count"]), leg["oracle"]["differences"]
        said += [f"{lacking} results are missing"] if lacking else []
        said += [f"{len(differences)} oracle values differ without the backend"] if differences else []
        said += [] if leg["complete"] else [f"the run is not complete (exit {leg['exit']})"]
        if not wrong and not said:
            continue
        lines += ["", f"**{escaped(name(leg))}**: {len(wrong)} results not as expected", ""]
        lines += [f"- {coded(text[:300])}" for text in said[-_NAMED:]]
        if len(said) > _NAMED:
            lines.append(f"- and {len(said) - _NAMED} more problems, in report.html of the artifact")
        lines += [f"- {row['verdict']}: {coded(row['id'][:200])}" for row in wrong[:_NAMED]]
        if len(wrong) > _NAMED:
            lines.append(f"- and {len(wrong) - _NAMED} more, in report.html of the artifact")
    return "\n".join(lines) + "\n"


def name(leg: dict[str, Any]) -> str:
    """Target, mode and torch of a leg."""
    return f"{leg['target']['name']}, {leg['mode']}, torch {leg['torch']}"


def _row(*words: object) -> str:
    return f"| {' | '.join(escaped(str(word)) for word in words)} |"
