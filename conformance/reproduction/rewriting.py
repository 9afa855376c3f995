"""Definitions rewritten for another file: their names replaced by those that things have there."""

from __future__ import annotations

import ast
import re
from typing import Any, Protocol

from conformance.reproduction.modules import Binding, bindings, is_module, module_of


class Names(Protocol):
    """Who knows the names of definitions in the new file."""

    def require(self, module: str, name: str) -> str:
        """The name of a definition, which is added where it is not there yet."""

    def is_inlined(self, module: str) -> bool:
        """Whether definitions of a module are copied rather than imported."""


class Rewriter(ast.NodeTransformer):
    """Replaces the names that a module binds by those that they have in the new file."""

    def __init__(self, collector: Names, module: str) -> None:
        self.collector = collector
        self.module = module
        #: Programs may hand functions to torch, which reads what their arguments are.
        self.keeps = module.startswith("conformance.properties.api")
        self.in_class = False
        self.scopes: list[set[str]] = []
        self.aliases: dict[str, Binding] = {}

    def scope(self, names: set[str]) -> Scope:
        return Scope(self, names)

    def top(self, node: ast.stmt) -> Any:
        return self.visit(node)

    # Names

    def _is_local(self, name: str) -> bool:
        return any(name in scope for scope in self.scopes)

    def _binding(self, name: str) -> Binding | None:
        """The import behind a global name of this module, or a local import of the suite."""
        if name in self.aliases:
            return self.aliases[name]
        if self._is_local(name):
            return None
        node = bindings(self.module).get(name)
        return Binding.of(node, self.module, name) if isinstance(node, (ast.Import, ast.ImportFrom)) else None

    def visit_Name(self, node: ast.Name) -> ast.AST:
        binding = self.aliases.get(node.id)
        if binding is not None and binding.attribute is not None:
            return ast.Name(self.collector.require(binding.module, binding.attribute), node.ctx)
        if self._is_local(node.id) or node.id not in bindings(self.module):
            return node
        return ast.Name(self.collector.require(self.module, node.id), node.ctx)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        module = self._module(node.value)
        if module is not None:
            return ast.Name(self.collector.require(module, node.attr), node.ctx)
        return self.generic_visit(node)

    def _module(self, node: ast.expr) -> str | None:
        """The module of the suite that an expression names."""
        if isinstance(node, ast.Attribute):
            outer = self._module(node.value)
            inner = f"{outer}.{node.attr}"
            return inner if outer is not None and is_module(inner) else None
        if not isinstance(node, ast.Name):
            return None
        binding = self._binding(node.id)
        if binding is None:
            return None
        full = binding.module if binding.attribute is None else f"{binding.module}.{binding.attribute}"
        return full if self.collector.is_inlined(full) and is_module(full) else None

    def visit_Global(self, node: ast.Global) -> ast.AST:
        return ast.Global([self.collector.require(self.module, name) for name in node.names])

    # Scopes

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.decorator_list = [
            self.visit(one) for one in node.decorator_list if not _is_call_of(one, "register", "behaviour")
        ]
        self._defaults(node.args)
        node.returns = self.visit(node.returns) if self.keeps and node.returns is not None else None
        node.body = _without_docstring(node.body)
        before, self.in_class = self.in_class, False
        with self.scope(_bound(node) | _parameters(node.args)):
            node.body = self._body(node.body)
        self.in_class = before
        return node

    visit_AsyncFunctionDef = visit_FunctionDef  # type: ignore[assignment]

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        self._defaults(node.args)
        with self.scope(_parameters(node.args)):
            node.body = self.visit(node.body)
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.bases = [self.visit(one) for one in node.bases]
        node.keywords = [self.visit(one) for one in node.keywords]
        node.decorator_list = [self.visit(one) for one in node.decorator_list]
        before, self.in_class = self.in_class, True
        node.body = self._body(_without_docstring(node.body))
        self.in_class = before
        return node

    def _body(self, body: list[ast.stmt]) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        for node in body:
            found = self.visit(node)
            made.extend(found if isinstance(found, list) else [] if found is None else [found])
        return made or [ast.Pass()]

    def visit_comprehension_like(self, node: Any) -> ast.AST:
        names = {
            one.id
            for generator in node.generators
            for one in ast.walk(generator.target)
            if isinstance(one, ast.Name)
        }
        with self.scope(names):
            return self.generic_visit(node)

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_comprehension_like

    def _defaults(self, arguments: ast.arguments) -> None:
        arguments.defaults = [self.visit(one) for one in arguments.defaults]
        arguments.kw_defaults = [None if one is None else self.visit(one) for one in arguments.kw_defaults]
        for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            one.annotation = self._annotation(one.annotation)
        for rest in (arguments.vararg, arguments.kwarg):
            if rest is not None:
                rest.annotation = self._annotation(rest.annotation)

    def _annotation(self, node: ast.expr | None) -> Any:
        # What is handed to torch takes tensors and numbers; the bench is a matter of the suite.
        if not self.keeps or node is None or (isinstance(node, ast.Name) and node.id == "Lab"):
            return None
        return self.visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        if self.in_class:  # a field of a class: its annotation is a word that nobody reads
            if self.keeps:
                node.annotation = self.visit(node.annotation)
            elif _plain(node.annotation):
                node.annotation = ast.Name("object", ast.Load())
            node.value = None if node.value is None else self.visit(node.value)
            return node
        if node.value is None:
            return None
        return self.visit(ast.Assign([node.target], node.value))

    # Imports inside of functions

    def visit_ImportFrom(self, node: ast.ImportFrom) -> Any:
        source = module_of(node, self.module)
        if not self.collector.is_inlined(source):
            return node
        for alias in node.names:
            name = alias.asname or alias.name
            self.aliases[name] = Binding.of(node, self.module, name)
        return None

    def _filled(self, node: Any) -> Any:
        """A block of which nothing is left may not be empty."""
        found: Any = self.generic_visit(node)
        found.body = found.body or [ast.Pass()]
        return found

    visit_Try = visit_With = visit_If = visit_For = visit_While = visit_ExceptHandler = _filled


