"""Errors that a person can do something about; the command line turns them into exit code 2."""

from __future__ import annotations


class UsageError(Exception):
    """A wrong argument, a wrong file or an unfit target; the message is one sentence with the way out."""
