"""Mode ``distributed``: a pool of rank processes, each with its own device, that run programs together.

    worker process (properties, comparisons) ──RankPool──► rank 0 ─┐
                                                          rank 1 ─┤ the backend's process group
                                                           …      ─┘

A property runs in the worker and compares the rank replies with arithmetic on the CPU. A rank runs one rank
program at a time, a function that is registered by name. Its reply contains only host tensors, numbers and
strings. A rank that dies, hangs or raises therefore ends the rank pool and never the worker; the next program
gets a new pool. The worker itself never loads the backend.
"""

import os

#: Environment variable with the world size of a worker.
RANKS = "CONFORMANCE_RANKS"
#: Environment variable with the limit of one result in seconds.
LIMIT = "CONFORMANCE_LIMIT"
#: Environment variable with a module whose function ``prepare`` each rank calls before it joins.
PREPARE = "CONFORMANCE_PREPARE"
#: The default limit of a result in seconds, for which all limits of ranks were chosen.
USUAL_LIMIT = 120.0


def patient(seconds: float) -> float:
    """Return a limit of ranks in seconds, extended in proportion to a ``--timeout`` above the default."""
    return seconds * max(1.0, float(os.environ.get(LIMIT, USUAL_LIMIT)) / USUAL_LIMIT)
