"""Write small programs as Python text, and check that `hpu_backend` agrees with eager mode on the CPU.

The check calls a program twice, with different inputs: in eager mode on the CPU, and compiled on the device.
It compares results and final contents of the inputs bit for bit; all values are small whole numbers. It also
compares which tensors share a storage, and how a write to each tensor changes all other tensors.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

#: Source of the function that makes the input values of a program. `step` is the number of the
#: call; each call has different values.
NUMBERS = """\
def numbers(step, start, shape, dtype=torch.float32):
    count = torch.Size(shape).numel()
    return (torch.arange(count) * 5 + start + 3 * step).remainder(9).sub(4).to(dtype).reshape(shape)
"""


@dataclass(frozen=True)
class Statement:
    """One line of a program.

    Attributes:
        text: the line for the device.
        host: the line for eager mode on the CPU, with a copy in place of each move to another device.
            Empty if the CPU can run `text`.
    """

    text: str
    host: str = ""

    def used_names(self) -> set[str]:
        return set(re.findall(r"\b[xv]\d+\b", self.text))

    def assigned_names(self) -> set[str]:
        target_text, equals, _ = self.text.partition(" = ")
        return set(re.findall(r"\b[xv]\d+\b", target_text)) if equals and "[" not in target_text else set()


@dataclass(frozen=True)
class Program:
    """Inputs, statements, and the names that are returned.

    Attributes:
        inputs: lines that assign ``x0``, ``x1``, …; they may use ``numbers``, ``step`` and ``device``.
        statements: lines that read the inputs and assign ``v0``, ``v1``, …
        returns: names of the returned values.
    """

    inputs: tuple[str, ...]
    statements: tuple[Statement, ...]
    returns: tuple[str, ...]

    def compiled_script(self, executable: str) -> str:
        """Return a script that compiles the program to ``executable`` recipes and calls it twice."""
        lines = ["import torch, habana_frameworks.torch", NUMBERS, self._source(on_device=True)]
        options = f'backend="hpu_backend", options={{"executable": "{executable}"}}'
        lines.append(f"compiled = torch.compile(program, dynamic=False, {options})")
        lines.append("for step in range(2):\n    tensors = inputs(step, 'hpu')")
        lines.append("    print(compiled(*tensors), tensors)")
        return "\n".join(lines)

    def input_and_program_functions(self, on_device: bool) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """Return the functions ``inputs(step, device)`` and ``program(*inputs)``."""
        scope: dict[str, Any] = {"torch": torch}
        exec(compile(NUMBERS + self._source(on_device), "<program>", "exec"), scope)
        return scope["inputs"], scope["program"]

    def without_statement(self, position: int) -> Program:
        """Return the program without one statement and without the later statements that use its results."""
        removed_names = set(self.statements[position].assigned_names())
        retained = list(self.statements[:position])
        for statement in self.statements[position + 1 :]:
            if removed_names.isdisjoint(statement.used_names()):
                retained.append(statement)
            else:
                removed_names |= statement.assigned_names()
        returns = tuple(name for name in self.returns if name not in removed_names)
        return replace(self, statements=tuple(retained), returns=returns)

    def _source(self, on_device: bool) -> str:
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


def difference_from_eager(program: Program, executable: str, **options: Any) -> str:
    """Return the first difference between the compiled program and eager mode as text, or the empty string.

    The result is also empty in two cases: eager mode on the device raises an error, or torch's own backend
    gives wrong results on the CPU. That backend is Inductor for fused recipes, ``aot_eager`` otherwise.
    (For example, Inductor overwrites a tensor although the program later reads a clone of this tensor.)

    Args:
        program: the program.
        executable: the kind of recipes to compile to, ``interpreted`` or ``fused``.
        options: more options of `hpu_backend`.
    """
    options = {"executable": executable, **options}
    message = _compiled_difference(program, "hpu", backend="hpu_backend", options=options)
    torchs_own = "inductor" if executable == "fused" else "aot_eager"
    if message and _compiled_difference(program, "cpu", backend=torchs_own):
        return ""
    return message


def _compiled_difference(program: Program, device: str, **arguments: Any) -> str:
    make_inputs, eager = program.input_and_program_functions(on_device=False)
    make_compiled_inputs, source = program.input_and_program_functions(on_device=device == "hpu")
    torch._dynamo.reset()
    compiled = torch.compile(source, dynamic=False, **arguments)
    labels = [line.split(" = ")[0] for line in program.inputs]
    labels += [f"result {i} ({name})" for i, name in enumerate(program.returns)]
    for call in range(2):
        expected = make_inputs(call, "cpu")
        expected = [*expected, *eager(*expected)]
        tensors = make_compiled_inputs(call, device)
        try:
            results = [*tensors, *compiled(*tensors)]
        except Exception as error:
            return (
                "" if _raises_error(source, make_compiled_inputs(call, device)) else f"call {call}: {error!r}"
            )
        message = next(_differences_of_results(results, expected, labels), "")
        if message:
            return f"call {call}: {message}"
    return ""


def remove_unneeded_statements(program: Program, fails: Callable[[Program], bool]) -> Program:
    """Remove statements and results while the program still fails, and return the smallest program."""
    smaller = True
    while smaller:
        smaller = False
        candidates = [program.without_statement(i) for i in reversed(range(len(program.statements)))]
        for i in range(len(program.returns)):
            candidates.append(replace(program, returns=program.returns[:i] + program.returns[i + 1 :]))
        for candidate in candidates:
            if fails(candidate):
                program, smaller = candidate, True
                break
    return program


def assert_no_difference(program: Program, executable: str, title: str = "", **options: Any) -> None:
    """Assert that `difference_from_eager` is empty. The error message contains the smallest failing
    script.
    """
    message = difference_from_eager(program, executable, **options)
    if not message:
        return

    def fails(candidate: Program) -> bool:
        try:
            return bool(candidate.returns or candidate.statements) and bool(
                difference_from_eager(candidate, executable, **options)
            )
        except Exception:  # the shortened program is not valid
            return False

    program = remove_unneeded_statements(program, fails)
    message = difference_from_eager(program, executable, **options) or message
    raise AssertionError(f"{title} {executable}: {message}\n\n{program.compiled_script(executable)}")


def _raises_error(function: Callable[..., Any], arguments: Sequence[torch.Tensor]) -> bool:
    try:
        function(*arguments)
    except Exception:
        return True
    return False


def _differences_of_results(
    ours: Sequence[torch.Tensor], theirs: Sequence[torch.Tensor], labels: Sequence[str]
) -> Iterator[str]:
    yield from _value_differences(ours, theirs, labels)
    for (i, j), (name, second_name) in zip(
        itertools.combinations(range(len(ours)), 2), itertools.combinations(labels, 2), strict=True
    ):
        shared, expected = _share_storage(ours[i], ours[j]), _share_storage(theirs[i], theirs[j])
        if shared != expected:
            yield f"{name} and {second_name} {'share' if shared else 'do not share'} memory"
    for name, result, expected in zip(labels, ours, theirs, strict=True):
        if _overlaps_itself(result) or _overlaps_itself(expected):
            continue
        result.add_(1)
        expected.add_(1)
        yield from (
            f"after a write to {name}: {message}" for message in _value_differences(ours, theirs, labels)
        )


def _value_differences(
    ours: Sequence[torch.Tensor], theirs: Sequence[torch.Tensor], labels: Sequence[str]
) -> Iterator[str]:
    for name, result, expected in zip(labels, ours, theirs, strict=True):
        if result.dtype != expected.dtype or result.shape != expected.shape:
            kinds = (f"{tensor.dtype} {list(tensor.shape)}" for tensor in (result, expected))
            yield f"{name} is {' instead of '.join(kinds)}"
        elif not torch.equal(result.cpu(), expected):
            yield f"{name} is {result.tolist()}, not {expected.tolist()}"


def _share_storage(first: torch.Tensor, second: torch.Tensor) -> bool:
    if not first.numel() or not second.numel():
        return False
    return first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr()


def _overlaps_itself(tensor: torch.Tensor) -> bool:
    span = 0
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size > 1 and stride <= span:
            return True
        span += (size - 1) * stride
    return False


class RandomProgramGenerator:
    """Writer of a random program.

    The author runs each statement on the CPU, to know the values that later statements can use. A method
    ``_random_…`` returns a statement and whether its result is on the device, or None if no value fits the
    statement.

    Args:
        seed: equal seeds give equal programs.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.values: dict[str, torch.Tensor] = {}
        self.on_device: dict[str, bool] = {}
        self.statements: list[Statement] = []

    def generate(self) -> Program:
        """Write the program: 2 to 8 statements."""
        inputs = self._input_lines()
        scope: dict[str, Any] = {"torch": torch, "step": 0, "device": "cpu"}
        exec(NUMBERS + "\n".join(inputs), scope)
        self.values = {line.split(" = ")[0]: scope[line.split(" = ")[0]] for line in inputs}
        length = self.random.randint(2, 8)
        for _ in range(100):
            self._append_statement()
            if len(self.statements) >= length:
                break
        computed = [name for name in self.values if name.startswith("v")] or ["x0"]
        returns = self.random.sample(computed, min(len(computed), self.random.randint(1, 4)))
        if self.random.random() < 0.2:
            returns.append(self.random.choice([*returns, *self.values]))
        return Program(tuple(inputs), tuple(self.statements), tuple(returns))

    def _input_lines(self) -> list[str]:
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

    def _append_statement(self) -> None:
        kinds = (
            self._random_view,
            self._random_view,
            self._random_addition,
            self._random_addition,
            self._random_computation,
            self._random_write,
            self._random_indexing,
            self._random_move,
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
        new_values = {name: scope[name] for name in statement.assigned_names()}
        if any(not value.numel() or value.numel() > 64 or value.dim() > 3 for value in new_values.values()):
            return
        self.values.update(new_values)
        self.on_device.update(dict.fromkeys(new_values, on_device))
        self.statements.append(statement)

    def _pick_name(self, fits: Callable[[str], bool] = lambda name: True) -> str | None:
        # Recent values are chosen more often, so that statements build on each other.
        names = [name for name in self.values if fits(name)]
        return self.random.choice([*names, *names[-3:]]) if names else None

    def _new_names(self, count: int = 1) -> list[str]:
        used = sum(name.startswith("v") for name in self.values)
        return [f"v{used + i}" for i in range(count)]

    def _assignment(self, expression: str, on_device: bool, host: str = "") -> tuple[Statement, bool]:
        (name,) = self._new_names()
        return Statement(f"{name} = {expression}", host and f"{name} = {host}"), on_device

    def _random_view(self) -> tuple[Statement, bool] | None:
        x = self._pick_name()
        value = self.values[x]
        if value.dim() and value.shape[0] == 4 and self.random.random() < 0.2:
            first, second = self._new_names(2)
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
                return self._assignment(x + self.random.choice(slices), self.on_device[x])
        return self._assignment(f"{x}.{self.random.choice(choices)}", self.on_device[x])

    def _second_operand(self, x: str) -> str | None:
        """Return the name of a second operand for x that does not make the result larger than x."""

        def fits(name: str) -> bool:
            y, value = self.values[name], self.values[x]
            if y.dtype != value.dtype or y.dim() > value.dim():
                return False
            return self.on_device[name] == self.on_device[x] or (y.dim() == 0 and not self.on_device[name])

        return self._pick_name(fits)

    def _random_addition(self) -> tuple[Statement, bool] | None:
        x = self._pick_name()
        y = self._second_operand(x)
        if self.random.random() < 0.3 or y is None:
            return self._assignment(f"{x} + {self.random.randint(1, 3)}", self.on_device[x])
        expression = self.random.choice((f"{x} + {y}", f"{x} + {y}", f"torch.add({x}, {y}, alpha=2)"))
        return self._assignment(expression, self.on_device[x])

    def _random_computation(self) -> tuple[Statement, bool] | None:
        x = self._pick_name()
        y = self._second_operand(x) or x
        choices = [f"{x}.neg()", f"torch.relu({x})", f"{x} * 2", f"{x}.clone()", f"({x} * {y}).clamp(-8, 8)"]
        choices += [f"torch.where({x} > 0, {x}, {y})", f"torch.stack([{x}, {x}])", f"torch.cat([{x}, {x}])"]
        choices += [
            f"{x}.clone()",
            f"torch.empty_like({x}).copy_({y})",
            f"{x}.sum(0)",
            f"{x}.contiguous().clone()",
        ]
        return self._assignment(self.random.choice(choices), self.on_device[x])

    def _random_write(self) -> tuple[Statement, bool] | None:
        x = self._pick_name(lambda name: not _overlaps_itself(self.values[name]))
        if x is None:
            return None
        y = self._second_operand(x) or x
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

    def _random_indexing(self) -> tuple[Statement, bool] | None:
        x = self._pick_name(lambda name: self.values[name].dim() > 0 and self.values[name].shape[0] >= 2)
        if x is None:
            return None
        rows = f"torch.tensor([1, 0], device={x}.device)"
        y = self._pick_name(
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
            return None if _overlaps_itself(self.values[x]) else (Statement(call), self.on_device[x])
        return self._assignment(call, self.on_device[x])

    def _random_move(self) -> tuple[Statement, bool] | None:
        x = self._pick_name()
        if self.random.random() < 0.4:
            dtype = self.random.choice(("torch.float32", "torch.int64", "torch.float64"))
            return self._assignment(f"{x}.to({dtype})", self.on_device[x])
        to_device = self.random.random() < 0.6
        moves = to_device != self.on_device[x]
        name = "hpu" if to_device else "cpu"
        return self._assignment(f'{x}.to("{name}")', to_device, f"{x}.clone()" if moves else x)
