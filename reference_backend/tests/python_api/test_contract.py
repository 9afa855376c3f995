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

from . import public_api_contract

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


@pytest.mark.parametrize("line", public_api_contract.NAMES.read_text().splitlines())
def test_a_name_of_the_tables_exists(line: str) -> None:
    module, name = line.split(" ")
    if name.startswith(("quantizer", "quantize_pt2e")):
        pytest.importorskip("torchao", reason="torchao is not installed.")
    assert public_api_contract.has(module, name)


def _types(schema: torch._C.FunctionSchema) -> tuple[list[tuple[object, ...]], list[str]]:
    arguments = []
    for one in schema.arguments:
        kind = str(one.type)
        if kind == "int" and one.has_default_value() and one.default_value is None:
            kind = "Optional[int]"  # a dtype whose default is None, whether or not the document says so
        default = one.default_value if one.has_default_value() else "none"
        written = one.alias_info is not None and one.alias_info.is_write
        arguments.append((one.name, kind, repr(default), one.kwarg_only, written))
    return arguments, [str(one.type) for one in schema.returns]


def _schemas() -> dict[str, list[torch._C.FunctionSchema]]:
    """The schemas of the document by name: two if lazy and eager libraries differ."""
    found: dict[str, list[torch._C.FunctionSchema]] = {}
    for line in public_api_contract.OPERATORS.read_text().splitlines():
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
    if rest == "randperm_out_ds_ht.":
        # It returns its last argument, which the document does not mark as written.
        assert own.arguments[-1].alias_info.is_write
        return
    if namespace == "quantized_decomposed":
        return  # they are torch's, which has given an argument another name since
    assert _types(own) in [_types(one) for one in schemas], own
