"""The error that a user can fix. The command line prints its message and exits with code 2."""

from __future__ import annotations

#: The exit code if the reader of the output closed the pipe. Shells report this code for SIGPIPE.
OUTPUT_CLOSED = 141


class UsageError(Exception):
    """An argument, a file or the target is invalid. The message is one sentence that includes the remedy."""
