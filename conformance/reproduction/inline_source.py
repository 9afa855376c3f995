"""Collect definitions of the suite, with all that they need, into the source text of one file.

A definition is copied from its module as a syntax tree, and the names of other definitions in it are replaced
by their names in the new file. Definitions of torch and of the standard library are imported.
"""

from __future__ import annotations

import ast
import builtins
import copy
import functools
import keyword
import re
import textwrap
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from conformance.reproduction.dead_code import COLLECTED
from conformance.reproduction.module_ast import (
    Import,
    NotWritableAsSource,
    Place,
    import_of_name,
    is_inlined_module,
    is_module,
    names_bound_by,
    statements_by_name,
    tree_of,
)
from conformance.reproduction.rename_definitions import NameRewriter


class DefinitionCollector:
    """The requested definitions, each after the definitions that it needs.

    ``replaced`` maps definitions to their replacements. ``data`` are definitions that the caller writes as
    values. ``requested_data`` maps each item of ``data`` that the collected code uses to its name in the
    file.
    """

    def __init__(
        self,
        replaced: Mapping[Place, Place] | None = None,
        data: Collection[Place] = (),
        is_inlined: Callable[[str], bool] = is_inlined_module,
    ) -> None:
        self.replaced = replaced or {}
        self.data = data
        self.is_inlined = is_inlined
        self.requested_data: dict[Place, str] = {}
        self.imports: set[str] = set()
        self.nodes: list[ast.stmt] = []
        self._names: dict[Any, str] = {}
        self._count = 0

    def reserve_name(self, definition: Place, name: str) -> None:
        """Assign a fixed name to a definition that the caller writes."""
        self._names[definition] = name

    def temporary_name(self, name: str) -> str:
        """Return a unique temporary name. :meth:`with_readable_names` replaces it when the text is
        complete.
        """
        self._count += 1
        return f"_q{self._count}q_{name}"

    def with_readable_names(self, text: str) -> str:
        """Return the text with readable names that do not collide with any other name."""
        used_names = {
            "torch",
            "sys",
            "DEVICE",
            "SUBJECT",
            "target",
            "recorder",
            *dir(builtins),
            *keyword.kwlist,
        }
        for node in ast.walk(ast.parse(text)):
            identifiers = [getattr(node, field, None) for field in ("id", "arg", "name", "asname")]
            if not isinstance(node, ast.keyword):
                used_names.update(
                    collected_name.split(".")[0]
                    for collected_name in identifiers
                    if isinstance(collected_name, str)
                )
        readable: dict[str, str] = {}
        for collected_name in dict.fromkeys(COLLECTED.findall(text)):
            base = name = collected_name.split("q_", 2)[-1].strip("_") or "value"
            number = 1
            while name in used_names:
                number += 1
                name = f"{base}_{number}"
            used_names.add(name)
            readable[collected_name] = name
        return COLLECTED.sub(lambda match: readable[match[0]], text)

    def add_definition(self, module: str, name: str) -> str:
        """Add a definition with all that it needs, and return its name in the file.

        Raise :class:`NotWritableAsSource` if the definition does not exist or has no source text.
        """
        definition = module, name = self.replaced.get((module, name), (module, name))
        if definition in self._names:
            return self._names[definition]
        if definition in self.data:
            self._names[definition] = self.requested_data[definition] = self.temporary_name(name)
            return self._names[definition]
        node = statements_by_name(module).get(name)
        if node is None and not is_module(f"{module}.{name}"):
            raise NotWritableAsSource(f"{module} has no definition {name}")
        if isinstance(node, Import):
            source, attribute, statement = import_of_name(node, module, name)
            if not self.is_inlined(source):
                self.imports.add(statement)
                return name
            if attribute is not None and not is_module(f"{source}.{attribute}"):
                return self.add_definition(source, attribute)
            node = None
        if node is None:
            raise NotWritableAsSource(
                f"{name} of {module} is a module, and is used as a value and not only for its attributes"
            )
        if isinstance(node, ast.AnnAssign) and node.value is None:
            raise NotWritableAsSource(f"{name} of {module} has no value")
        for bound in names_bound_by(node):
            self._names[(module, bound)] = self.temporary_name(bound)
        rewritten = copy.deepcopy(node)
        if isinstance(rewritten, (ast.FunctionDef, ast.ClassDef)):
            rewritten.name = self._names[definition]
        rewritten = NameRewriter(self, module).visit(rewritten)
        self.nodes.append(ast.fix_missing_locations(rewritten))
        return self._names[definition]

    def function_expression(self, function: Any, literal: Callable[[Any], str]) -> str:
        """Return an expression for a function, a lambda or a closure. ``literal`` writes the values of a
        closure's variables.
        """
        module, code = function.__module__, function.__code__
        if isinstance(statements_by_name(module).get(function.__qualname__), ast.FunctionDef):
            return self.add_definition(module, function.__qualname__)
        if function in self._names:
            return self._names[function]
        node: Any = copy.deepcopy(_function_node(module, code))
        cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
        values = {name: literal(cell.cell_contents) for name, cell in cells}
        own = getattr(node, "name", "function")
        if isinstance(node, ast.FunctionDef):
            node.decorator_list = []
        node = NameRewriter(self, module, {*values, own}).visit(node)
        text = ast.unparse(ast.fix_missing_locations(node))
        body = f"return {text}" if isinstance(node, ast.Lambda) else f"{text}\nreturn {own}"
        name = self._names[function] = self.temporary_name(own)
        maker = self.temporary_name(f"make_{own}")
        maker_text = f"def {maker}({', '.join(values)}):\n{textwrap.indent(body, '    ')}\n"
        maker_text += f"{name} = {maker}({', '.join(values.values())})"
        is_simple_lambda = isinstance(node, ast.Lambda) and not values
        self.nodes += ast.parse(f"{name} = {text}" if is_simple_lambda else maker_text).body
        return name

    def definitions_text(self) -> str:
        """Return all definitions, in an order in which they can be executed."""
        return statements_text(self.nodes)


