"""Read modules as syntax trees, and find the statements that bind their top-level names."""

from __future__ import annotations

import ast
import functools
import importlib.util
from collections.abc import Iterator, Mapping

#: A definition, as (module, name).
Place = tuple[str, str]
Import = (ast.Import, ast.ImportFrom)


class NotWritableAsSource(Exception):
    """A value or a definition cannot be written as source text."""


def is_inlined_module(module: str) -> bool:
    """Return whether snippets copy definitions of a module: a module of the suite, or of torch's testing
    package.
    """
    return module.split(".")[0] == "conformance" or module.startswith("torch.testing._internal")


@functools.cache
def tree_of(module: str) -> ast.Module:
    """Return the syntax tree of a module's file.

    Raise :class:`NotWritableAsSource` if the module has no source.
    """
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        raise NotWritableAsSource(f"module {module} has no source")
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


def names_bound_by(node: ast.stmt) -> list[str]:
    """Return the names that a top-level statement binds."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return [node.name]
    if isinstance(node, Import):
        return [alias.asname or alias.name.split(".")[0] for alias in node.names]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", ast.Pass())]
    return [part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)]


@functools.cache
def statements_by_name(module: str) -> Mapping[str, ast.stmt]:
    """Return for each top-level name of a module the statement that binds it.

    If several statements bind a name, return the last one that defines (function or class) or imports it.
    Without such a statement, return the first assignment.
    """
    statements: dict[str, ast.stmt] = {}
    for node in _statements(tree_of(module).body):
        for name in names_bound_by(node):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef, *Import)) or name not in statements:
                statements[name] = node
    return statements


@functools.cache
def is_module(name: str) -> bool:
    """Return whether a module of that name exists."""
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, AttributeError, ValueError):
        return False


def imported_module_name(node: ast.ImportFrom, module: str) -> str:
    """Return the full name of the module from which a statement in ``module`` imports."""
    package = module.rsplit(".", node.level)[0] if node.level else None
    return importlib.util.resolve_name("." * bool(node.level) + (node.module or ""), package)


def import_of_name(node: ast.Import | ast.ImportFrom, module: str, name: str) -> tuple[str, str | None, str]:
    """Return (imported module, imported name, statement) of the import that binds ``name`` in ``module``.

    ``node`` is the import. The imported name is None if ``node`` imports a whole module.
    """
    alias = next(alias for alias in node.names if name in (alias.asname, alias.name.split(".")[0]))
    if isinstance(node, ast.Import):
        return alias.name if alias.asname else name, None, ast.unparse(ast.Import([alias]))
    source = imported_module_name(node, module)
    return source, alias.name, ast.unparse(ast.ImportFrom(source, [alias], 0))
