"""Pages of PyTorch's documentation, which promises rest on."""

from __future__ import annotations

#: The documentation of the newest release; pages are named by their path below it.
ROOT = "https://docs.pytorch.org/docs/stable/"


def address(page: str) -> str:
    """Return the address of a page, an empty text for an empty one; whole addresses stay as they are."""
    return page if not page or page.startswith("https://") else ROOT + page
