"""``python -m conformance.coverage``: the figures of the coverage map; with ``-o DIR`` its pages."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from conformance import coverage
from conformance.coverage import page


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m conformance.coverage")
    parser.add_argument("-o", "--output", type=Path, metavar="DIR", help="write the pages there")
    parser.add_argument("--uncovered", metavar="FILE", help="print what is uncovered of one upstream file")
    arguments = parser.parse_args()
    found = {stem: coverage.methods(stem) for stem in coverage.stems()}
    if arguments.uncovered is not None:
        for method in found[arguments.uncovered]:
            if not method.covered_by and method.reason is None:
                print(f"{method.owner}.{method.name}{' (wheel)' if method.wheel else ''}")
        return 0
    wrong = coverage.unknown_properties([method for listed in found.values() for method in listed])
    for line in wrong:
        print(f"unknown: {line}", file=sys.stderr)
    print(page.figures_table(found))
    if arguments.output is not None:
        page.write(arguments.output, found)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
