"""Mode ``distributed``: a world of ranks, each a process with a device of its own, that run programs
together.

    worker process (properties, comparisons) ──World──► rank 0 ─┐
                                                       rank 1 ─┤ the backend's process group
                                                        …      ─┘

A property runs in the worker and compares the ranks' answers with arithmetic on the CPU. A rank runs one
program at a time, a function registered by name, and answers with host tensors and words only. So a rank that
dies, hangs or raises costs its world, never the worker; the next program gets a fresh one. The worker itself
never loads the backend.
"""

import os

#: Names the size of the world to a worker.
RANKS = "CONFORMANCE_RANKS"
#: Names the limit of one result in seconds.
LIMIT = "CONFORMANCE_LIMIT"
#: Names a module whose function ``prepare`` each rank calls before it joins.
PREPARE = "CONFORMANCE_PREPARE"
#: The limit that all other limits here were chosen for.
USUAL_LIMIT = 120.0


def patient(seconds: float) -> float:
    """Return a limit of a world in seconds, longer if results may take longer than usual (``--timeout``)."""
    return seconds * max(1.0, float(os.environ.get(LIMIT, USUAL_LIMIT)) / USUAL_LIMIT)
