"""``python -m conformance.oracle.recheck``: recompute reference values in a process that does not load the
backend.

A backend can change the CPU's results, for example by global state or a patched function. The suite would
then compare the backend with itself. The process that runs this module must not load a backend.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

from conformance.model.records import OracleValue
from conformance.process_control.parent_link import ParentLink

Digest = Callable[[str, str, int], str]


def digest_differences(events: Sequence[OracleValue], digest: Digest) -> list[str]:
    """Return one sentence for each event whose digest differs in this process or cannot be computed."""
    differences = []
    for event in sorted(events, key=lambda entry: (entry["operator"], entry["dtype"], entry["index"])):
        label = f"reference value of {event['operator']}@{event['dtype']}, sample {event['index']}"
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
            link.announce_step(f"{operator}@{dtype}")
            return oracle.recompute_digest(operator, dtype, index)

        catalogue.load_extra(options.extra)
        sample_limit.set_limit(options.samples)
        link.reply({"checked": len(events), "differences": digest_differences(events, digest)})


if __name__ == "__main__":
    main()
