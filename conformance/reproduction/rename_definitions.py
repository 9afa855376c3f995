"""Rewrite the syntax tree of a definition for a snippet: names of other definitions become their names in the
snippet.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection
from typing import Any, Protocol

from conformance.reproduction.module_ast import (
    Import,
    import_of_name,
    imported_module_name,
    is_module,
    statements_by_name,
)

_SCOPES = (
    ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda,
    ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp,
)  # fmt: skip

#: Decorators that register a definition with the suite, or add the CPU control to a check.
_OF_THE_SUITE = ("register", "behaviour", "controlled_by_cpu")


class DefinitionNames(Protocol):
    """Provides the names of definitions in the new file."""

    def add_definition(self, module: str, name: str) -> str:
        """Return the name of a definition in the new file. The definition is added if necessary."""

    def is_inlined(self, module: str) -> bool:
        """Return whether definitions of a module are copied, not imported."""


class NameRewriter(ast.NodeTransformer):
    """Replaces the top-level names of a module by their names in the new file.

    ``local`` names are bound by an enclosing scope and are not replaced.

    Docstrings, annotations and the decorators that register a definition with the suite are removed.
    """

    def __init__(self, names: DefinitionNames, module: str, local: Collection[str] = ()) -> None:
        self.names = names
        self.module = module
        #: Behaviours may pass functions to torch, and torch may read the annotations of these functions.
        self.keeps_annotations = module.startswith("conformance.properties.api")
        self.in_class = False
        self.scopes: list[Collection[str]] = [local]

    def _binding_statement(self, name: str) -> ast.stmt | None:
        """Return the top-level statement that binds a name, or None if an inner scope hides it."""
        hidden = any(name in scope for scope in self.scopes)
        return None if hidden else statements_by_name(self.module).get(name)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """Replace a name of the module. Names that a class body binds are not replaced."""
        of_class = self.in_class and isinstance(node.ctx, ast.Store)
        if of_class or self._binding_statement(node.id) is None:
            return node
        return ast.Name(self.names.add_definition(self.module, node.id), node.ctx)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """Replace ``module.name`` as a whole."""
        module = self._denoted_module(node.value)
        if module is None:
            return self.generic_visit(node)
        return ast.Name(self.names.add_definition(module, node.attr), node.ctx)

    def _denoted_module(self, node: ast.expr) -> str | None:
        """Return the module of the suite that an expression denotes, or None."""
        if isinstance(node, ast.Attribute):
            outer = self._denoted_module(node.value)
            return f"{outer}.{node.attr}" if outer and is_module(f"{outer}.{node.attr}") else None
        binding = self._binding_statement(node.id) if isinstance(node, ast.Name) else None
        if not isinstance(node, ast.Name) or not isinstance(binding, Import):
            return None
        source, attribute, _ = import_of_name(binding, self.module, node.id)
        full = f"{source}.{attribute}" if attribute else source
        return full if self.names.is_inlined(full) and is_module(full) else None

    def visit_Global(self, node: ast.Global) -> ast.AST:
        """Replace the names of a ``global`` statement."""
        return ast.Global([self.names.add_definition(self.module, name) for name in node.names])

    def visit_ImportFrom(self, node: ast.ImportFrom) -> Any:
        """Replace an import from the suite inside a function by assignments."""
        source = imported_module_name(node, self.module)
        if not self.names.is_inlined(source):
            return node
        return [
            ast.Assign(
                [ast.Name(alias.asname or alias.name, ast.Store())],
                ast.Name(self.names.add_definition(source, alias.name), ast.Load()),
            )
            for alias in node.names
        ]

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Rewrite a function: decorators and defaults in the outer scope, the body in its own scope."""
        node.decorator_list = [
            self.visit(call)
            for call in node.decorator_list
            if ast.unparse(call.func if isinstance(call, ast.Call) else call) not in _OF_THE_SUITE
        ]
        node.returns = self._kept_annotation(node.returns)
        node.args = self.visit(node.args)
        _drop_docstring(node)
        in_class, self.in_class = self.in_class, False
        self._visit_scope(node)
        self.in_class = in_class
        return node

    visit_AsyncFunctionDef = visit_FunctionDef  # type: ignore[assignment]

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        """Rewrite a lambda: defaults in the outer scope, the body in its own scope."""
        node.args = self.visit(node.args)
        return self._visit_scope(node)

    def _visit_scope(self, node: Any) -> ast.AST:
        self.scopes.append(_names_bound_in(node))
        self.generic_visit(node)
        self.scopes.pop()
        return node  # type: ignore[no-any-return]

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _visit_scope

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        """Rewrite a class. Names bound in its body do not hide names from its methods."""
        _drop_docstring(node)
        in_class, self.in_class = self.in_class, True
        self.generic_visit(node)
        self.in_class = in_class
        return node

    def _kept_annotation(self, node: ast.expr | None) -> Any:
        # The annotation ``Lab`` is removed: the class belongs to the suite, and torch never receives a
        # function with such an argument.
        is_retained = self.keeps_annotations and node is not None and ast.unparse(node) != "Lab"
        return self.visit(node) if is_retained and node is not None else None

    def visit_arg(self, node: ast.arg) -> ast.AST:
        """Drop the annotation of an argument unless torch may read it."""
        node.annotation = self._kept_annotation(node.annotation)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        """Replace an annotated assignment by a plain one. Fields of classes keep an annotation."""
        if self.in_class:
            if self.keeps_annotations:
                node.annotation = self.visit(node.annotation)
            elif not re.search(r"ClassVar|InitVar|KW_ONLY", ast.unparse(node.annotation)):
                node.annotation = ast.Name("object", ast.Load())
            node.value = self.visit(node.value) if node.value else None
            return node
        return self.visit(ast.Assign([node.target], node.value)) if node.value else ast.Pass()


def _drop_docstring(node: ast.FunctionDef | ast.ClassDef) -> None:
    if ast.get_docstring(node, clean=False) is not None:
        node.body = node.body[1:] or [ast.Pass()]


def _names_bound_in(scope: ast.AST) -> set[str]:
    """Return the names that a function, lambda or comprehension binds, without names in inner scopes."""
    names: set[str] = set()
    shared: set[str] = set()
    waiting = list(ast.iter_child_nodes(scope))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names.add(node.id)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.alias):
            names.add(node.asname or node.name.split(".")[0])
        elif isinstance(node, ast.Global):
            shared.update(node.names)
        elif isinstance(getattr(node, "name", None), str):  # functions, classes, except ... as name
            names.add(node.name)  # type: ignore[attr-defined]
        if not isinstance(node, _SCOPES):
            waiting.extend(ast.iter_child_nodes(node))
    return names - shared