def statements_text(statements: Iterable[ast.stmt]) -> str:
    """Return statements as text, with two blank lines around definitions."""
    parts = []
    for node in statements:
        space = "\n\n" if isinstance(node, (ast.FunctionDef, ast.ClassDef)) else ""
        parts.append(f"{space}{ast.unparse(node)}{space}")
    return re.sub(r"\n{4,}", "\n\n\n", "\n".join(parts)).strip("\n")


def _function_node(module: str, code: Any) -> ast.Lambda | ast.FunctionDef:
    """Return the syntax tree of the lambda or inner function from which a code object was compiled."""
    nodes = [
        node
        for node in _functions_by_line(module).get(code.co_firstlineno, ())
        if (_may_belong_to_lambda(node, code) if isinstance(node, ast.Lambda) else node.name == code.co_name)
    ]
    if len(nodes) != 1:
        count_text = "more than one" if nodes else "no"
        raise NotWritableAsSource(
            f"{module} has {count_text} definition of {code.co_name} at line {code.co_firstlineno}"
        )
    return nodes[0]


@functools.cache
def _functions_by_line(module: str) -> Mapping[int, list[ast.Lambda | ast.FunctionDef]]:
    """Return the functions of a module by first line. A decorated function is listed under the line of each
    decorator and of ``def``, because ``co_firstlineno`` may be any of these lines.
    """
    functions: dict[int, list[ast.Lambda | ast.FunctionDef]] = {}
    for node in ast.walk(tree_of(module)):
        if isinstance(node, (ast.FunctionDef, ast.Lambda)):
            for line in {node.lineno, *(part.lineno for part in getattr(node, "decorator_list", ()))}:
                functions.setdefault(line, []).append(node)
    return functions


def _may_belong_to_lambda(node: ast.Lambda, code: Any) -> bool:
    """Return whether a code object may belong to a lambda.

    The argument names must be equal. From Python 3.11 on, the positions in the source must be equal too.
    """
    names = [part.arg for part in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    count = code.co_argcount + code.co_kwonlyargcount
    if code.co_name != "<lambda>" or names != list(code.co_varnames[:count]):
        return False
    first, last = (node.body.lineno, node.body.col_offset), (node.body.end_lineno, node.body.end_col_offset)
    positions = code.co_positions() if hasattr(code, "co_positions") else ()
    locations = [(line, start) for line, _, start, _ in positions if line is not None and start is not None]
    return all(
        first <= location <= last for location in locations if location[0] > node.lineno or location[1] > 0
    )
