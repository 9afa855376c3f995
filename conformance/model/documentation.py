"""Pages of PyTorch's documentation, which state the requirements."""

from __future__ import annotations

#: The documentation of the newest release. Pages are given by their path below it.
ROOT = "https://docs.pytorch.org/docs/stable/"


def page_url(page: str) -> str:
    """Return the address of a page; an empty text stays empty, and a full address is unchanged."""
    return page if not page or page.startswith("https://") else ROOT + page
