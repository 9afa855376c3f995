"""Write the summary of a job: a table of its legs, and the first unexpected results of each leg."""

from __future__ import annotations

from collections.abc import Sequence

from conformance.matrix.table import code_span, escape_markdown
from conformance.model.records import Leg
from conformance.model.verdicts import Verdict

#: The maximum number of displayed results, and of displayed problems, per leg.
_NAMED = 20


def summary_markdown(legs: Sequence[Leg], job: str) -> str:
    """Return a Markdown summary of the legs. Text from a device is formatted as code or escaped."""
    lines = [f"### {escape_markdown(job)}", "", "| leg | level | exit | results |", "|---|---|---|---|"]
    for leg in legs:
        totals = ", ".join(f"{count} {verdict}" for verdict, count in leg["totals"].items() if count)
        lines.append(_table_row(leg_title(leg), leg["level"], leg["exit"], totals or "none"))
    for leg in legs:
        wrong = [row for row in leg["results"] if Verdict(row["verdict"]).unexpected]
        problems = [str(problem) for problem in leg["problems"]]
        lacking, differences = int(leg["missing"]["count"]), leg["oracle"]["differences"]
        problems += [f"{lacking} results are missing"] if lacking else []
        problems += [f"{len(differences)} oracle values differ without the backend"] if differences else []
        problems += [] if leg["complete"] else [f"the run is not complete (exit {leg['exit']})"]
        if not wrong and not problems:
            continue
        lines += ["", f"**{escape_markdown(leg_title(leg))}**: {len(wrong)} results not as expected", ""]
        lines += [f"- {code_span(text[:300])}" for text in problems[-_NAMED:]]
        if len(problems) > _NAMED:
            lines.append(f"- and {len(problems) - _NAMED} more problems, in report.html of the artifact")
        lines += [f"- {row['verdict']}: {code_span(row['id'][:200])}" for row in wrong[:_NAMED]]
        if len(wrong) > _NAMED:
            lines.append(f"- and {len(wrong) - _NAMED} more, in report.html of the artifact")
    return "\n".join(lines) + "\n"


def leg_title(leg: Leg) -> str:
    """Return the target, mode and torch of a leg as text."""
    return f"{leg['target']['name']}, {leg['mode']}, torch {leg['torch']}"


def _table_row(*cells: object) -> str:
    return f"| {' | '.join(escape_markdown(str(cell)) for cell in cells)} |"
