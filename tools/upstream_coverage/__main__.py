"""``python -m tools.upstream_coverage``: print the figures of the coverage map; with ``-o DIR``, write its
pages.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from conformance.upstream import coverage_map
from tools.upstream_coverage import check, pages


def main() -> int:
    """Print the figures, and write the pages if requested. Return 1 if a map contains unknown names."""
    parser = argparse.ArgumentParser(prog="python -m tools.upstream_coverage")
    parser.add_argument("-o", "--output", type=Path, metavar="DIR", help="write the pages there")
    parser.add_argument(
        "--uncovered", metavar="FILE", help="print the uncovered test methods of one upstream file"
    )
    arguments = parser.parse_args()
    mapped = {stem: coverage_map.methods_of_file(stem) for stem in coverage_map.file_stems()}
    if arguments.uncovered is not None:
        for method in mapped[arguments.uncovered]:
            if not method.covered_by and method.reason is None:
                print(f"{method.owner}.{method.name}{' (wheel)' if method.wheel else ''}")
        return 0
    unknown = check.unknown_properties([method for listed in mapped.values() for method in listed])
    for line in unknown:
        print(f"unknown: {line}", file=sys.stderr)
    print(pages.figures_table(mapped))
    if arguments.output is not None:
        pages.write(arguments.output, mapped)
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
