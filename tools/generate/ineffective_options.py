"""``python -m tools.generate.ineffective_options RESULTS``: list overload options without an observed effect.

``RESULTS`` is the results.json of a run of the property ``overload-options``. An option of an overload is
listed if no other value of the option changes the CPU's result of any call, in any dtype. The property cannot
detect a device that ignores such an option.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from conformance.properties.overloads.options import NO_EFFECT


def ineffective_options(results: Iterable[dict[str, Any]]) -> dict[str, list[str]]:
    """Return the options without an observed effect in any dtype, sorted, by overload."""
    options_by_overload: dict[str, set[str]] = {}
    for result in results:
        name, _, subject = result["id"].partition("/")
        if name != "overload-options" or result["verdict"] != "pass":
            continue
        ineffective = {
            note.removeprefix(NO_EFFECT) for note in result.get("notes", ()) if note.startswith(NO_EFFECT)
        }
        overload = subject.rpartition("@")[0]
        options_by_overload[overload] = options_by_overload.get(overload, ineffective) & ineffective
    return {overload: sorted(options) for overload, options in sorted(options_by_overload.items()) if options}


def main() -> int:
    """Print one line for each overload that has options without an observed effect."""
    parser = argparse.ArgumentParser(prog="python -m tools.generate.ineffective_options", description=__doc__)
    parser.add_argument("results", type=Path, metavar="RESULTS", help="results.json of a run at level full")
    document = json.loads(parser.parse_args().results.read_text())
    for overload, options in ineffective_options(
        result for leg in document["legs"] for result in leg["results"]
    ).items():
        print(f"{overload}: {', '.join(options)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
