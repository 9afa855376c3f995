"""Names of the public contract exist, and its operators have the schemas of its document.

``contract_names.txt`` is written by hand; ``contract.py`` writes the other lists from the document.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch.ao.quantization.fx import _decomposed  # noqa: F401  (registers quantized_decomposed)

from . import contract

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


@pytest.mark.parametrize("line", contract.NAMES.read_text().splitlines())
def test_a_name_of_the_tables_exists(line: str) -> None:
    module, name = line.split(" ")
    if name.startswith(("quantizer", "quantize_pt2e")):
        pytest.importorskip("torchao", reason="torchao is not installed.")
    assert contract.has(module, name)


def _types(schema: torch._C.FunctionSchema) -> tuple[list[tuple[str, str]], list[str]]:
    # A dtype whose default is None is optional, whether or not the document says so.
    arguments = [
        (a.name, "Optional[int]" if a.has_default_value() and a.default_value is None else str(a.type))
        for a in schema.arguments
        if str(a.type) in ("int", "Optional[int]")
    ]
    others = [(a.name, str(a.type)) for a in schema.arguments if str(a.type) not in ("int", "Optional[int]")]
    return arguments + others, [str(one.type) for one in schema.returns]


def _schemas() -> dict[str, list[torch._C.FunctionSchema]]:
    """The schemas of the document by name: two if lazy and eager libraries differ."""
    found: dict[str, list[torch._C.FunctionSchema]] = {}
    for line in contract.OPERATORS.read_text().splitlines():
        schema = torch._C.parse_schema(line)
        found.setdefault(f"{schema.name}.{schema.overload_name}", []).append(schema)
    return found


@pytest.mark.parametrize(("name", "schemas"), list(_schemas().items()), ids=list(_schemas()))
def test_an_operator_of_the_contract_has_its_schema(
    name: str, schemas: list[torch._C.FunctionSchema]
) -> None:
    namespace, _, rest = name.partition("::")
    bare, _, overload = rest.partition(".")
    if namespace == "torchvision":
        pytest.importorskip("torchvision", reason="torchvision is not installed.")
    known = torch._C._get_operation_overload(f"{namespace}::{bare}", overload)
    assert known is not None, name
    own = torch._C._get_schema(f"{namespace}::{bare}", overload)
    if namespace == "quantized_decomposed":
        return  # they are torch's, which has given an argument another name since
    assert _types(own) in [_types(one) for one in schemas], own
