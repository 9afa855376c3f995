"""``python -m benchmarks [NAME ...]``: run all benchmarks, or only the benchmarks with the given names."""

from __future__ import annotations

import importlib
import sys

FIGURES = (
    "eager_overhead",
    "operator_overhead",
    "opdb_pass",
    "graph_replay",
    "lazy_step",
    "compile_steady_state",
    "compile_time",
    "channels_last",
    "collectives",
    "import_time",
    "profiler_overhead",
    "suite_time",
    "merge_shards",
    "site_store",
)


def main() -> None:
    """Run the benchmarks that the command line lists, or all benchmarks.

    Raises:
        SystemExit: the command line lists an unknown benchmark.
    """
    names = sys.argv[1:] or FIGURES
    for name in names:
        if name not in FIGURES:
            raise SystemExit(f"figure {name!r} does not exist; use one of: {', '.join(FIGURES)}")
        importlib.import_module(f"benchmarks.{name}").main()


if __name__ == "__main__":
    main()
