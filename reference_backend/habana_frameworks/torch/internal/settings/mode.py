"""Determine the lazy mode of the process, and whether its torch is a public or a fork-like build."""

from __future__ import annotations

import functools
import os

from . import bridge_config
from .environment import read_variable

# Values of PT_HPU_LAZY_MODE. 0: eager and torch.compile; 1: lazy; 2: lazy, flushed after each operator;
# 3: lazy, flushed at random (for debugging).
LAZY_MODES = (0, 1, 2, 3)


def requested_lazy_mode() -> int:
    """Return the value of ``PT_HPU_LAZY_MODE`` (default 0).

    Raises:
        ValueError: the value is not 0, 1, 2 or 3.
    """
    try:
        mode = read_variable("PT_HPU_LAZY_MODE", "u32", 0)
    except ValueError:
        mode = -1
    if mode not in LAZY_MODES:
        raise ValueError(
            f"PT_HPU_LAZY_MODE={os.environ['PT_HPU_LAZY_MODE']!r} is not a mode. Use 0 (eager and "
            "torch.compile), 1 (lazy), 2 (lazy, flushed after each operator) or 3 (lazy, flushed at random)."
        )
    return int(mode)


def is_fork_like(torch_version: str) -> bool:
    """Return whether a torch version belongs to a fork-like build.

    As in the Intel Gaudi bridge, a build is fork-like if its local version label (after ``+``) begins with
    ``git`` or ``hpu``. A version without a label is a public build.
    """
    return torch_version.partition("+")[2].startswith(("git", "hpu"))


def check_lazy_mode(torch_version: str) -> int:
    """Return the lazy mode of the process (0: not lazy). Reject lazy modes on public builds of torch.

    Raises:
        ValueError: ``PT_HPU_LAZY_MODE`` is not a valid mode.
        AssertionError: a lazy mode was requested on a public build. The Intel Gaudi bridge also raises
            AssertionError.
    """
    mode = requested_lazy_mode()
    if mode and not is_fork_like(torch_version):
        raise AssertionError(
            f"PT_HPU_LAZY_MODE={mode} needs a fork-like build of torch, and {torch_version} is a public "
            "build. Set PT_HPU_LAZY_MODE=0, or install a torch whose local version label begins with git or "
            "hpu."
        )
    return mode


@functools.cache
def is_lazy() -> bool:
    """Return whether the process runs in lazy mode. The first result is cached."""
    return bridge_config.value_of("PT_HPU_LAZY_MODE") != 0
