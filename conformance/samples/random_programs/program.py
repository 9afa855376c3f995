"""A program as a value: what it is given, and its steps, each a line of Python."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch

#: No given number is larger.
LARGEST = 3


@dataclasses.dataclass(frozen=True)
class Given:
    """A tensor that a program is given, made on the CPU from a seed.

    ``role`` is ``value`` (whole numbers of the program's dtype), ``mask`` (booleans) or ``order`` (int64:
    along dimension ``dim`` each number below its size once).
    """

    role: str
    shape: tuple[int, ...]
    seed: int
    dim: int = 0

    def make(self, dtype: torch.dtype, turn: int = 0) -> torch.Tensor:
        """Return the tensor; each ``turn`` has other numbers."""
        generator = torch.Generator().manual_seed(self.seed + 104729 * turn)
        if self.role == "order":
            return torch.rand(self.shape, generator=generator, dtype=torch.float64).argsort(self.dim)
        if self.role == "mask" or dtype == torch.bool:
            return torch.randint(0, 2, self.shape, generator=generator).to(torch.bool)
        return torch.randint(-LARGEST, LARGEST + 1, self.shape, generator=generator).to(dtype)


@dataclasses.dataclass(frozen=True)
class Step:
    """One call. ``form`` is its text, with places for the names of the operands and for the arguments.

    An operand is the number of an earlier step, or ``~i`` for the tensor ``i`` that the program is given.
    """

    form: str
    operands: tuple[int, ...]
    arguments: tuple[Any, ...] = ()


@dataclasses.dataclass(frozen=True)
class Program:
    """Steps on tensors. Every tensor that is given or that a step returns is a register: ``x0``, ``x1``, ...

    Views share memory with the register that they were taken from, so that a write is seen in all of them.
    """

    index: int
    dtype: str
    given: tuple[Given, ...]
    steps: tuple[Step, ...]

    def name(self, operand: int) -> str:
        """Return the name of a register: that of an operand as steps number them."""
        return f"x{~operand if operand < 0 else operand + len(self.given)}"

    @property
    def names(self) -> list[str]:
        """The names of all registers, in order."""
        return [f"x{number}" for number in range(len(self.given) + len(self.steps))]

    def inputs(self, turn: int = 0) -> list[torch.Tensor]:
        """Return new tensors for the program on the CPU; each ``turn`` has other numbers."""
        return [given.make(getattr(torch, self.dtype), turn) for given in self.given]

    def lines(self, marks: Collection[int] = ()) -> list[str]:
        """Return the steps as lines of Python, with ``mark_step()`` before those that ``marks`` counts."""
        lines = []
        for number, step in enumerate(self.steps):
            if number in marks:
                lines.append("mark_step()")
            names = map(self.name, step.operands)
            lines.append(f"{self.name(number)} = {step.form.format(*names, *map(repr, step.arguments))}")
        return lines

    def function(
        self, mark_step: Callable[[], None] | None = None, marks: Collection[int] = ()
    ) -> Callable[..., list[torch.Tensor]]:
        """Return the program as a function of the given tensors that returns all registers."""
        head = f"def program({', '.join(self.names[: len(self.given)])}):"
        body = [*self.lines(marks), f"return [{', '.join(self.names)}]"]
        text = "\n    ".join([head, *body])
        scope: dict[str, Any] = {"torch": torch, "mark_step": mark_step}
        exec(compile(text, f"program_{self.index}.py", "exec"), scope)
        function: Callable[..., list[torch.Tensor]] = scope["program"]
        return function

    def marks(self) -> frozenset[int]:
        """Return steps before which a lazy device is asked to run what it holds, chosen by the index."""
        chance = random.Random(self.index)
        chosen = [number for number in range(1, len(self.steps)) if chance.random() < 0.5]
        return frozenset(chosen or [len(self.steps) - 1])

    def describe(self, turn: int = 0, marks: Collection[int] = ()) -> str:
        """Return the whole program as Python."""
        made = zip(self.names, self.inputs(turn), strict=False)
        lines = [f"{name} = torch.tensor({x.tolist()}, dtype={x.dtype})" for name, x in made]
        return "\n".join([*lines, *self.lines(marks)])


def run(program: Program, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Execute a program on given tensors, wherever they are, and return all registers."""
    with torch.no_grad():
        return program.function()(*inputs)
