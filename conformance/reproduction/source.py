"""Source text that stands alone: definitions of the suite with all that they need, in one file.

A definition is taken from its module as a syntax tree; names of other definitions in it are replaced by the
names that those have in the new file, imports of the suite by the definitions themselves. What belongs to
torch or to the standard library is imported.
"""

from __future__ import annotations

import ast
import builtins
import functools
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from conformance.reproduction.modules import (
    Binding,
    Place,
    Unwritable,
    bindings,
    inlined,
    is_module,
    targets,
    tree_of,
)
from conformance.reproduction.rewriting import Rewriter


class Collector:
    """Definitions that were asked for, each after those that it needs.

    ``replaced`` maps definitions to others that stand in for them; ``data`` are definitions whose values the
    user of this class writes: ``wanted`` gets the names of those that were asked for.
    """

    def __init__(
        self,
        replaced: Mapping[Place, Place] | None = None,
        data: Collection[Place] = (),
        is_inlined: Callable[[str], bool] = inlined,
    ) -> None:
        self.replaced = replaced or {}
        self.data = data
        self.is_inlined = is_inlined
        self.wanted: dict[Place, str] = {}
        self.imports: set[str] = set()
        self.nodes: list[ast.stmt] = []
        self._names: dict[Any, str] = {}
        self._count = 0

    # Names

    def call(self, place: Place, name: str) -> None:
        """Give a definition that the user of this class writes a name of its own."""
        self._names[place] = name

    def fresh(self, wanted: str) -> str:
        """A name that nothing else has; :meth:`named` makes a readable one of it when all is written."""
        self._count += 1
        return f"_q{self._count}q_{wanted}"

    def named(self, text: str) -> str:
        """The text with readable names, which hide nothing and are hidden by nothing."""
        taken = {"torch", "sys", "DEVICE", "SUBJECT", "target", "recorder", *dir(builtins)}
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Name):
                taken.add(node.id)
            elif isinstance(node, ast.arg):
                taken.add(node.arg)
            elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                taken.add(node.name)
            elif isinstance(node, ast.alias):
                taken.add((node.asname or node.name).split(".")[0])
        final: dict[str, str] = {}
        for word in dict.fromkeys(re.findall(r"\b_q\d+q_\w+", text)):
            wanted = word.split("q_", 2)[-1].strip("_") or "value"
            name, number = wanted, 2
            while name in taken:
                name, number = f"{wanted}_{number}", number + 1
            taken.add(name)
            final[word] = name
        return re.sub(r"\b_q\d+q_\w+", lambda match: final[match[0]], text)

    def require(self, module: str, name: str) -> str:
        """The name in the file of a definition; it is added with all that it needs."""
        place = self.replaced.get((module, name), (module, name))
        if place in self._names:
            return self._names[place]
        module, name = place
        if place in self.data:
            self._names[place] = self.wanted[place] = self.fresh(name)
            return self._names[place]
        node = bindings(module).get(name)
        if node is None:
            if is_module(f"{module}.{name}"):
                raise Unwritable(f"module {module}.{name} is used as a value")
            raise Unwritable(f"{module} has no definition {name}")
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            return self._imported(node, module, name)
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and len(targets(node)) > 1:
            for one in targets(node):
                self._names[(module, one)] = self.fresh(one)
            copied = ast.parse(ast.unparse(node)).body[0]
            # The names that it binds are known by now, so that they are replaced like all others.
            self.nodes.append(ast.fix_missing_locations(Rewriter(self, module).visit(copied)))
            return self._names[place]
        own = self._names[place] = self.fresh(name)
        self.nodes.append(self._rewritten(node, module, own))
        return own

    def _imported(self, node: ast.Import | ast.ImportFrom, module: str, name: str) -> str:
        target = Binding.of(node, module, name)
        if target.attribute is not None and self.is_inlined(target.module):
            if is_module(f"{target.module}.{target.attribute}"):
                raise Unwritable(f"module {target.module}.{target.attribute} is used as a value")
            return self.require(target.module, target.attribute)
        if target.attribute is None and self.is_inlined(target.module):
            raise Unwritable(f"module {target.module} is used as a value")
        self.imports.add(target.text)
        return name

    def _rewritten(self, node: ast.stmt, module: str, own: str) -> ast.stmt:
        copied = ast.parse(ast.unparse(node)).body[0]
        if isinstance(copied, (ast.FunctionDef, ast.ClassDef)):
            copied.name = own
        elif isinstance(copied, ast.Assign):
            copied.targets = [ast.Name(own, ast.Store())]
        elif isinstance(copied, ast.AnnAssign):
            if copied.value is None:
                raise Unwritable(f"{own} of {module} has no value")
            copied = ast.Assign([ast.Name(own, ast.Store())], copied.value)
        changed: ast.stmt = Rewriter(self, module).top(copied)
        return ast.fix_missing_locations(changed)

    # Functions that are values

    def function(self, function: Any, literal: Callable[[Any], str]) -> str:
        """An expression for a function, a lambda or a closure; ``literal`` writes what it closes over."""
        module, code = function.__module__, function.__code__
        if "<locals>" not in function.__qualname__ and "<lambda>" not in function.__qualname__:
            found = bindings(module).get(function.__qualname__)
            if isinstance(found, ast.FunctionDef):
                return self.require(module, function.__qualname__)
        key = (module, code.co_firstlineno, code.co_name, id(function))
        if key in self._names:
            return self._names[key]
        node = _definition(module, code)
        cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
        values = {name: literal(cell.cell_contents) for name, cell in cells.items()}
        rewriter = Rewriter(self, module)
        if isinstance(node, ast.Lambda):
            copied: Any = ast.parse(ast.unparse(node), mode="eval").body
            with rewriter.scope(set(values)):
                text = ast.unparse(ast.fix_missing_locations(rewriter.visit(copied)))
            name = self.fresh("function")
            body = f"    return {text}"
        else:
            inner = ast.parse(ast.unparse(node)).body[0]
            inner.decorator_list = []  # type: ignore[attr-defined]
            with rewriter.scope({*values, node.name}):
                text = ast.unparse(ast.fix_missing_locations(rewriter.visit(inner)))
            name = self.fresh(node.name)
            body = "\n".join(f"    {line}" for line in text.splitlines()) + f"\n    return {node.name}"
        maker = self.fresh(f"make_{name}")
        self.nodes.extend(ast.parse(f"def {maker}({', '.join(values)}):\n{body}").body)
        self.nodes.extend(ast.parse(f"{name} = {maker}({', '.join(values.values())})").body)
        self._names[key] = name
        return name

    def text(self) -> str:
        """All definitions, in an order in which they can be run."""
        return "\n\n\n".join(ast.unparse(node) for node in self.nodes)


