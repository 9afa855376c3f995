"""The seeds of samples and programs. They depend on names and on the seed of the run, so that they are equal
in every process, shard and retry.
"""

from __future__ import annotations

import os
import zlib

from conformance.errors import UsageError

#: The environment variable with the seed of the run. ``conformance run --seed`` sets it for its processes.
VARIABLE = "CONFORMANCE_SEED"
#: The default seed of the run. Its samples belong to the release, and certificates accept only this
#: seed.
RELEASE_SEED = 0


def seed_of_run() -> int:
    """Return the seed of the run; raise UsageError if the variable is not a whole number."""
    text = os.environ.get(VARIABLE) or str(RELEASE_SEED)
    if not (text.isascii() and text.isdigit()):
        raise UsageError(f"{VARIABLE} is {text!r}; it must be a whole number")
    return int(text)


def seed_for(text: str, run: int | None = None) -> int:
    """Return a 32-bit seed that depends only on ``text`` and on ``run``, the seed of the run (default:
    the seed of this process).
    """
    run = seed_of_run() if run is None else run
    return zlib.crc32((text if run == RELEASE_SEED else f"{text}#{run}").encode())
