"""Test that the documented public names exist, and that operators have the documented schemas.

``contract_names.txt`` is written by hand. ``public_api_contract.py`` writes ``contract_tables.txt`` and
``contract_operators.txt`` from the document of the public API.
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


def listed_names(text: str) -> Iterator[tuple[str, str]]:
    """Yield (module, name) for each listed name. For a module without listed names, the name is empty."""
    for line in text.splitlines():
        if line and not line.startswith("#"):
            module, _, names_text = line.partition(":")
            yield from ((module, name) for name in names_text.split() or [""])


def name_exists(module: str, name: str) -> bool:
    try:
        # A module without listed names is not imported: the import of gpu_migration changes torch for the
        # whole process.
        imported = importlib.import_module(module) if name else importlib.util.find_spec(module)
    except ModuleNotFoundError:
        return False
    return hasattr(imported, name) if name else imported is not None


@pytest.mark.parametrize(("module", "name"), list(listed_names(_NAMES)))
def test_a_name_of_the_contract_exists(module: str, name: str) -> None:
    if "quantizer" in (module.rpartition(".")[2], name) or name == "quantize_pt2e":
        pytest.importorskip("torchao", reason="torchao is not installed.")
    assert name_exists(module, name)


@pytest.mark.parametrize("line", public_api_contract.NAMES.read_text().splitlines())
def test_a_name_of_the_tables_exists(line: str) -> None:
    module, name = line.split(" ")
    if name.startswith(("quantizer", "quantize_pt2e")):
        pytest.importorskip("torchao", reason="torchao is not installed.")
    assert public_api_contract.has_name(module, name)


def _comparable_types(schema: torch._C.FunctionSchema) -> tuple[list[tuple[object, ...]], list[str]]:
    arguments = []
    for argument in schema.arguments:
        kind = str(argument.type)
        if kind == "int" and argument.has_default_value() and argument.default_value is None:
            kind = "Optional[int]"  # the default None makes a type optional, even without "?"
        default = argument.default_value if argument.has_default_value() else "none"
        written = argument.alias_info is not None and argument.alias_info.is_write
        arguments.append((argument.name, kind, repr(default), argument.kwarg_only, written))
    return arguments, [str(argument.type) for argument in schema.returns]


def _documented_schemas() -> dict[str, list[torch._C.FunctionSchema]]:
    """Return the documented schemas by name. A name has two schemas if lazy and eager mode differ."""
    schemas: dict[str, list[torch._C.FunctionSchema]] = {}
    for line in public_api_contract.OPERATORS.read_text().splitlines():
        schema = torch._C.parse_schema(line)
        schemas.setdefault(f"{schema.name}.{schema.overload_name}", []).append(schema)
    return schemas


@pytest.mark.parametrize(
    ("name", "schemas"), list(_documented_schemas().items()), ids=list(_documented_schemas())
)
def test_an_operator_of_the_contract_has_its_schema(
    name: str, schemas: list[torch._C.FunctionSchema]
) -> None:
    namespace, _, rest = name.partition("::")
    bare, _, overload = rest.partition(".")
    if namespace == "torchvision":
        pytest.importorskip("torchvision", reason="torchvision is not installed.")
    registered = torch._C._get_operation_overload(f"{namespace}::{bare}", overload)
    assert registered is not None, name
    own = torch._C._get_schema(f"{namespace}::{bare}", overload)
    if rest == "randperm_out_ds_ht.":
        # The operator writes and returns its last argument. The document does not mark the argument as
        # written, so the schemas differ.
        assert own.arguments[-1].alias_info.is_write
        return
    if namespace == "quantized_decomposed":
        return  # torch's own operators; torch has renamed an argument since the document was written
    assert _comparable_types(own) in [_comparable_types(schema) for schema in schemas], own