def _definition(module: str, code: Any) -> ast.Lambda | ast.FunctionDef:
    """The lambda or inner function that a code object was made from."""
    found = [
        node
        for node in _by_line(module).get(code.co_firstlineno, ())
        if (_same_lambda(node, code) if isinstance(node, ast.Lambda) else node.name == code.co_name)
    ]
    if len(found) != 1:
        words = "no" if not found else "more than one"
        raise Unwritable(f"{module} has {words} definition of {code.co_name} at line {code.co_firstlineno}")
    return found[0]


@functools.cache
def _by_line(module: str) -> Mapping[int, list[ast.Lambda | ast.FunctionDef]]:
    """All functions of a module by the lines at which their code may be said to begin."""
    found: dict[int, list[ast.Lambda | ast.FunctionDef]] = {}
    for node in ast.walk(tree_of(module)):
        if isinstance(node, (ast.FunctionDef, ast.Lambda)):
            decorators = node.decorator_list if isinstance(node, ast.FunctionDef) else []
            for line in {node.lineno, *(one.lineno for one in decorators)}:
                found.setdefault(line, []).append(node)
    return found


def _same_lambda(node: ast.Lambda, code: Any) -> bool:
    if code.co_name != "<lambda>":
        return False
    given = [one.arg for one in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    if given != list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]):
        return False
    positions = getattr(code, "co_positions", None)  # since Python 3.11
    if positions is None:
        return True
    columns = [(line, start) for line, _, start, _ in positions() if line is not None and start is not None]
    first, last = (node.body.lineno, node.body.col_offset), (node.body.end_lineno, node.body.end_col_offset)
    return all(first <= place <= last for place in columns if place[0] > node.lineno or place[1] > 0)
