"""Process-wide settings of a run that properties read. The harness sets them once, before any case."""

from __future__ import annotations

#: Most samples that a property takes of one (operator, dtype); None takes all (``--samples all``). A property
#: that is dear (gradients, composites) takes a smaller share of its own while this is a number.
DEFAULT = 32
sample_limit: int | None = DEFAULT
#: Whether the limit is the user's own number, which nothing may be added to.
exact = False


def limit(own: int | None = None) -> int | None:
    """The number of samples to take, where ``own`` is the property's own smaller limit."""
    if sample_limit is None:
        return None
    return sample_limit if own is None else own if sample_limit >= DEFAULT else min(own, sample_limit)


def choose(samples: str) -> None:
    """Set the limit from the word of ``--samples``: ``default``, ``all`` or a number."""
    global sample_limit, exact
    if samples == "all":
        sample_limit = None
    elif samples != "default":
        sample_limit, exact = int(samples), True
