"""``python -m tools.generate.ineffective_options RESULTS``: prints the options of which no call shows an effect.

``RESULTS`` is the results.json of a run of the property ``overload-options``. An option is a hole if no dtype
of the overload has a call in which another value of it changes the CPU's result: a device may ignore it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from conformance.properties.overloads.options import NO_EFFECT


def holes(results: Iterable[dict[str, Any]]) -> dict[str, list[str]]:
    """Return by overload the options that show in no dtype, sorted."""
    found: dict[str, set[str]] = {}
    for result in results:
        name, _, subject = result["id"].partition("/")
        if name != "overload-options" or result["verdict"] != "pass":
            continue
        quiet = {
            note.removeprefix(NO_EFFECT) for note in result.get("notes", ()) if note.startswith(NO_EFFECT)
        }
        overload = subject.rpartition("@")[0]
        found[overload] = found.get(overload, quiet) & quiet
    return {overload: sorted(options) for overload, options in sorted(found.items()) if options}


def main() -> int:
    """Print one line for each overload with holes."""
    parser = argparse.ArgumentParser(prog="python -m tools.generate.ineffective_options", description=__doc__)
    parser.add_argument("results", type=Path, metavar="RESULTS", help="results.json of a run at level full")
    document = json.loads(parser.parse_args().results.read_text())
    for overload, options in holes(result for leg in document["legs"] for result in leg["results"]).items():
        print(f"{overload}: {', '.join(options)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
