"""``conformance site``: the compatibility matrix, as static pages, from a folder of results."""

from __future__ import annotations

import argparse
import datetime
from pathlib import Path
from typing import Any

from conformance.errors import UsageError
from conformance.site import build, registry


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser("site", help="make the compatibility matrix from a folder of results")
    parser.add_argument("results", type=Path, metavar="RESULTS", help="folder of BACKEND/RUN/results.json")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="folder of the site")
    parser.add_argument(
        "--registry",
        type=Path,
        default=registry.FOLDER,
        metavar="DIR",
        help="backends (default: the project's)",
    )
    parser.add_argument(
        "--our-repository", default="", metavar="OWNER/NAME", help="the repository of this project's workflow"
    )
    parser.add_argument(
        "--today", metavar="DATE", help="the day that ages are counted from (default: today, UTC)"
    )
    parser.add_argument(
        "--keep-going",
        action="store_true",
        help="exit 0 although submissions were refused; the site names them",
    )
    parser.add_argument(
        "--pages",
        type=Path,
        metavar="DIR",
        help="folder of other pages, one folder for each group; the site contains and links them",
    )
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    """Make the site; exit code 1 if a submission was refused."""
    today = datetime.datetime.now(datetime.timezone.utc).date()
    if arguments.today is not None:
        try:
            today = datetime.date.fromisoformat(arguments.today)
        except ValueError:
            raise UsageError(f"--today {arguments.today} is not a date; write it as 2026-01-31") from None
    known = registry.load(arguments.registry)
    ours, pages = arguments.our_repository, arguments.pages
    cells, refused = build.build(arguments.results, arguments.output, known, today, ours, pages)
    measured = len({cell.backend for cell in cells})
    print(f"{arguments.output / 'index.html'}: {len(cells)} cells of {measured} backends, {len(known)} known")
    for submission in refused:
        print(f"refused {submission.place}: {submission.why}")
    return 1 if refused and not arguments.keep_going else 0
