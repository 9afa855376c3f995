"""Taking out of a script what nothing in it uses."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

#: Names of definitions that were collected, before they get readable ones.
_COLLECTED = re.compile(r"_q\d+q_")


def shaken(text: str) -> str:
    """The script without collected definitions that nothing names and methods that nothing calls.

    A class that has a base from elsewhere keeps its methods: whoever made the base may call them.
    """
    while True:
        tree = ast.parse(text)
        unused = list(_unused(tree))
        if not unused:
            return re.sub(r"\n{4,}", "\n\n\n", text)
        lines = text.split("\n")
        for first, last in sorted(unused, reverse=True):
            del lines[first - 1 : last]
        text = "\n".join(lines)


def _span(node: ast.stmt) -> tuple[int, int]:
    decorators = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(one.lineno for one in decorators)])
    return first, node.end_lineno or node.lineno


def _unused(tree: ast.Module) -> Iterator[tuple[int, int]]:
    named: dict[str, int] = {}
    words: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            named[node.id] = named.get(node.id, 0) + 1
        elif isinstance(node, ast.Attribute):
            words.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            words.update(re.findall(r"\w+", node.value) if len(node.value) < 200 else ())
        elif isinstance(node, ast.Global):
            for name in node.names:
                named[name] = named.get(name, 0) + 1
    classes = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    for statement in tree.body:
        own = _name(statement)
        if own is not None and _COLLECTED.match(own) and _uses(statement, own, named) == 0:
            yield _span(statement)
        elif isinstance(statement, ast.ClassDef) and all(
            isinstance(base, ast.Name) and base.id in classes for base in statement.bases
        ):
            yield from _methods(statement, words)


def _name(node: ast.stmt) -> str | None:
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return node.name
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    return None


def _uses(node: ast.stmt, name: str, named: dict[str, int]) -> int:
    """How often a definition is named outside of itself."""
    own = sum(isinstance(one, ast.Name) and one.id == name for one in ast.walk(node))
    return named.get(name, 0) - own


def _methods(node: ast.ClassDef, words: set[str]) -> Iterator[tuple[int, int]]:
    for method in node.body:
        if not isinstance(method, ast.FunctionDef) or len(node.body) == 1:
            continue
        if not method.name.startswith("__") and method.name not in words:
            yield _span(method)
