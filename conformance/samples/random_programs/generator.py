"""Generate random programs from a seed."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from random import Random

import torch

from conformance.model import seeds
from conformance.samples.cache import SubjectCache
from conformance.samples.random_programs.program import InputSpec, Program, Step
from conformance.samples.random_programs.step_arguments import StepRejected
from conformance.samples.random_programs.steps import FORMS, step_form_texts
from conformance.samples.random_programs.validity import ProgramTrace, storage_id

#: The number of programs of each dtype.
PROGRAM_COUNT = 100
DTYPES = ("float32", "bfloat16", "int64", "bool")
#: If this number of random candidates for a step is rejected, the generator starts the program again.
_MAX_CANDIDATES = 40
#: The maximal number of input tensors of a program.
_MAX_INPUTS = 5
#: Forms that fit every tensor and would therefore be chosen most often. The generator gives these forms a
#: lower probability.
_COMMON_FORMS = frozenset(
    {"{0}.detach()", "{0}.unbind({1})[0]", "{0}.split(1, {1})[-1]", "{0}.zero_()", "{0}.fill_({1})"}
)
#: The exceptions that torch or :mod:`.validity` raises for a step whose arguments do not fit.
REFUSED = (StepRejected, RuntimeError, IndexError, TypeError, ValueError)

_cache: SubjectCache[tuple[str, str], list[Program]] = SubjectCache()


def programs_of(subject: str, dtype: str) -> Sequence[Program]:
    """Return the :data:`PROGRAM_COUNT` programs of a dtype, which all properties share."""
    return _cache.value(
        subject,
        ("programs", dtype),
        lambda: [generate_program(index, dtype) for index in range(PROGRAM_COUNT)],
    )


def generate_program(index: int, dtype: str) -> Program:
    """Return the program with this index in a dtype. The result is the same in every process."""
    chance = Random(seeds.seed_for(f"program {index} of {dtype}"))
    for _ in itertools.count():
        builder = _ProgramBuilder(index, dtype, chance)
        with torch.no_grad():
            if all(map(builder.add_step, _step_kinds(chance))):
                return builder.program()
    raise AssertionError


def _step_kinds(chance: Random) -> list[str]:
    """Return random kinds for two to five steps. At least one step is a write.

    If there are three or more steps, a view precedes the first write.
    """
    kinds = chance.choices(("call", "view", "write"), (3, 4, 4), k=chance.randint(2, 5))
    if "write" not in kinds:
        kinds[chance.randrange(len(kinds))] = "write"
    if len(kinds) > 2 and "view" not in kinds[: kinds.index("write")]:
        kinds[0] = "view"
        if "write" not in kinds:
            kinds[chance.randrange(1, len(kinds))] = "write"
    return kinds


class _ProgramBuilder:
    """A program under construction. Each step uses existing registers or new inputs."""

    def __init__(self, index: int, dtype: str, chance: Random) -> None:
        self.index = index
        self.dtype = dtype
        self.chance = chance
        self.trace = ProgramTrace(dtype)
        self.input_specs: list[InputSpec] = []
        self.steps: list[Step] = []
        self._add_input(
            "value", tuple(chance.choices((1, 2, 3, 4), (1, 3, 4, 3), k=chance.choice((1, 2, 2, 3))))
        )

    def program(self) -> Program:
        """Return the finished program."""
        return Program(self.index, self.dtype, tuple(self.input_specs), tuple(self.steps))

    def add_step(self, kind: str) -> bool:
        """Add a random step of a kind. Return False if all random candidates are rejected."""
        texts = step_form_texts(kind, self.dtype)
        texts = [text for text in texts for _ in range(1 if text in _COMMON_FORMS else 3)]
        for _ in range(_MAX_CANDIDATES):
            before = len(self.input_specs)
            try:
                step = self._random_step(kind, self.chance.choice(texts))
                self.trace.run_step(step)
            except REFUSED:
                while len(self.input_specs) > before:
                    self.input_specs.pop()
                    self.trace.remove_input(~len(self.input_specs))
                continue
            self.steps.append(step)
            return True
        return False

    def _random_step(self, kind: str, text: str) -> Step:
        form = FORMS[text]
        first = self._choose_first_operand(kind)
        x = self.trace.registers[first]
        arguments = form.choose(self.chance, x)
        others = [
            self._choose_further_operand(role, relation, x, arguments) for role, relation in form.others
        ]
        return Step(text, (first, *others), arguments)

    def _choose_first_operand(self, kind: str) -> int:
        """Return the first operand: often the last result, and for writes preferably a register that shares
        memory.
        """
        fit = [operand for operand in self.trace.registers if self.trace.can_be_operand(operand, "value")]
        last = self.trace.count - 1
        if last in fit and self.chance.random() < 0.5:
            return last
        if kind == "write":
            storages = [storage_id(x) for x in self.trace.registers.values()]
            shared = [
                operand for operand in fit if storages.count(storage_id(self.trace.registers[operand])) > 1
            ]
            if shared and self.chance.random() < 0.7:
                return self.chance.choice(shared)
        return self.chance.choice(fit)

    def _choose_further_operand(
        self, role: str, relation: str, x: torch.Tensor, arguments: tuple[object, ...]
    ) -> int:
        """Return a further operand: an existing register, or a new input with a matching shape."""
        registers = self.trace.registers
        if role != "order" and relation in ("like", "same") and self.chance.random() < 0.6:
            fit = [register for register in registers if self.trace.can_be_operand(register, role)]
            if relation == "same":
                fit = [register for register in fit if registers[register].shape == x.shape]
            if fit:
                return self.chance.choice(fit)
        dim = arguments[0] if arguments and isinstance(arguments[0], int) else 0
        shape = list(x.shape)
        if relation == "line":
            return self._add_input(role, (shape[dim],))
        if relation == "columns":
            if not shape:
                raise StepRejected
            return self._add_input(role, (shape[-1], self.chance.randint(1, 3)))
        if relation == "like":
            drop = self.chance.randint(0, len(shape)) if self.chance.random() < 0.3 else 0
            shape = [1 if self.chance.random() < 0.15 else size for size in shape[drop:]]
        if role == "order" and not shape:
            raise StepRejected
        return self._add_input(role, tuple(shape), dim)

    def _add_input(self, role: str, shape: tuple[int, ...], dim: int = 0) -> int:
        if len(self.input_specs) >= _MAX_INPUTS:
            raise StepRejected
        program_input = InputSpec(role, shape, self.chance.randrange(1 << 20), dim if role == "order" else 0)
        operand = ~len(self.input_specs)
        self.input_specs.append(program_input)
        self.trace.add_input(operand, program_input)
        return operand
