"""Every property names an existing page of PyTorch's documentation."""

from __future__ import annotations

import functools
import importlib
import re

import pytest
import torch

from conformance.model.documentation import ROOT, page_url
from conformance.model.vocabulary import KINDS
from conformance.properties.registry import properties

#: Matches the path of a page that documents one name of torch. The group of the match is the name.
_GENERATED = re.compile(r"generated/(torch(?:\.\w+)+)\.html")


#: Matches pages outside of PyTorch's main documentation: PyTorch's tutorials and C++ documentation, and other
#: documents to which PyTorch's pages refer.
_OTHER_ADDRESSES = re.compile(
    r"https://(docs\.pytorch\.org/(functorch|tutorials|cppdocs)|docs\.python\.org/3|data-apis\.org/array-api)/"
)


@functools.cache
def _properties_by_page() -> dict[str, set[str]]:
    pages: dict[str, set[str]] = {}
    for kind in KINDS:
        for entry in properties(kind):
            pages.setdefault(entry.documentation, set()).add(f"{kind} {entry.name}")
    return pages


def _object_named(name: str) -> object:
    parts = name.split(".")
    resolved: object = importlib.import_module(parts[0])
    for number, part in enumerate(parts[1:], 2):
        if not hasattr(resolved, part):
            # The attribute ``torch.autograd.gradcheck`` is a function. The module of the same name contains
            # the function that the page documents.
            resolved = importlib.import_module(".".join(parts[: number - 1]))
        if not hasattr(resolved, part):
            importlib.import_module(".".join(parts[:number]))
        resolved = getattr(resolved, part)
    return resolved


def test_every_property_names_a_page() -> None:
    assert not _properties_by_page().get("", set()), "properties without documentation="
    for page in _properties_by_page():
        assert re.fullmatch(r"[a-z_/]+[\w./]*\.html", page) or _OTHER_ADDRESSES.match(page), page


def test_pages_of_a_single_name_document_an_existing_name() -> None:
    names = {match[1] for page in _properties_by_page() if (match := _GENERATED.fullmatch(page))}
    assert len(names) > 15
    # This function exists only in newer releases of torch. The release exclusions require its property only
    # there.
    names -= {"torch.accelerator.random.get_rng_state"} if not hasattr(torch.accelerator, "random") else set()
    for name in names:
        _object_named(name)


def test_a_missing_name_is_detected() -> None:
    with pytest.raises(ImportError):
        _object_named("torch.func.vjpp")


def test_pages_have_addresses_below_the_documentation() -> None:
    assert page_url("notes/out.html") == ROOT + "notes/out.html"
    assert page_url("https://example.org/page") == "https://example.org/page"
    assert page_url("") == ""
