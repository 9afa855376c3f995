"""Programs from a seed."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Sequence
from random import Random

import torch

from conformance.samples.cache import SubjectCache
from conformance.samples.random_programs.program import Given, Program, Step
from conformance.samples.random_programs.step_arguments import Unfit
from conformance.samples.random_programs.steps import FORMS, named
from conformance.samples.random_programs.validity import Trace, memory

#: Programs of one dtype.
COUNT = 100
DTYPES = ("float32", "bfloat16", "int64", "bool")
#: Steps that are tried in one place before the program is begun anew.
_TRIES = 40
#: Most tensors that a program is given.
_GIVEN = 5
#: Forms that fit every tensor, of which there are enough if they are tried less often.
_PLAIN = frozenset(
    {"{0}.detach()", "{0}.unbind({1})[0]", "{0}.split(1, {1})[-1]", "{0}.zero_()", "{0}.fill_({1})"}
)
#: What a call of torch raises for arguments that do not fit.
REFUSED = (Unfit, RuntimeError, IndexError, TypeError, ValueError)

_cache: SubjectCache[tuple[str, str], list[Program]] = SubjectCache()


def programs_of(subject: str, dtype: str) -> Sequence[Program]:
    """Return the shared programs of a dtype."""
    return _cache.value(
        subject, ("programs", dtype), lambda: [generated(index, dtype) for index in range(COUNT)]
    )


def generated(index: int, dtype: str) -> Program:
    """Return the program of that number in a dtype, the same in every process."""
    chance = Random(zlib.crc32(f"program {index} of {dtype}".encode()))
    for _ in itertools.count():
        builder = _Builder(index, dtype, chance)
        with torch.no_grad():
            if all(map(builder.add, _kinds(chance))):
                return builder.program()
    raise AssertionError


def _kinds(chance: Random) -> list[str]:
    """Return kinds of two to five steps: with a write, and if there are three or more, a view before it."""
    kinds = chance.choices(("call", "view", "write"), (3, 4, 4), k=chance.randint(2, 5))
    if "write" not in kinds:
        kinds[chance.randrange(len(kinds))] = "write"
    if len(kinds) > 2 and "view" not in kinds[: kinds.index("write")]:
        kinds[0] = "view"
        if "write" not in kinds:
            kinds[chance.randrange(1, len(kinds))] = "write"
    return kinds


class _Builder:
    """A program that grows: each step takes registers that are there, or what it is given anew."""

    def __init__(self, index: int, dtype: str, chance: Random) -> None:
        self.index = index
        self.dtype = dtype
        self.chance = chance
        self.trace = Trace(dtype)
        self.given: list[Given] = []
        self.steps: list[Step] = []
        self._give("value", tuple(chance.choices((1, 2, 3, 4), (1, 3, 4, 3), k=chance.choice((1, 2, 2, 3)))))

    def program(self) -> Program:
        """Return what has been built."""
        return Program(self.index, self.dtype, tuple(self.given), tuple(self.steps))

    def add(self, kind: str) -> bool:
        """Add a step of a kind; return whether one was found."""
        texts = named(kind, self.dtype)
        texts = [text for text in texts for _ in range(1 if text in _PLAIN else 3)]
        for _ in range(_TRIES):
            before = len(self.given)
            try:
                step = self._step(kind, self.chance.choice(texts))
                self.trace.step(step)
            except REFUSED:
                while len(self.given) > before:
                    self.given.pop()
                    self.trace.take(~len(self.given))
                continue
            self.steps.append(step)
            return True
        return False

    def _step(self, kind: str, text: str) -> Step:
        form = FORMS[text]
        first = self._first(kind)
        x = self.trace.registers[first]
        arguments = form.choose(self.chance, x)
        others = [self._other(role, relation, x, arguments) for role, relation in form.others]
        return Step(text, (first, *others), arguments)

    def _first(self, kind: str) -> int:
        """Choose the first operand: the last result most often, and for writes one that others alias."""
        fit = [operand for operand in self.trace.registers if self.trace.fits(operand, "value")]
        last = self.trace.count - 1
        if last in fit and self.chance.random() < 0.5:
            return last
        if kind == "write":
            held = [memory(x) for x in self.trace.registers.values()]
            shared = [one for one in fit if held.count(memory(self.trace.registers[one])) > 1]
            if shared and self.chance.random() < 0.7:
                return self.chance.choice(shared)
        return self.chance.choice(fit)

    def _other(self, role: str, relation: str, x: torch.Tensor, arguments: tuple[object, ...]) -> int:
        """Choose a further operand: a register, or a new one of a shape that fits."""
        registers = self.trace.registers
        if role != "order" and relation in ("like", "same") and self.chance.random() < 0.6:
            fit = [one for one in registers if self.trace.fits(one, role)]
            if relation == "same":
                fit = [one for one in fit if registers[one].shape == x.shape]
            if fit:
                return self.chance.choice(fit)
        dim = arguments[0] if arguments and isinstance(arguments[0], int) else 0
        shape = list(x.shape)
        if relation == "line":
            return self._give(role, (shape[dim],))
        if relation == "columns":
            if not shape:
                raise Unfit
            return self._give(role, (shape[-1], self.chance.randint(1, 3)))
        if relation == "like":
            drop = self.chance.randint(0, len(shape)) if self.chance.random() < 0.3 else 0
            shape = [1 if self.chance.random() < 0.15 else size for size in shape[drop:]]
        if role == "order" and not shape:
            raise Unfit
        return self._give(role, tuple(shape), dim)

    def _give(self, role: str, shape: tuple[int, ...], dim: int = 0) -> int:
        if len(self.given) >= _GIVEN:
            raise Unfit
        given = Given(role, shape, self.chance.randrange(1 << 20), dim if role == "order" else 0)
        operand = ~len(self.given)
        self.given.append(given)
        self.trace.give(operand, given)
        return operand
