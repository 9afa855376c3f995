"""Maintain one GitHub issue for each regressed cell: open it, update it, close it when the cell is good."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from conformance.ci import github
from conformance.ci.cell_regressions import CellChange
from conformance.matrix.table import code_span

#: The label of the issues that this module may change. Only users with triage rights can set it.
LABEL = "conformance-regression"
#: The maximum number of issues that one run opens. One additional issue lists the remaining cells.
MOST = 30


@dataclasses.dataclass(frozen=True)
class IssueAction:
    """An action on the issue of a cell. ``done`` says whether the issue with number ``number`` was opened,
    updated or closed.
    """

    cell: str
    done: str
    number: int | None


def issue_title(backend: str, change: CellChange) -> str:
    """Return the title of the issue of a cell. The title identifies the issue in later runs."""
    return f"Regression: {backend}, {change.mode}, torch {change.build}"


def issue_body(change: CellChange, run: str, command: str) -> str:
    """Return the text of an issue. Text from a run is formatted as code, so that it cannot mention users."""
    lines = [
        f"Cell `{change.id}` was **{change.was or 'not present'}** and is **{change.now}**, on torch "
        f"{code_span(change.torch)}.",
        "",
        f"Run: {run}" if run else "",
    ]
    if change.text:
        lines += ["", code_span(change.text[:500])]
    if change.count:
        lines += [
            "",
            f"{change.count} results regressed" + (", the first of them:" if change.count > 1 else ":"),
        ]
        lines += ["", *(f"* {code_span(name[:200])}" for name in change.regressed)]
    lines += ["", f"To repeat: `{command}`", "", "Each nightly run rewrites this text."]
    return "\n".join(line for line in lines if line is not None)


def update_issues(
    repository: str, backend: str, changes: Sequence[CellChange], run: str, target: str
) -> list[IssueAction]:
    """Open, update and close the issues of all cells, and return the actions.

    If a cell is not good, but did not regress since the previous run, its issue is unchanged. Raise
    UsageError if a call to GitHub fails.
    """
    open_issues = {
        str(issue["title"]): issue for issue in _open_issues(repository) if not issue.get("pull_request")
    }
    actions: list[IssueAction] = []
    opened = 0
    rest: list[str] = []
    for change in changes:
        issue = open_issues.get(issue_title(backend, change))
        path = f"repos/{repository}/issues"
        command = f"conformance run --target {target} --mode {change.mode}"
        if change.has_regressed and issue is None:
            if opened >= MOST:
                rest.append(change.id)
                continue
            created = github.send_json(
                "POST",
                path,
                {
                    "title": issue_title(backend, change),
                    "body": issue_body(change, run, command),
                    "labels": [LABEL],
                },
            )
            opened += 1
            actions.append(IssueAction(change.id, "opened", int(created["number"])))
        elif change.has_regressed and issue is not None:
            number = int(issue["number"])
            github.send_json("PATCH", f"{path}/{number}", {"body": issue_body(change, run, command)})
            actions.append(IssueAction(change.id, "updated", number))
        elif change.is_good and issue is not None:
            number = int(issue["number"])
            text = f"The cell is {change.now} again{f': {run}' if run else ''}."
            github.send_json("POST", f"{path}/{number}/comments", {"body": text})
            github.send_json("PATCH", f"{path}/{number}", {"state": "closed", "state_reason": "completed"})
            actions.append(IssueAction(change.id, "closed", number))
    if rest:
        names = "\n".join(f"* `{name}`" for name in rest)
        where = f" in {run}" if run else ""
        text = f"In addition to {MOST} cells with separate issues, these cells regressed{where}:\n\n{names}"
        name = f"Regression: {backend}, {len(rest)} further cells"
        created = github.send_json(
            "POST", f"repos/{repository}/issues", {"title": name, "body": text, "labels": [LABEL]}
        )
        actions.append(IssueAction(f"{len(rest)} further cells", "opened", int(created["number"])))
    return actions


def _open_issues(repository: str) -> list[dict[str, Any]]:
    issues: list[dict[str, Any]] = []
    for page in range(1, 11):
        batch = github.get_json(
            f"repos/{repository}/issues", labels=LABEL, state="open", per_page="100", page=str(page)
        )
        issues += batch
        if len(batch) < 100:
            break
    return issues
