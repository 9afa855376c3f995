"""Choose the number of threads that run the C++ compiler.

This package sets ``TORCHINDUCTOR_COMPILE_THREADS`` to 1, because worker processes of Inductor would inherit a
device that they must not use. `hpu_backend` does not start worker processes. It runs the C++ compiler from
threads, on all cores unless the user chose a number.
"""

from __future__ import annotations

import os

_NAME = "TORCHINDUCTOR_COMPILE_THREADS"
_MAX_THREADS = 32  # Inductor has the same default maximum

_chosen_by_user = True


def disable_worker_processes() -> None:
    """Set ``TORCHINDUCTOR_COMPILE_THREADS`` to 1 unless the user has set it."""
    global _chosen_by_user
    _chosen_by_user = _NAME in os.environ
    os.environ.setdefault(_NAME, "1")


def compile_thread_count() -> int | None:
    """Return the number of threads for the device's compilations, or None if the user has chosen a number."""
    return None if _chosen_by_user else min(_MAX_THREADS, len(os.sched_getaffinity(0)))
