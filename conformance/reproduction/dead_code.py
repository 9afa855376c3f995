"""Remove the statements and methods that a script does not need."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from conformance.reproduction.module_ast import names_bound_by

#: Matches the temporary names of collected definitions.
COLLECTED = re.compile(r"\b_q\d+q_\w+")


def needed_statements(statements: Sequence[ast.stmt], main: str) -> list[ast.stmt]:
    """Return the statements that ``main`` needs, with classes reduced to the methods that are called.

    A class keeps all methods if a base class is not in the script, because the base may call them.
    """
    classes = {node.name for node in statements if isinstance(node, ast.ClassDef)}
    used = _used_names(ast.parse(main))
    waiting: list[ast.AST] = list(statements)
    needed_nodes: set[ast.AST] = set()
    while True:
        reached = [
            node for node in waiting if used.intersection(_bound_names(node)) or not _bound_names(node)
        ]
        if not reached:
            break
        for node in reached:
            waiting.remove(node)
            needed_nodes.add(node)
            methods = _removable_methods(node, classes)
            waiting.extend(methods)
            used |= _used_names(node, set(methods))
    for node in needed_nodes:
        if isinstance(node, ast.ClassDef):
            dropped = set(_removable_methods(node, classes)) - needed_nodes
            node.body = [part for part in node.body if part not in dropped] or [ast.Pass()]
    return [node for node in statements if node in needed_nodes]


def _bound_names(node: ast.AST) -> list[str]:
    return names_bound_by(node) if isinstance(node, ast.stmt) else []


def _removable_methods(node: ast.AST, classes: set[str]) -> list[ast.AST]:
    """Return the methods of a class that can be removed if no code reads an attribute with their name."""
    if not isinstance(node, ast.ClassDef) or not {ast.unparse(base) for base in node.bases} <= classes:
        return []
    return [part for part in node.body if isinstance(part, ast.FunctionDef) and part.name[:2] != "__"]


def _used_names(node: ast.AST, without: set[ast.AST] = frozenset()) -> set[str]:  # type: ignore[assignment]
    """Return the names that a node may use.

    The names are the collected names in the node, the attributes that the node reads and, because of
    ``getattr``, the words in its strings.
    """
    used: set[str] = set()
    waiting = [node]
    while waiting:
        part = waiting.pop()
        if isinstance(part, ast.Name):
            used.update(COLLECTED.findall(part.id))
        elif isinstance(part, ast.Attribute):
            used.add(part.attr)
        elif isinstance(part, ast.Global):
            used.update(part.names)
        elif isinstance(part, ast.Constant) and isinstance(part.value, str) and len(part.value) < 200:
            used.update(re.findall(r"\w+", part.value))
        waiting.extend(child for child in ast.iter_child_nodes(part) if child not in without)
    return used
