"""Test import rules that the import contracts of pyproject.toml cannot check."""

from __future__ import annotations

import ast
from pathlib import Path

import habana_frameworks.torch as ht

PACKAGE = Path(ht.__file__).parent


def _names_from_the_package(path: Path) -> set[str]:
    """Return the names that a module imports from `habana_frameworks.torch` itself, absolutely or
    relatively.
    """
    inside = path.relative_to(PACKAGE).parts[:-1]
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            absolute = node.level == 0 and node.module == "habana_frameworks.torch"
            relative = node.level == len(inside) + 1 and node.module is None
            if absolute or relative:
                names.update(alias.name for alias in node.names)
    return names


def test_only_the_core_is_imported_from_the_package_itself():
    """The import contracts ignore imports of `_C`, because the core has no Python source.

    An import of any other name from the package itself would be a cycle.
    """
    parts = {path.stem for path in PACKAGE.glob("*.py")} | {path.name for path in PACKAGE.glob("*/")}
    modules = [path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py"]
    names = {name for path in modules for name in _names_from_the_package(path)}
    assert names - parts == {"_C"}
