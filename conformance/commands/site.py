"""``conformance site``: the compatibility matrix, as static pages, from a folder of results or a store."""

from __future__ import annotations

import argparse
import datetime
from pathlib import Path
from typing import Any

from conformance.errors import UsageError
from conformance.site import build, registry
from conformance.site.store import store as stores
from conformance.site.store.store import Store


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser("site", help="make the compatibility matrix from a folder of results")
    parser.add_argument(
        "results",
        type=Path,
        nargs="?",
        metavar="RESULTS",
        help="folder of BACKEND/RUN/results.json; without it the pages are made of the store alone",
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="DIR", help="folder of the site; without it only the store grows"
    )
    parser.add_argument(
        "--store",
        type=Path,
        metavar="DIR",
        help="keep the changes of each night in this folder, and use them",
    )
    parser.add_argument(
        "--rebuild", action="store_true", help="make the store anew from the results instead of adding to it"
    )
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
    """Fold new results into the store, and make the site; exit code 1 if a submission was refused."""
    today = datetime.datetime.now(datetime.timezone.utc).date()
    if arguments.today is not None:
        try:
            today = datetime.date.fromisoformat(arguments.today)
        except ValueError:
            raise UsageError(f"--today {arguments.today} is not a date; write it as 2026-01-31") from None
    _check(arguments)
    known = registry.load(arguments.registry)
    folder: Path | None = arguments.store
    store = Store() if folder is None or arguments.rebuild else Store.read(folder)
    if folder is not None:
        stores.check(folder)
    store.rename(known)
    before = set(store.refused)
    if arguments.results is not None:
        added = store.fold(arguments.results, known, today, arguments.our_repository)
        if folder is not None:
            store.thin(today)
            if arguments.rebuild:
                stores.replace(folder, store)
            else:
                store.write(folder)
            print(f"{folder}: {added} runs added, {len(store.lines)} lines")
    if arguments.output is not None:
        cells = build.build(store, arguments.output, known, today, arguments.pages)
        measured = len({cell.backend for cell in cells})
        place = arguments.output / "index.html"
        print(f"{place}: {len(cells)} cells of {measured} backends, {len(known)} known")
    new = [one for one in store.refused if one not in before]
    for submission in new:
        print(f"refused {submission.place}: {submission.why}")
    return 1 if new and not arguments.keep_going else 0


def _check(arguments: argparse.Namespace) -> None:
    """Refuse arguments that do not fit together, before anything is read or replaced."""
    if arguments.results is None and arguments.store is None:
        raise UsageError("neither RESULTS nor --store is given; name the folder of results")
    if arguments.output is None and arguments.store is None:
        raise UsageError("neither --output nor --store is given; name the folder of the site")
    if arguments.rebuild and (arguments.results is None or arguments.store is None):
        raise UsageError("--rebuild makes a store from results; name both RESULTS and --store")
    folders = [place for place in (arguments.results, arguments.store) if place is not None]
    for place in folders if arguments.output is not None else ():
        build.check_output(arguments.output, place)
    if len(folders) == 2 and _contain_each_other(*folders) and not _hidden_in(folders[1], folders[0]):
        raise UsageError(
            f"the store {folders[1]} and the results {folders[0]} contain each other; name another folder"
        )


def _hidden_in(store: Path, results: Path) -> bool:
    """Return True for a hidden folder in that of the results: the branch has the store there."""
    return store.name.startswith(".") and store.resolve().parent == results.resolve()


def _contain_each_other(one: Path, other: Path) -> bool:
    one, other = one.resolve(), other.resolve()
    return one == other or one in other.parents or other in one.parents
