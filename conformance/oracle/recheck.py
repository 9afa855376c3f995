"""``python -m conformance.oracle.recheck``: compute oracle values again without loading any backend.

A backend that changes what the CPU computes (global state, a patched function) would otherwise be compared
with itself. The process that runs this module must not load one.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

from conformance.model.records import OracleValue
from conformance.process_control.parent_link import ParentLink

Digest = Callable[[str, str, int], str]


def compare(events: Sequence[OracleValue], digest: Digest) -> list[str]:
    """Return one sentence for each event whose digest differs here, or cannot be computed."""
    differences = []
    for event in sorted(events, key=lambda entry: (entry["operator"], entry["dtype"], entry["index"])):
        what = f"oracle value of {event['operator']}@{event['dtype']}, sample {event['index']}"
        try:
            recomputed = digest(event["operator"], event["dtype"], event["index"])
        except Exception as error:
            words = f"{type(error).__name__}: {error}"[:1000]
            differences.append(f"{what} cannot be computed without the backend: {words}")
            continue
        if recomputed != event["digest"]:
            text = f"{what} differs without the backend: {recomputed} instead of {event['digest']}"
            differences.append(text)
    return differences


def main(arguments: list[str] | None = None) -> None:
    """Check the lists of values that the parent sends; reply with the OracleCheck of each list."""
    parser = argparse.ArgumentParser(prog="python -m conformance.oracle.recheck")
    parser.add_argument("--samples", default="default")
    parser.add_argument("--extra", action="append", default=[])
    options = parser.parse_args(arguments)
    link = ParentLink.connect()
    for events in link.requests():
        from conformance.oracle import reference as oracle
        from conformance.samples import sample_limit
        from conformance.subjects import catalogue

        def digest(operator: str, dtype: str, index: int) -> str:
            link.step(f"{operator}@{dtype}")
            return oracle.digest(operator, dtype, index)

        catalogue.load_extra(options.extra)
        sample_limit.choose(options.samples)
        link.reply({"checked": len(events), "differences": compare(events, digest)})


if __name__ == "__main__":
    main()
