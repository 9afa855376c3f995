"""Write an issue about one cause of unexpected results, as Markdown without private paths."""

from __future__ import annotations

import re
from collections.abc import Sequence

from conformance.model.records import Leg
from conformance.model.verdicts import ResultId
from conformance.report import causes, summary
from conformance.results import scrub

#: The maximum number of results that an issue lists.
SHOWN = 15
_MOST_OF_A_MESSAGE = 1500


def issue_title(group: causes.Cause) -> str:
    """Return the title of an issue about a cause: its name, and its sample pattern or first message line."""
    _, row = group.example
    first = next(iter(causes.kind_and_message(row)[1].splitlines()), "")
    return scrub.scrub_text(f"{group.name()}: {group.sample_pattern_sentence() or first}")[:120].rstrip()


def issue_body(group: causes.Cause, legs: Sequence[Leg], target: str, snippet: str | None = None) -> str:
    """Return the text of an issue.

    Args:
        group: the cause.
        legs: the legs of the run.
        target: the argument of ``--target`` in commands.
        snippet: a script that reproduces the failure of the cause's example result, if any.
    """
    number, row = group.example
    leg = legs[number]
    kind, message = causes.kind_and_message(row)
    command = summary.repro_command(row["id"], target, leg)
    lines = [
        f"**{group.verdict_counts_text()}** on {scrub.scrub_text(leg['target']['name'])} in mode "
        f"{', '.join(dict.fromkeys(legs[index]['mode'] for index in group.leg_indexes))}: {group.name()}.",
        "",
    ]
    if pattern := group.sample_pattern_sentence():
        lines += [f"It {pattern}.", ""]
    lines += [f"The first result, `{row['id']}`, reports ({kind}):", ""]
    lines += [
        *_code_block(scrub.scrub_text(message)[:_MOST_OF_A_MESSAGE]),
        "",
        "Repeat it:",
        "",
        *_code_block(command),
        "",
    ]
    if snippet is not None:
        lines += [
            "This script reproduces the failure with torch and the backend only:",
            "",
            *_code_block(snippet, "python"),
            "",
        ]
    lines += ["Results with this cause:", ""]
    ids = [row["id"] for _, row in group.rows]
    lines += [f"- `{name}`" for name in ids[:SHOWN]]
    if len(ids) > SHOWN:
        properties = sorted({ResultId.parse(name).case.property for name in ids})
        lines.append(
            f"- and {len(ids) - SHOWN} more, of property {', '.join(f'`{name}`' for name in properties[:8])}"
        )
    return "\n".join([*lines, "", *_version_table(leg), ""])


def _code_block(text: str, language: str = "") -> list[str]:
    """Return the lines of a Markdown code block. Its fence is longer than each sequence of backquotes in the
    text.
    """
    fence = "`" * (max([2, *map(len, re.findall("`+", text))]) + 1)
    return [fence + language, text.rstrip("\n"), fence]


def _version_table(leg: Leg) -> list[str]:
    facts = scrub.scrub_facts(leg["facts"])
    torch, backend = facts.get("torch", {}), facts.get("backend", {})
    named = str(backend.get("module") or "none")
    return [
        "| | |",
        "|---|---|",
        f"| torch | {torch.get('version', leg['torch'])}, revision {torch.get('revision') or 'unknown'} |",
        f"| backend | {named} {backend.get('version') or ''} |",
        f"| python | {facts.get('python') or 'unknown'}, {facts.get('platform') or 'unknown'} |",
        f"| level, samples | {leg['level']}, {leg['samples']} |",
        f"| suite | {str(leg['digests'].get('suite') or 'unknown')[:12]} |",
    ]
