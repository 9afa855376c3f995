"""The extent of a run: the number of samples that properties take. The harness sets it once, at the start."""

from __future__ import annotations

#: The limit unless the user names another.
DEFAULT = 32
#: Most samples that a property takes of one (operator, dtype); None takes all (``--samples all``). A costly
#: property (gradients, composites) takes a smaller number of its own unless this is None.
sample_limit: int | None = DEFAULT
#: True if the user named the limit, so that no property adds samples to it.
exact = False


def limit(smaller: int | None = None) -> int | None:
    """Return the number of samples to take, None for all; ``smaller`` is a costly property's own limit."""
    if sample_limit is None:
        return None
    if smaller is None:
        return sample_limit
    return smaller if sample_limit >= DEFAULT else min(smaller, sample_limit)


def choose(samples: str) -> None:
    """Set the limit from the word of ``--samples``: ``default``, ``all`` or a number."""
    global sample_limit, exact
    if samples == "all":
        sample_limit = None
    elif samples != "default":
        sample_limit, exact = int(samples), True
