"""The error that a user can fix. The command line prints its message and exits with code 2."""

from __future__ import annotations


class UsageError(Exception):
    """An argument, a file or the target is invalid. The message is one sentence that includes the remedy."""
