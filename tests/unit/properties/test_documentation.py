"""Every property names the page of PyTorch's documentation that it rests on."""

from __future__ import annotations

import functools
import importlib
import re

import pytest

from conformance.model.documentation import ROOT, page_url
from conformance.model.vocabulary import KINDS
from conformance.properties.registry import properties

#: Pages that describe one name of torch's; their path ends with it.
_GENERATED = re.compile(r"generated/(torch(?:\.\w+)+)\.html")


@functools.cache
def _pages() -> dict[str, set[str]]:
    pages: dict[str, set[str]] = {}
    for kind in KINDS:
        for entry in properties(kind):
            pages.setdefault(entry.documentation, set()).add(f"{kind} {entry.name}")
    return pages


def _resolve(name: str) -> object:
    parts = name.split(".")
    found: object = importlib.import_module(parts[0])
    for number, part in enumerate(parts[1:], 2):
        if not hasattr(found, part):
            importlib.import_module(".".join(parts[:number]))
        found = getattr(found, part)
    return found


def test_every_property_names_a_page() -> None:
    assert not _pages().get("", set()), "properties without documentation="
    for page in _pages():
        assert re.fullmatch(r"[a-z_/]+[\w./]*\.html", page), page


def test_pages_of_single_names_are_of_names_that_torch_has() -> None:
    names = [found[1] for page in _pages() if (found := _GENERATED.fullmatch(page))]
    assert len(names) > 15
    for name in names:
        _resolve(name)


def test_a_name_that_torch_lacks_is_found() -> None:
    with pytest.raises(ImportError):
        _resolve("torch.func.vjpp")


def test_pages_have_addresses_below_the_documentation() -> None:
    assert page_url("notes/out.html") == ROOT + "notes/out.html"
    assert page_url("https://example.org/page") == "https://example.org/page"
    assert page_url("") == ""
