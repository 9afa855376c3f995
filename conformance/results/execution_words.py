"""Sentences that the worker and the ledger share; no torch here."""

from __future__ import annotations


def unusable(message: str) -> str:
    """The words in which a poisoned device is reported."""
    return f"left the device unusable: {message}"
