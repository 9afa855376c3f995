"""The rules of programs: a step is tried on the CPU, and refused if documentation leaves its outcome open."""

from __future__ import annotations

import torch

from conformance.samples.random_programs.program import LARGEST, Given, Program, Step
from conformance.samples.random_programs.step_arguments import Unfit
from conformance.samples.random_programs.steps import FORMS

#: Up to here the dtype holds every whole number; a device may do int64 in 32 bits.
_EXACT = {"float32": 2.0**20, "bfloat16": 2.0**8, "int64": 2.0**30, "bool": 2.0**8}
#: Most elements and dimensions of a register.
_ELEMENTS, _DIMENSIONS = 96, 4


class Trace:
    """The registers of a program while it is executed step by step, by the numbers of operands."""

    def __init__(self, dtype: str) -> None:
        self.dtype: torch.dtype = getattr(torch, dtype)
        self.exact = _EXACT[dtype]
        self.registers: dict[int, torch.Tensor] = {}
        self.roles: dict[int, str] = {}
        #: Registers whose strides documentation fixes.
        self.packed: set[int] = set()
        self.count = 0
        #: The largest number that each memory may hold.
        self._largest: dict[int, float] = {}

    def give(self, operand: int, given: Given) -> None:
        """Add a tensor that the program is given."""
        tensor = given.make(self.dtype)
        self.registers[operand], self.roles[operand] = tensor, given.role
        self.packed.add(operand)
        self._largest[memory(tensor)] = {"value": LARGEST, "mask": 1.0}.get(given.role, 0.0)

    def take(self, operand: int) -> None:
        """Remove a tensor that no step uses."""
        self._largest.pop(memory(self.registers.pop(operand)))
        self.packed.discard(operand)
        self.roles.pop(operand)

    def fits(self, operand: int, role: str) -> bool:
        """Return whether a register may be an operand of that role."""
        own = self.roles[operand]
        if role == "order" or own == "order":
            return role == own
        return self.registers[operand].dtype == (torch.bool if role == "mask" else self.dtype)

    def step(self, step: Step) -> torch.Tensor:
        """Execute the next step; Unfit, or an error of torch, if it may not be part of a program."""
        form = FORMS[step.form]
        operands = [self.registers[operand] for operand in step.operands]
        if form.packed and step.operands[0] not in self.packed:
            raise Unfit
        sizes = [self._largest[memory(x)] for x in operands]
        largest = form.growth(sizes, operands, step.arguments)
        if largest > self.exact:
            raise Unfit
        if form.kind == "write":
            alike = [x for (_, r), x in zip(form.others, operands[1:], strict=True) if r == "same"]
            if any(x.shape != operands[0].shape for x in alike):
                raise Unfit  # ``out=`` would be resized
            self._check_write(operands[0], operands[1:], form.elementwise)
        names = {f"x{place}": operand for place, operand in enumerate(operands)}
        text = step.form.format(*names, *map(repr, step.arguments))
        result: torch.Tensor = eval(text, {"torch": torch, **names})
        new = memory(result) not in self._largest
        if new != (form.kind == "call") or not 0 < result.numel() <= _ELEMENTS or result.dim() > _DIMENSIONS:
            raise Unfit
        number = self.count
        if form.kind == "write":
            largest = max(largest, sizes[0])
        self._largest[memory(result)] = largest
        self.registers[number] = result
        self.roles[number] = "value" if result.dtype == self.dtype else "other"
        if form.kind != "call" and step.operands[0] in self.packed:
            self.packed.add(number)
        self.count += 1
        return result

    def _check_write(self, target: torch.Tensor, others: list[torch.Tensor], elementwise: bool) -> None:
        places = elements(target)
        written = set(places)
        if len(written) < len(places):
            raise Unfit  # several elements at one place: which write is seen is not defined
        for other in others:
            if memory(other) != memory(target):
                continue
            same = other.shape == target.shape and elements(other) == places
            if not (same and elementwise) and written & set(elements(other)):
                raise Unfit  # an element may be read before or after it is written


def memory(tensor: torch.Tensor) -> int:
    """Return a number that tensors share if they share memory."""
    return int(tensor.untyped_storage()._cdata)


def elements(tensor: torch.Tensor) -> list[int]:
    """Return the places in memory of a tensor's elements, in order."""
    count = tensor.untyped_storage().nbytes() // tensor.itemsize
    numbers = torch.arange(count).as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
    return numbers.flatten().tolist()


def traced(program: Program) -> Trace:
    """Execute a program on the CPU by the rules; Unfit, or an error of torch, if it breaks one."""
    trace = Trace(program.dtype)
    with torch.no_grad():
        for number, given in enumerate(program.given):
            trace.give(~number, given)
        for step in program.steps:
            for place, operand in enumerate(step.operands):
                role = "value" if place == 0 else FORMS[step.form].others[place - 1][0]
                if not trace.fits(operand, role):
                    raise Unfit
            trace.step(step)
    return trace
