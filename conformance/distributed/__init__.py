"""Mode ``distributed``: a world of ranks, each a process with a device of its own, that run programs
together.

    worker process (properties, comparisons) ──World──► rank 0 ─┐
                                                       rank 1 ─┤ the backend's process group
                                                        …      ─┘

A property runs in the worker and holds what the ranks show against what arithmetic on the CPU gives. A rank
runs one program at a time, a function registered by name, and answers with host tensors and words only. So a
rank that dies, hangs or raises costs its world, never the worker; the next program gets a fresh one. The
worker itself never loads the backend.
"""

#: Names the size of the world to a worker.
RANKS = "CONFORMANCE_RANKS"