def _plain(annotation: ast.expr) -> bool:
    return not re.search(r"ClassVar|InitVar|KW_ONLY", ast.unparse(annotation))


def _is_call_of(node: ast.expr, *names: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    first = body[0]
    if (
        isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Constant)
        and isinstance(first.value.value, str)
    ):
        return body[1:] or [ast.Pass()]
    return body


def _parameters(arguments: ast.arguments) -> set[str]:
    found = {one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    return found | {one.arg for one in (arguments.vararg, arguments.kwarg) if one is not None}


def _bound(function: ast.FunctionDef) -> set[str]:
    """The names that a function binds itself, those of inner functions' bodies left out."""
    found: set[str] = set()
    shared: set[str] = set()

    def walk(node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                found.add(child.name)
            elif isinstance(child, ast.Lambda):
                continue
            elif isinstance(child, ast.Name) and isinstance(child.ctx, (ast.Store, ast.Del)):
                found.add(child.id)
            elif isinstance(child, ast.ExceptHandler):
                if child.name:
                    found.add(child.name)
                walk(child)
            elif isinstance(child, (ast.Import, ast.ImportFrom)):
                found.update(alias.asname or alias.name.split(".")[0] for alias in child.names)
            elif isinstance(child, ast.Global):
                shared.update(child.names)
            else:
                walk(child)

    for statement in function.body:
        walk(ast.Module([statement], []))
    return found - shared


class Scope:
    def __init__(self, rewriter: Rewriter, names: set[str]) -> None:
        self.rewriter = rewriter
        self.names = names
        self.aliases = rewriter.aliases

    def __enter__(self) -> None:
        self.rewriter.scopes.append(self.names)
        self.rewriter.aliases = {
            name: binding for name, binding in self.aliases.items() if name not in self.names
        }

    def __exit__(self, *_: object) -> None:
        self.rewriter.scopes.pop()
        self.rewriter.aliases = self.aliases
