"""``python -m conformance.oracle.recheck``: recompute reference values in a process that does not load the
backend.

A backend can change the CPU's results, for example by global state or a patched function. The suite would
then compare the backend with itself. The process that runs this module must not load a backend.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from conformance.model.records import OracleValue
from conformance.process_control import exit_with_parent

Digest = Callable[[str, str, int], str]


def digest_differences(events: Sequence[OracleValue], digest: Digest) -> list[str]:
    """Return one sentence for each event whose digest differs in this process or cannot be computed."""
    differences = []
    for event in sorted(events, key=lambda entry: (entry["operator"], entry["dtype"], entry["index"])):
        label = f"oracle value of {event['operator']}@{event['dtype']}, sample {event['index']}"
        try:
            recomputed = digest(event["operator"], event["dtype"], event["index"])
        except Exception as error:
            error_text = f"{type(error).__name__}: {error}"[:1000]
            differences.append(f"{label} cannot be computed without the backend: {error_text}")
            continue
        if recomputed != event["digest"]:
            difference = f"{label} differs without the backend: {recomputed} instead of {event['digest']}"
            differences.append(difference)
    return differences


def main(arguments: list[str] | None = None) -> int:
    """Print a JSON object with ``checked`` and ``differences``; return 1 if there are differences, else 0."""
    parser = argparse.ArgumentParser(prog="python -m conformance.oracle.recheck")
    parser.add_argument(
        "events", type=Path, help="JSON list of objects with operator, dtype, index and digest"
    )
    parser.add_argument("--samples", default="default")
    parser.add_argument("--extra", action="append", default=[])
    options = parser.parse_args(arguments)
    if exit_with_parent.VARIABLE in os.environ:
        exit_with_parent.follow()
    events = json.loads(options.events.read_text())
    from conformance.oracle import reference as oracle
    from conformance.samples import sample_limit
    from conformance.subjects import catalogue

    catalogue.load_extra(options.extra)
    sample_limit.set_limit(options.samples)
    differences = digest_differences(events, oracle.recompute_digest)
    print(json.dumps({"checked": len(events), "differences": differences}))
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
