"""One issue for each cell of the matrix that regressed: opened, kept up to date, closed when it is well."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from conformance.ci import github
from conformance.ci.compare import Change
from conformance.matrix.table import coded

#: Marks the issues that are ours to change; only who may triage can set it.
LABEL = "conformance-regression"
#: Issues that one night opens. What is over that is one event, and one more issue with the names of the rest.
MOST = 30


@dataclasses.dataclass(frozen=True)
class Action:
    """What was done about a cell."""

    cell: str
    done: str
    number: int | None


def title(backend: str, change: Change) -> str:
    """The title by which the issue of a cell is found again."""
    return f"Regression: {backend}, {change.mode}, torch {change.build}"


def body(change: Change, run: str, command: str) -> str:
    """The text of an issue. What a run says is code, in which nobody is mentioned."""
    lines = [
        f"Cell `{change.id}` was **{change.was or 'not there'}** and is **{change.now}**, on torch "
        f"{coded(change.torch)}.",
        "",
        f"Run: {run}" if run else "",
    ]
    if change.text:
        lines += ["", coded(change.text[:500])]
    if change.count:
        lines += [
            "",
            f"{change.count} results regressed" + (", the first of them:" if change.count > 1 else ":"),
        ]
        lines += ["", *(f"* {coded(name[:200])}" for name in change.regressed)]
    lines += ["", f"To repeat: `{command}`", "", "This text is written anew by each nightly run."]
    return "\n".join(line for line in lines if line is not None)


def update(repository: str, backend: str, changes: Sequence[Change], run: str, target: str) -> list[Action]:
    """Open, update and close the issues of all cells; what was done.

    A cell that is still bad, but no worse than the night before, keeps its issue as it is. UsageError where
    GitHub refuses.
    """
    known = {str(issue["title"]): issue for issue in _open(repository) if not issue.get("pull_request")}
    done: list[Action] = []
    opened = 0
    rest: list[str] = []
    for change in changes:
        issue = known.get(title(backend, change))
        path = f"repos/{repository}/issues"
        command = f"conformance run --target {target} --mode {change.mode}"
        if change.worse and issue is None:
            if opened >= MOST:
                rest.append(change.id)
                continue
            made = github.send(
                "POST",
                path,
                {"title": title(backend, change), "body": body(change, run, command), "labels": [LABEL]},
            )
            opened += 1
            done.append(Action(change.id, "opened", int(made["number"])))
        elif change.worse and issue is not None:
            number = int(issue["number"])
            github.send("PATCH", f"{path}/{number}", {"body": body(change, run, command)})
            done.append(Action(change.id, "updated", number))
        elif change.good and issue is not None:
            number = int(issue["number"])
            words = f"The cell is {change.now} again{f': {run}' if run else ''}."
            github.send("POST", f"{path}/{number}/comments", {"body": words})
            github.send("PATCH", f"{path}/{number}", {"state": "closed", "state_reason": "completed"})
            done.append(Action(change.id, "closed", number))
    if rest:
        names = "\n".join(f"* `{name}`" for name in rest)
        where = f" in {run}" if run else ""
        words = f"Besides {MOST} cells with issues of their own these regressed{where}:\n\n{names}"
        name = f"Regression: {backend}, {len(rest)} further cells"
        made = github.send(
            "POST", f"repos/{repository}/issues", {"title": name, "body": words, "labels": [LABEL]}
        )
        done.append(Action(f"{len(rest)} further cells", "opened", int(made["number"])))
    return done


def _open(repository: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for page in range(1, 11):
        part = github.get(
            f"repos/{repository}/issues", labels=LABEL, state="open", per_page="100", page=str(page)
        )
        found += part
        if len(part) < 100:
            break
    return found
