"""Modules as syntax trees: what binds the names at their top."""

from __future__ import annotations

import ast
import functools
import importlib.util
from collections.abc import Iterator, Mapping

#: (module, name) of a definition.
Place = tuple[str, str]


class Unwritable(Exception):
    """Something has no form as source text."""


def inlined(module: str) -> bool:
    """Whether definitions of a module are copied: the suite's, and torch's private ones for its tests."""
    return module.split(".")[0] == "conformance" or module.startswith("torch.testing._internal")


@functools.cache
def tree_of(module: str) -> ast.Module:
    """The syntax tree of a module's file."""
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        raise Unwritable(f"module {module} has no source")
    with open(spec.origin, encoding="utf-8") as file:
        return ast.parse(file.read())


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        if isinstance(node, ast.If):
            if not (isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"):
                yield from _statements(node.body)
                yield from _statements(node.orelse)
        elif isinstance(node, ast.Try):
            yield from _statements(node.body)
        else:
            yield node


def targets(node: ast.stmt) -> list[str]:
    """The names that an assignment binds."""
    if isinstance(node, ast.Assign):
        found = node.targets
    elif isinstance(node, (ast.AnnAssign, ast.AugAssign)):
        found = [node.target]
    else:
        return []
    return [one.id for target in found for one in ast.walk(target) if isinstance(one, ast.Name)]


@functools.cache
def bindings(module: str) -> Mapping[str, ast.stmt]:
    """The statements that bind the names at the top of a module."""
    found: dict[str, ast.stmt] = {}
    for node in _statements(tree_of(module).body):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found[node.name] = node
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                found[alias.asname or alias.name.split(".")[0]] = node
        else:
            for name in targets(node):
                found.setdefault(name, node)
    return found


def module_of(node: ast.ImportFrom, module: str) -> str:
    """The full name of the module that a statement in ``module`` imports from."""
    if not node.level:
        return node.module or ""
    package = module.rsplit(".", node.level)[0]
    return f"{package}.{node.module}" if node.module else package


def is_module(name: str) -> bool:
    """Whether there is a module of that name."""
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, AttributeError, ValueError):
        return False


class Binding:
    """What an import binds a name to: a module, or an attribute of one."""

    def __init__(self, module: str, attribute: str | None, text: str) -> None:
        self.module = module
        self.attribute = attribute
        self.text = text

    @staticmethod
    def of(node: ast.Import | ast.ImportFrom, module: str, name: str) -> Binding:
        for alias in node.names:
            if (alias.asname or alias.name.split(".")[0]) != name:
                continue
            if isinstance(node, ast.Import):
                full = alias.name if alias.asname else alias.name.split(".")[0]
                return Binding(full, None, ast.unparse(ast.Import([alias])))
            source = module_of(node, module)
            text = f"from {source} import {alias.name}" + (f" as {alias.asname}" if alias.asname else "")
            return Binding(source, alias.name, text)
        raise Unwritable(f"{module} does not import {name}")
