"""Modules as syntax trees: the statements that bind the names at their top."""

from __future__ import annotations

import ast
import functools
import importlib.util
from collections.abc import Iterator, Mapping

#: (module, name) of a definition.
Place = tuple[str, str]
Import = (ast.Import, ast.ImportFrom)


class Unwritable(Exception):
    """Something has no form as source text."""


def inlined(module: str) -> bool:
    """Return whether definitions of a module are copied: the suite's, and torch's own for tests."""
    return module.split(".")[0] == "conformance" or module.startswith("torch.testing._internal")


@functools.cache
def tree_of(module: str) -> ast.Module:
    """The syntax tree of a module's file; raises :class:`Unwritable` if it has no source."""
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        raise Unwritable(f"module {module} has no source")
    with open(spec.origin, encoding="utf-8") as file:
        return ast.parse(file.read())


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        if isinstance(node, ast.If) and ast.unparse(node.test) != "TYPE_CHECKING":
            yield from _statements([*node.body, *node.orelse])
        elif isinstance(node, ast.Try):
            yield from _statements(node.body)
        else:
            yield node


def bound_by(node: ast.stmt) -> list[str]:
    """The names that a statement at the top of a module binds."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return [node.name]
    if isinstance(node, Import):
        return [alias.asname or alias.name.split(".")[0] for alias in node.names]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", ast.Pass())]
    return [part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)]


@functools.cache
def bindings(module: str) -> Mapping[str, ast.stmt]:
    """The statements that bind the names at the top of a module: the last of them, for values the first."""
    statements: dict[str, ast.stmt] = {}
    for node in _statements(tree_of(module).body):
        for name in bound_by(node):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef, *Import)) or name not in statements:
                statements[name] = node
    return statements


@functools.cache
def is_module(name: str) -> bool:
    """Return whether there is a module of that name."""
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, AttributeError, ValueError):
        return False


def source_of(node: ast.ImportFrom, module: str) -> str:
    """The full name of the module from which a statement in ``module`` imports."""
    package = module.rsplit(".", node.level)[0] if node.level else None
    return importlib.util.resolve_name("." * bool(node.level) + (node.module or ""), package)


def imported(node: ast.Import | ast.ImportFrom, module: str, name: str) -> tuple[str, str | None, str]:
    """(module, attribute of it or None, statement) of the import that binds ``name`` in ``module``."""
    alias = next(alias for alias in node.names if name in (alias.asname, alias.name.split(".")[0]))
    if isinstance(node, ast.Import):
        return alias.name if alias.asname else name, None, ast.unparse(ast.Import([alias]))
    source = source_of(node, module)
    return source, alias.name, ast.unparse(ast.ImportFrom(source, [alias], 0))
