"""Choose the number of threads that run the C++ compiler.

The bridge sets ``TORCHINDUCTOR_COMPILE_THREADS`` to 1, because worker processes of Inductor would inherit a
device that they must not use. `hpu_backend` does not start worker processes. It runs the C++ compiler from
threads, on all cores unless the user chose a number.
"""

from __future__ import annotations

import os

_NAME = "TORCHINDUCTOR_COMPILE_THREADS"
_MOST = 32  # the maximum of Inductor

_chosen_by_user = True


def refuse_workers() -> None:
    """Set ``TORCHINDUCTOR_COMPILE_THREADS`` to 1 unless the user has set it."""
    global _chosen_by_user
    _chosen_by_user = _NAME in os.environ
    os.environ.setdefault(_NAME, "1")


def threads() -> int | None:
    """Return the number of threads for the device's compilations, or None if the user has chosen a number."""
    return None if _chosen_by_user else min(_MOST, len(os.sched_getaffinity(0)))
