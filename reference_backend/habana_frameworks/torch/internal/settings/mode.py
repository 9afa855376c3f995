"""The mode of the process, and the kind of torch build that it runs on."""

from __future__ import annotations

import functools
import os

from . import bridge_config
from .environment import read

# 0 eager and torch.compile, 1 lazy, 2 lazy flushed after each operator, 3 lazy flushed at random (for
# debugging).
LAZY_MODES = (0, 1, 2, 3)


def requested_lazy_mode() -> int:
    """Value of ``PT_HPU_LAZY_MODE`` (default 0).

    Raises:
        ValueError: the value is not 0, 1, 2 or 3.
    """
    try:
        mode = read("PT_HPU_LAZY_MODE", "u32", 0)
    except ValueError:
        mode = -1
    if mode not in LAZY_MODES:
        raise ValueError(
            f"PT_HPU_LAZY_MODE={os.environ['PT_HPU_LAZY_MODE']!r} is not a mode: use 0 (eager and "
            "torch.compile), 1 (lazy), 2 (lazy, flushed after each operator) or 3 (lazy, flushed at random)"
        )
    return int(mode)


def is_fork_like(torch_version: str) -> bool:
    """Say whether a torch version belongs to a fork-like build.

    The rule is that of the public bridge: the local version label (after ``+``) begins with ``git`` or
    ``hpu``. A version without a label is that of a public build.
    """
    return torch_version.partition("+")[2].startswith(("git", "hpu"))


def check_lazy_mode(torch_version: str) -> int:
    """Return the lazy mode of the process, 0 for none; refuse lazy modes on builds that cannot run them.

    Raises:
        ValueError: ``PT_HPU_LAZY_MODE`` is not a known mode.
        AssertionError: a lazy mode on a public build of torch (the type that the public bridge raises).
    """
    mode = requested_lazy_mode()
    if mode and not is_fork_like(torch_version):
        raise AssertionError(
            f"PT_HPU_LAZY_MODE={mode} needs a fork-like build of torch and {torch_version} is a public one: "
            "set PT_HPU_LAZY_MODE=0, or install a torch whose local version label begins with git or hpu"
        )
    return mode


@functools.cache
def is_lazy() -> bool:
    """Say whether the process runs in lazy mode. The first answer stays."""
    return bridge_config.value_of("PT_HPU_LAZY_MODE") != 0
