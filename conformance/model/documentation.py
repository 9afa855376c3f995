"""Addresses of the pages of PyTorch's documentation that state the requirements."""

from __future__ import annotations

#: The documentation of the newest release. Properties give the path of a page below this address.
ROOT = "https://docs.pytorch.org/docs/stable/"


def page_url(page: str) -> str:
    """Return the address of a page from its path. An empty path and a full address are returned unchanged."""
    return page if not page or page.startswith("https://") else ROOT + page
