"""Errors that the user can fix; the command line turns them into exit code 2."""

from __future__ import annotations


class UsageError(Exception):
    """A wrong argument, a wrong file or an unfit target. The message is one sentence that includes the
    remedy.
    """
