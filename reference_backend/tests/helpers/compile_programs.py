"""Small programs as text, and the check that `hpu_backend` gives the results of eager mode on the CPU.

A program runs on the CPU and compiled, on new inputs each time. The check compares the values bit for bit
(all are small whole numbers), the final contents of the inputs, and the tensors that share memory: their
storages, and the effect of a write to each result on all other tensors.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

#: Values for the inputs of a program. They differ between calls.
NUMBERS = """\
def numbers(step, start, shape, dtype=torch.float32):
    count = torch.Size(shape).numel()
    return (torch.arange(count) * 5 + start + 3 * step).remainder(9).sub(4).to(dtype).reshape(shape)
"""


@dataclass(frozen=True)
class Statement:
    """One line of a program.

    Attributes:
        text: the line.
        host: the same for eager mode on the CPU, with a copy for a tensor that moves to another device.
    """

    text: str
    host: str = ""

    def names(self) -> set[str]:
        return set(re.findall(r"\b[xv]\d+\b", self.text))

    def defines(self) -> set[str]:
        target_text, equals, _ = self.text.partition(" = ")
        return set(re.findall(r"\b[xv]\d+\b", target_text)) if equals and "[" not in target_text else set()


@dataclass(frozen=True)
class Program:
    """Inputs, statements, and the names that are returned.

    Attributes:
        inputs: lines that make ``x0``, ``x1``, …; they may use ``numbers``, ``step`` and ``device``.
        statements: lines that use these and make ``v0``, ``v1``, …
        returns: names.
    """

    inputs: tuple[str, ...]
    statements: tuple[Statement, ...]
    returns: tuple[str, ...]

    def text(self, executable: str) -> str:
        """Return a script that runs the program."""
        lines = ["import torch, habana_frameworks.torch", NUMBERS, self._code(on_device=True)]
        options = f'backend="hpu_backend", options={{"executable": "{executable}"}}'
        lines.append(f"compiled = torch.compile(program, dynamic=False, {options})")
        lines.append("for step in range(2):\n    tensors = inputs(step, 'hpu')")
        lines.append("    print(compiled(*tensors), tensors)")
        return "\n".join(lines)

    def functions(self, on_device: bool) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """Return the functions ``inputs(step, device)`` and ``program(*inputs)``."""
        scope: dict[str, Any] = {"torch": torch}
        exec(compile(NUMBERS + self._code(on_device), "<program>", "exec"), scope)
        return scope["inputs"], scope["program"]

    def without(self, position: int) -> Program:
        """Return the program without a statement and without the statements that need its results."""
        removed_names = set(self.statements[position].defines())
        retained = list(self.statements[:position])
        for statement in self.statements[position + 1 :]:
            if removed_names.isdisjoint(statement.names()):
                retained.append(statement)
            else:
                removed_names |= statement.defines()
        returns = tuple(name for name in self.returns if name not in removed_names)
        return replace(self, statements=tuple(retained), returns=returns)

    def _code(self, on_device: bool) -> str:
        names = [line.split(" = ")[0] for line in self.inputs]
        argument_list = ", ".join(names) + ","
        body = [
            statement.text if on_device or not statement.host else statement.host
            for statement in self.statements
        ]
        lines = [
            "def inputs(step, device):",
            *(f"    {line}" for line in self.inputs),
            f"    return {argument_list}",
        ]
        lines += [f"def program({argument_list[:-1]}):", *(f"    {line}" for line in body)]
        return "\n".join([*lines, f"    return ({''.join(f'{name}, ' for name in self.returns)})", ""])


def difference(program: Program, executable: str, **options: Any) -> str:
    """Describe in words how the compiled program differs; empty if it does not.

    Programs do not count that eager mode refuses, or that torch gets wrong on the CPU: AOTAutograd by itself,
    or Inductor if recipes are fused (it writes over a tensor whose clone it reads later, for one).

    Args:
        program: the program.
        executable: the form of its recipes.
        options: more options of the backend.
    """
    options = {"executable": executable, **options}
    message = _difference(program, "hpu", backend="hpu_backend", options=options)
    torchs_own = "inductor" if executable == "fused" else "aot_eager"
    if message and _difference(program, "cpu", backend=torchs_own):
        return ""
    return message


def _difference(program: Program, device: str, **arguments: Any) -> str:
    make, run = program.functions(on_device=False)
    make_ours, ours = program.functions(on_device=device == "hpu")
    torch._dynamo.reset()
    compiled = torch.compile(ours, dynamic=False, **arguments)
    labels = [line.split(" = ")[0] for line in program.inputs]
    labels += [f"result {i} ({name})" for i, name in enumerate(program.returns)]
    for call in range(2):
        expected = make(call, "cpu")
        expected = [*expected, *run(*expected)]
        tensors = make_ours(call, device)
        try:
            results = [*tensors, *compiled(*tensors)]
        except Exception as error:
            return "" if _raises(ours, make_ours(call, device)) else f"call {call}: {error!r}"
        message = next(_differences(results, expected, labels), "")
        if message:
            return f"call {call}: {message}"
    return ""


def shrunk(program: Program, fails: Callable[[Program], bool]) -> Program:
    """Return a program that still fails and from which no statement or result can be removed."""
    smaller = True
    while smaller:
        smaller = False
        candidates = [program.without(i) for i in reversed(range(len(program.statements)))]
        for i in range(len(program.returns)):
            candidates.append(replace(program, returns=program.returns[:i] + program.returns[i + 1 :]))
        for candidate in candidates:
            if fails(candidate):
                program, smaller = candidate, True
                break
    return program


def check(program: Program, executable: str, title: str = "", **options: Any) -> None:
    """Assert that there is no `difference`; the message has the smallest failing program, as a script."""
    message = difference(program, executable, **options)
    if not message:
        return

    def fails(candidate: Program) -> bool:
        try:
            return bool(candidate.returns or candidate.statements) and bool(
                difference(candidate, executable, **options)
            )
        except Exception:  # the rest is not a valid program
            return False

    program = shrunk(program, fails)
    message = difference(program, executable, **options) or message
    raise AssertionError(f"{title} {executable}: {message}\n\n{program.text(executable)}")


def _raises(function: Callable[..., Any], arguments: Sequence[torch.Tensor]) -> bool:
    try:
        function(*arguments)
    except Exception:
        return True
    return False


def _differences(
    ours: Sequence[torch.Tensor], theirs: Sequence[torch.Tensor], labels: Sequence[str]
) -> Iterator[str]:
    yield from _values(ours, theirs, labels)
    for (i, j), (name, second_name) in zip(
        itertools.combinations(range(len(ours)), 2), itertools.combinations(labels, 2), strict=True
    ):
        shared, expected = _share(ours[i], ours[j]), _share(theirs[i], theirs[j])
        if shared != expected:
            yield f"{name} and {second_name} {'share' if shared else 'do not share'} memory"
    for name, result, expected in zip(labels, ours, theirs, strict=True):
        if _overlaps(result) or _overlaps(expected):
            continue
        result.add_(1)
        expected.add_(1)
        yield from (f"after a write to {name}: {message}" for message in _values(ours, theirs, labels))


def _values(
    ours: Sequence[torch.Tensor], theirs: Sequence[torch.Tensor], labels: Sequence[str]
) -> Iterator[str]:
    for name, result, expected in zip(labels, ours, theirs, strict=True):
        if result.dtype != expected.dtype or result.shape != expected.shape:
            kinds = (f"{tensor.dtype} {list(tensor.shape)}" for tensor in (result, expected))
            yield f"{name} is {' instead of '.join(kinds)}"
        elif not torch.equal(result.cpu(), expected):
            yield f"{name} is {result.tolist()}, not {expected.tolist()}"


def _share(first: torch.Tensor, second: torch.Tensor) -> bool:
    if not first.numel() or not second.numel():
        return False
    return first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr()


def _overlaps(tensor: torch.Tensor) -> bool:
    span = 0
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size > 1 and stride <= span:
            return True
        span += (size - 1) * stride
    return False


class Author:
    """Writes a random program, statement by statement, and runs each on the CPU to know what it can use.

    Args:
        seed: the same program for the same seed.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.values: dict[str, torch.Tensor] = {}
        self.on_device: dict[str, bool] = {}
        self.statements: list[Statement] = []

    def write(self) -> Program:
        """Write the program: 2 to 8 statements."""
        inputs = self._inputs()
        scope: dict[str, Any] = {"torch": torch, "step": 0, "device": "cpu"}
        exec(NUMBERS + "\n".join(inputs), scope)
        self.values = {line.split(" = ")[0]: scope[line.split(" = ")[0]] for line in inputs}
        length = self.random.randint(2, 8)
        for _ in range(100):
            self._extend()
            if len(self.statements) >= length:
                break
        computed = [name for name in self.values if name.startswith("v")] or ["x0"]
        returns = self.random.sample(computed, min(len(computed), self.random.randint(1, 4)))
        if self.random.random() < 0.2:
            returns.append(self.random.choice([*returns, *self.values]))
        return Program(tuple(inputs), tuple(self.statements), tuple(returns))

    def _inputs(self) -> list[str]:
        dtype = self.random.choice(("torch.float32", "torch.float32", "torch.int64"))
        lines = [f"x0 = numbers(step, 0, (4, 4), {dtype}).to(device)"]
        lines.append(
            self.random.choice(
                (
                    f"x1 = numbers(step, 2, (4, 4), {dtype}).to(device)",
                    f"x1 = numbers(step, 2, (4, 4), {dtype}).to(device).t()",
                    f"x1 = numbers(step, 2, (4,), {dtype}).to(device)",
                    "x1 = x0",
                    "x1 = x0.t()",
                    "x1 = x0[1]",
                    "x1 = x0[1:3]",
                )
            )
        )
        lines.append(f"x2 = numbers(step, 7, (4, 4), {dtype}){self.random.choice(('', '.to(device)'))}")
        self.on_device = {"x0": True, "x1": True, "x2": lines[2].endswith(".to(device)")}
        return lines

    def _extend(self) -> None:
        kinds = (
            self._view,
            self._view,
            self._add,
            self._add,
            self._compute,
            self._write,
            self._index,
            self._move,
        )
        written = self.random.choice(kinds)()
        if written is None:
            return
        statement, on_device = written
        scope = {"torch": torch, **self.values}
        try:
            exec(statement.host or statement.text, scope)
        except RuntimeError:
            return
        new_values = {name: scope[name] for name in statement.defines()}
        if any(not value.numel() or value.numel() > 64 or value.dim() > 3 for value in new_values.values()):
            return
        self.values.update(new_values)
        self.on_device.update(dict.fromkeys(new_values, on_device))
        self.statements.append(statement)

    def _pick(self, fits: Callable[[str], bool] = lambda name: True) -> str | None:
        # Recent values are chosen more often, so that statements build on each other.
        names = [name for name in self.values if fits(name)]
        return self.random.choice([*names, *names[-3:]]) if names else None

    def _new(self, count: int = 1) -> list[str]:
        used = sum(name.startswith("v") for name in self.values)
        return [f"v{used + i}" for i in range(count)]

    def _result(self, expression: str, on_device: bool, host: str = "") -> tuple[Statement, bool]:
        (name,) = self._new()
        return Statement(f"{name} = {expression}", host and f"{name} = {host}"), on_device

    def _view(self) -> tuple[Statement, bool] | None:
        x = self._pick()
        value = self.values[x]
        if value.dim() and value.shape[0] == 4 and self.random.random() < 0.2:
            first, second = self._new(2)
            call = self.random.choice(("chunk(2)", "split(2)", "split([1, 3])", "tensor_split(2)"))
            return Statement(f"{first}, {second} = {x}.{call}"), self.on_device[x]
        choices = [
            "detach()",
            "reshape(-1)",
            "contiguous()",
            f"to({value.dtype})",
            "unsqueeze(0)",
            f"view_as({x})",
        ]
        choices += ["flatten()", f"expand_as({x})", f"expand(2, {', '.join(map(str, value.shape))})"]
        if value.dim():
            choices += ["t()" if value.dim() <= 2 else "transpose(0, 2)", "select(-1, 0)", "narrow(0, 0, 1)"]
            choices += ["view(-1)", "unbind()[0]", f"as_strided((2, 2), (1, 2), {value.storage_offset()})"]
            slices = ("[1:]", "[::2]", "[..., 1:3]")
            if self.random.random() < 0.3:
                return self._result(x + self.random.choice(slices), self.on_device[x])
        return self._result(f"{x}.{self.random.choice(choices)}", self.on_device[x])

    def _like(self, x: str) -> str | None:
        """Return a second operand for x that does not make the result larger."""

        def fits(name: str) -> bool:
            y, value = self.values[name], self.values[x]
            if y.dtype != value.dtype or y.dim() > value.dim():
                return False
            return self.on_device[name] == self.on_device[x] or (y.dim() == 0 and not self.on_device[name])

        return self._pick(fits)

    def _add(self) -> tuple[Statement, bool] | None:
        x = self._pick()
        y = self._like(x)
        if self.random.random() < 0.3 or y is None:
            return self._result(f"{x} + {self.random.randint(1, 3)}", self.on_device[x])
        expression = self.random.choice((f"{x} + {y}", f"{x} + {y}", f"torch.add({x}, {y}, alpha=2)"))
        return self._result(expression, self.on_device[x])

    def _compute(self) -> tuple[Statement, bool] | None:
        x = self._pick()
        y = self._like(x) or x
        choices = [f"{x}.neg()", f"torch.relu({x})", f"{x} * 2", f"{x}.clone()", f"({x} * {y}).clamp(-8, 8)"]
        choices += [f"torch.where({x} > 0, {x}, {y})", f"torch.stack([{x}, {x}])", f"torch.cat([{x}, {x}])"]
        choices += [
            f"{x}.clone()",
            f"torch.empty_like({x}).copy_({y})",
            f"{x}.sum(0)",
            f"{x}.contiguous().clone()",
        ]
        return self._result(self.random.choice(choices), self.on_device[x])

    def _write(self) -> tuple[Statement, bool] | None:
        x = self._pick(lambda name: not _overlaps(self.values[name]))
        if x is None:
            return None
        y = self._like(x) or x
        choices = [
            f"{x}.add_({y})",
            f"{x}.add_(1)",
            f"{x}.copy_({y})",
            f"{x}.mul_(2)",
            f"{x}.neg_()",
            f"{x}.add_({y})",
        ]
        if self.values[x].dim():
            choices += [f"{x}[0].add_(1)", f"{x}[0] = 3", f"{x}[..., 0].zero_()"]
        return Statement(self.random.choice(choices)), self.on_device[x]

    def _index(self) -> tuple[Statement, bool] | None:
        x = self._pick(lambda name: self.values[name].dim() > 0 and self.values[name].shape[0] >= 2)
        if x is None:
            return None
        rows = f"torch.tensor([1, 0], device={x}.device)"
        y = self._pick(
            lambda name: (
                self.values[name].dtype == self.values[x].dtype
                and self.values[name].shape[:1] >= (2,)
                and self.values[name].shape[1:] == self.values[x].shape[1:]
                and self.on_device[name] == self.on_device[x]
            )
        )
        if y is None:
            return None
        dash = self.random.choice(("", "", "_"))
        # The tensor of an in-place write must not overlap the tensors that the call reads.
        part = f"{y}[:2]" + (".clone()" if dash else "")
        choices = [f"index_copy{dash}(0, {rows}, {part})", f"index_add{dash}(0, {rows}, {part})"]
        choices += [f"index_put{dash}(({rows},), {part})", f"index_fill{dash}(0, {rows}, 5)"]
        call = f"{x}.{self.random.choice(choices)}"
        if dash:
            return None if _overlaps(self.values[x]) else (Statement(call), self.on_device[x])
        return self._result(call, self.on_device[x])

    def _move(self) -> tuple[Statement, bool] | None:
        x = self._pick()
        if self.random.random() < 0.4:
            dtype = self.random.choice(("torch.float32", "torch.int64", "torch.float64"))
            return self._result(f"{x}.to({dtype})", self.on_device[x])
        to_device = self.random.random() < 0.6
        moves = to_device != self.on_device[x]
        name = "hpu" if to_device else "cpu"
        return self._result(f'{x}.to("{name}")', to_device, f"{x}.clone()" if moves else x)
