"""Threads in which the C++ compiler runs.

The bridge sets ``TORCHINDUCTOR_COMPILE_THREADS`` to 1, since worker processes of Inductor would inherit a
device that they must not use. `hpu_backend` starts no such processes: it runs the C++ compiler from threads,
on all cores unless the user chose a number.
"""

from __future__ import annotations

import os

_NAME = "TORCHINDUCTOR_COMPILE_THREADS"
_MOST = 32  # as Inductor

_chosen_by_user = True


def refuse_workers() -> None:
    """Set the variable to 1 unless the user has set it."""
    global _chosen_by_user
    _chosen_by_user = _NAME in os.environ
    os.environ.setdefault(_NAME, "1")


def threads() -> int | None:
    """Threads for the device's own compilations, or None if the user has chosen for all of Inductor."""
    return None if _chosen_by_user else min(_MOST, len(os.sched_getaffinity(0)))
