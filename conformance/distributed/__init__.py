"""Mode ``distributed``: a pool of rank processes, each with its own device, that run the same programs.

    worker process (properties, comparisons) ──RankPool──► rank 0 ─┐
                                                          rank 1 ─┤ the backend's process group
                                                           …      ─┘

A property runs in the worker and compares the rank replies with values computed on the CPU. A rank program is
a function that is registered by name; a rank runs one program at a time. A rank reply contains only host
tensors, numbers and strings. The worker itself never loads the backend.

If a rank crashes, hangs or raises, the rank pool ends and the worker continues. The next program gets a new
pool.
"""

import os

#: Environment variable with the world size of a worker.
RANKS = "CONFORMANCE_RANKS"
#: Environment variable with the time limit of one result in seconds.
LIMIT = "CONFORMANCE_LIMIT"
#: Environment variable with the name of a module. Each rank calls ``prepare()`` of this module before it
#: joins the process group.
PREPARE = "CONFORMANCE_PREPARE"
#: The default time limit of one result in seconds. The time limits of ranks in this package were chosen for
#: this default.
USUAL_LIMIT = 120.0


def scale_time_limit(seconds: float) -> float:
    """Return ``seconds``, a time limit for ranks. If ``--timeout`` is above its default, extend the limit in
    the same proportion.
    """
    return seconds * max(1.0, float(os.environ.get(LIMIT, USUAL_LIMIT)) / USUAL_LIMIT)
