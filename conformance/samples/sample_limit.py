"""The sample limit: how many samples a check takes. Each process of the suite sets the limit once at its
start.
"""

from __future__ import annotations

#: The default limit.
DEFAULT = 32
#: The maximal number of samples of one (operator, dtype), or None for all samples (``--samples all``). An
#: expensive property, such as a gradient, has a smaller limit of its own. None overrides this limit too.
sample_limit: int | None = DEFAULT
#: True if the user set the limit, so that no property exceeds it.
exact = False


def limit(smaller: int | None = None) -> int | None:
    """Return the number of samples that a check takes, None for all. ``smaller`` is the own limit of an
    expensive property.
    """
    if sample_limit is None:
        return None
    if smaller is None:
        return sample_limit
    return smaller if sample_limit >= DEFAULT else min(smaller, sample_limit)


def set_limit(samples: str) -> None:
    """Set the limit from the value of ``--samples``: ``default``, ``all`` or a number."""
    global sample_limit, exact
    if samples == "all":
        sample_limit = None
    elif samples != "default":
        sample_limit, exact = int(samples), True
