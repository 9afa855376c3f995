"""``conformance site``: build the static site with the compatibility matrix from results or a store."""

from __future__ import annotations

import argparse
import datetime
from pathlib import Path
from typing import Any

from conformance.errors import UsageError
from conformance.site import build, registry
from conformance.site.store import store as stores
from conformance.site.store.store import Store


def add_parser(commands: Any) -> None:
    """Add the command ``site`` to the command line."""
    parser = commands.add_parser("site", help="build the compatibility matrix from a folder of results")
    parser.add_argument(
        "results",
        type=Path,
        nargs="?",
        metavar="RESULTS",
        help="folder of BACKEND/RUN/results.json; without it, the pages are built from the store alone",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="DIR",
        help="folder of the site; without it, only the store is updated",
    )
    parser.add_argument(
        "--store",
        type=Path,
        metavar="DIR",
        help="folder that stores each published run as a delta; it is read and updated",
    )
    parser.add_argument(
        "--rebuild", action="store_true", help="recreate the store from the results instead of adding to it"
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
        help="exit with 0 even if submissions were refused; the site lists them",
    )
    parser.add_argument(
        "--pages",
        type=Path,
        metavar="DIR",
        help="folder with one subfolder per group of other pages; the site includes and links them",
    )
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    """Add new results to the store, and build the site.

    Return exit code 1 if a submission was refused, unless ``--keep-going`` is given.
    """
    today = datetime.datetime.now(datetime.timezone.utc).date()
    if arguments.today is not None:
        try:
            today = datetime.date.fromisoformat(arguments.today)
        except ValueError:
            raise UsageError(f"--today {arguments.today} is not a date; write it as 2026-01-31") from None
    _check_arguments(arguments)
    backends = registry.load(arguments.registry)
    folder: Path | None = arguments.store
    store = Store() if folder is None or arguments.rebuild else Store.read(folder)
    if folder is not None:
        stores.check_store_folder(folder)
    store.rename_backends(backends)
    before = set(store.refused)
    if arguments.results is not None:
        added = store.add_results(arguments.results, backends, today, arguments.our_repository)
        if folder is not None:
            store.remove_old_runs(today)
            if arguments.rebuild:
                stores.replace_store(folder, store)
            else:
                store.write(folder)
            print(f"{folder}: {added} runs added, {len(store.lines)} lines")
    if arguments.output is not None:
        cells = build.build_site(store, arguments.output, backends, today, arguments.pages)
        measured = len({cell.backend for cell in cells})
        index_page = arguments.output / "index.html"
        print(f"{index_page}: {len(cells)} cells of {measured} backends; {len(backends)} backends are known")
    new = [refusal for refusal in store.refused if refusal not in before]
    for submission in new:
        print(f"refused {submission.place}: {submission.why}")
    return 1 if new and not arguments.keep_going else 0


def _check_arguments(arguments: argparse.Namespace) -> None:
    """Raise UsageError for contradictory arguments, before any file is read or replaced."""
    if arguments.results is None and arguments.store is None:
        raise UsageError("neither RESULTS nor --store is given; give the folder of results")
    if arguments.output is None and arguments.store is None:
        raise UsageError("neither --output nor --store is given; give the folder of the site")
    if arguments.rebuild and (arguments.results is None or arguments.store is None):
        raise UsageError("--rebuild recreates a store from results; give both RESULTS and --store")
    folders = [path for path in (arguments.results, arguments.store) if path is not None]
    for path in folders if arguments.output is not None else ():
        build.check_output(arguments.output, path)
    if (
        len(folders) == 2
        and _is_one_inside_other(*folders)
        and not _is_hidden_folder_of_results(folders[1], folders[0])
    ):
        raise UsageError(
            f"the store folder {folders[1]} overlaps with the results folder {folders[0]}; choose another "
            "folder"
        )


def _is_hidden_folder_of_results(store: Path, results: Path) -> bool:
    """Return True if the store is a hidden folder in the results folder, as on the results branch."""
    return store.name.startswith(".") and store.resolve().parent == results.resolve()


def _is_one_inside_other(first: Path, second: Path) -> bool:
    first, second = first.resolve(), second.resolve()
    return first == second or first in second.parents or second in first.parents
