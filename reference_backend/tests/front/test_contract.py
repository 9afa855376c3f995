"""Names of the public contract: all exist."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

_NAMES = (Path(__file__).parent / "contract_names.txt").read_text()


def names(text: str) -> Iterator[tuple[str, str]]:
    """Each module with each of its names; a module without names with an empty one."""
    for line in text.splitlines():
        if line and not line.startswith("#"):
            module, _, words = line.partition(":")
            yield from ((module, word) for word in words.split() or [""])


def exists(module: str, name: str) -> bool:
    try:
        # A module without names is not imported: to import gpu_migration changes torch for the whole process.
        found = importlib.import_module(module) if name else importlib.util.find_spec(module)
    except ModuleNotFoundError:
        return False
    return hasattr(found, name) if name else found is not None


@pytest.mark.parametrize(("module", "name"), list(names(_NAMES)))
def test_a_name_of_the_contract_exists(module: str, name: str) -> None:
    if "quantizer" in (module.rpartition(".")[2], name) or name == "quantize_pt2e":
        pytest.importorskip("torchao", reason="torchao is not installed.")
    assert exists(module, name)
