"""``conformance query``: print the results of a run that match a query."""

from __future__ import annotations

import argparse
import collections
import json
from pathlib import Path
from typing import Any

from conformance.commands import common
from conformance.errors import UsageError
from conformance.model.records import Leg, ResultRow
from conformance.query import language
from conformance.query.fields import ALIASES, KEYS, ResultFields
from conformance.report import causes, output_files, query_fields

#: The maximum number of displayed characters of a message.
_SHOWN = 160


def add_parser(commands: Any) -> None:
    """Add the command ``query`` to the command line."""
    keys = "; ".join(f"{key}: {about}" for key, about in KEYS.items())
    parser = commands.add_parser(
        "query",
        help="find results of a run, as in 'op:topk dtype:bfloat16 verdict:fail'",
        epilog=f"Keys of a query. {keys}. The language: docs/query.md.",
    )
    parser.add_argument("directory", type=Path, metavar="DIR", help="output folder of a run")
    parser.add_argument("query", metavar="QUERY", help="terms such as op:nn.* -verdict:pass seconds:>2")
    parser.add_argument("--by", metavar="KEY", help="count the results by a key, e.g. family")
    parser.add_argument("--json", action="store_true", help="print each result as a line of JSON")
    parser.add_argument(
        "--limit", type=common.parse_positive, default=None, metavar="N", help="print at most N lines"
    )
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    """Print one line for each matching result. Return exit code 1 if no result matches, like grep."""
    predicate = language.parse_query(arguments.query)
    by = None if arguments.by is None else _countable_key(arguments.by)
    if by is not None and arguments.json:
        raise UsageError("--by counts and --json lists results; use one of them")
    legs = output_files.read_legs(arguments.directory)
    matches = [entry for entry in query_fields.rows_with_fields(legs) if predicate(entry[2])]
    if by is not None:
        lines = _count_lines(by, [entry[2] for entry in matches])
    elif arguments.json:
        lines = [json.dumps({"leg": leg["name"], **row}) for leg, row, _ in matches]
    else:
        lines = [_result_line(leg, row, several=len(legs) > 1) for leg, row, _ in matches]
    for line in lines[: arguments.limit]:
        print(line)
    if not arguments.json:
        total = sum(len(leg["results"]) for leg in legs)
        print(f"{len(matches):,} of {total:,} results match")
    return 0 if matches else 1


def _countable_key(argument: str) -> str:
    key = ALIASES.get(argument, argument)
    if key not in KEYS or key in ("seconds", "message", "id"):
        names = ", ".join(key for key in KEYS if key not in ("seconds", "message", "id"))
        raise UsageError(f"--by {argument} is not a key to count by; use one of {names}")
    return key


def _count_lines(key: str, results: list[ResultFields]) -> list[str]:
    counts = collections.Counter(
        value
        for result in results
        for value in (result.values(key)[:1] if key == "verdict" else result.values(key) or ("none",))
    )
    width = len(f"{max(counts.values(), default=0):,}")
    return [f"{count:>{width},}  {value or 'none'}" for value, count in counts.most_common()]


def _result_line(leg: Leg, row: ResultRow, *, several: bool) -> str:
    message = causes.kind_and_message(row)[1].partition("\n")[0][:_SHOWN]
    where = f" [{leg['name']}]" if several else ""
    return f"{row['verdict']:<11} {row['id']}{where}{f': {message}' if message else ''}"
