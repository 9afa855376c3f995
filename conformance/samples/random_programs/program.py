"""Represent a random program: its inputs, and its steps, which can be written and run as Python."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch

#: The largest absolute value of an input.
LARGEST_INPUT = 3


@dataclasses.dataclass(frozen=True)
class InputSpec:
    """An input tensor of a program, made on the CPU from a seed.

    ``role`` is ``value`` (integers of the program's dtype), ``mask`` (booleans) or ``order`` (int64: a
    permutation along dimension ``dim``).
    """

    role: str
    shape: tuple[int, ...]
    seed: int
    dim: int = 0

    def make_tensor(self, dtype: torch.dtype, turn: int = 0) -> torch.Tensor:
        """Return the input tensor. For each ``turn``, the tensor has different numbers."""
        generator = torch.Generator().manual_seed(self.seed + 104729 * turn)
        if self.role == "order":
            return torch.rand(self.shape, generator=generator, dtype=torch.float64).argsort(self.dim)
        if self.role == "mask" or dtype == torch.bool:
            return torch.randint(0, 2, self.shape, generator=generator).to(torch.bool)
        return torch.randint(-LARGEST_INPUT, LARGEST_INPUT + 1, self.shape, generator=generator).to(dtype)


@dataclasses.dataclass(frozen=True)
class Step:
    """One call. ``form`` is its text, with placeholders for the operand names and the arguments.

    An operand is the index of an earlier step, or ``~i`` for input ``i`` of the program.
    """

    form: str
    operands: tuple[int, ...]
    arguments: tuple[Any, ...] = ()


@dataclasses.dataclass(frozen=True)
class Program:
    """Steps on tensors. Each input and each result of a step is a register: ``x0``, ``x1``, ...

    A view shares memory with the register that it was made from, so a write to
    one of them changes both registers.
    """

    index: int
    dtype: str
    input_specs: tuple[InputSpec, ...]
    steps: tuple[Step, ...]

    def register_name(self, operand: int) -> str:
        """Return the register name of an operand."""
        return f"x{~operand if operand < 0 else operand + len(self.input_specs)}"

    @property
    def names(self) -> list[str]:
        """The names of all registers, in order."""
        return [f"x{number}" for number in range(len(self.input_specs) + len(self.steps))]

    def inputs(self, turn: int = 0) -> list[torch.Tensor]:
        """Return new CPU input tensors. For each ``turn``, the tensors have different numbers."""
        return [input_spec.make_tensor(getattr(torch, self.dtype), turn) for input_spec in self.input_specs]

    def step_lines(self, marks: Collection[int] = ()) -> list[str]:
        """Return the steps as lines of Python, with ``mark_step()`` before each step whose index is in
        ``marks``.
        """
        lines = []
        for number, step in enumerate(self.steps):
            if number in marks:
                lines.append("mark_step()")
            names = map(self.register_name, step.operands)
            lines.append(
                f"{self.register_name(number)} = {step.form.format(*names, *map(repr, step.arguments))}"
            )
        return lines

    def as_function(
        self, mark_step: Callable[[], None] | None = None, marks: Collection[int] = ()
    ) -> Callable[..., list[torch.Tensor]]:
        """Return the program as a function that takes the input tensors and returns all registers."""
        head = f"def program({', '.join(self.names[: len(self.input_specs)])}):"
        body = [*self.step_lines(marks), f"return [{', '.join(self.names)}]"]
        text = "\n    ".join([head, *body])
        scope: dict[str, Any] = {"torch": torch, "mark_step": mark_step}
        exec(compile(text, f"program_{self.index}.py", "exec"), scope)
        function: Callable[..., list[torch.Tensor]] = scope["program"]
        return function

    def steps_with_mark(self) -> frozenset[int]:
        """Return the indices of the steps before which a lazy device must run its pending work.

        The choice depends only on the program's index.
        """
        chance = random.Random(self.index)
        chosen = [number for number in range(1, len(self.steps)) if chance.random() < 0.5]
        return frozenset(chosen or [len(self.steps) - 1])

    def describe(self, turn: int = 0, marks: Collection[int] = ()) -> str:
        """Return the whole program, including its inputs, as Python."""
        named_inputs = zip(self.names, self.inputs(turn), strict=False)
        lines = [f"{name} = torch.tensor({x.tolist()}, dtype={x.dtype})" for name, x in named_inputs]
        return "\n".join([*lines, *self.step_lines(marks)])


def run_program(program: Program, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Run a program on input tensors, on their device, and return all registers."""
    with torch.no_grad():
        return program.as_function()(*inputs)
