"""Check the rules of random programs: run each step on the CPU, and reject a step whose result is
unspecified.
"""

from __future__ import annotations

import torch

from conformance.samples.random_programs.program import LARGEST_INPUT, InputSpec, Program, Step
from conformance.samples.random_programs.step_arguments import StepRejected
from conformance.samples.random_programs.steps import FORMS

#: The largest absolute integer that a program may contain, by dtype. A device may compute int64 in 32 bits.
_EXACT = {"float32": 2.0**20, "bfloat16": 2.0**8, "int64": 2.0**30, "bool": 2.0**8}
#: The maximal numbers of elements and of dimensions of a register.
_ELEMENTS, _DIMENSIONS = 96, 4


class ProgramTrace:
    """The registers of a program while it runs step by step, by operand number."""

    def __init__(self, dtype: str) -> None:
        self.dtype: torch.dtype = getattr(torch, dtype)
        self.exact = _EXACT[dtype]
        self.registers: dict[int, torch.Tensor] = {}
        self.roles: dict[int, str] = {}
        #: Registers whose strides are documented: inputs, and views of and writes to such registers.
        self.packed: set[int] = set()
        self.count = 0
        #: By storage: an upper bound of the absolute values of its numbers.
        self._largest: dict[int, float] = {}

    def add_input(self, operand: int, input_spec: InputSpec) -> None:
        """Add an input tensor."""
        tensor = input_spec.make_tensor(self.dtype)
        self.registers[operand], self.roles[operand] = tensor, input_spec.role
        self.packed.add(operand)
        self._largest[storage_id(tensor)] = {"value": LARGEST_INPUT, "mask": 1.0}.get(input_spec.role, 0.0)

    def remove_input(self, operand: int) -> None:
        """Remove an input tensor that no step uses."""
        self._largest.pop(storage_id(self.registers.pop(operand)))
        self.packed.discard(operand)
        self.roles.pop(operand)

    def can_be_operand(self, operand: int, role: str) -> bool:
        """Return whether a register can be an operand with this role."""
        own = self.roles[operand]
        if role == "order" or own == "order":
            return role == own
        return self.registers[operand].dtype == (torch.bool if role == "mask" else self.dtype)

    def run_step(self, step: Step) -> torch.Tensor:
        """Run the next step. Raise StepRejected or an exception of torch if the step is not allowed."""
        form = FORMS[step.form]
        operands = [self.registers[operand] for operand in step.operands]
        if form.packed and step.operands[0] not in self.packed:
            raise StepRejected
        sizes = [self._largest[storage_id(x)] for x in operands]
        largest = form.growth(sizes, operands, step.arguments)
        if largest > self.exact:
            raise StepRejected
        if form.kind == "write":
            alike = [x for (_, r), x in zip(form.others, operands[1:], strict=True) if r == "same"]
            if any(x.shape != operands[0].shape for x in alike):
                raise StepRejected  # torch would resize ``out=``
            self._check_write(operands[0], operands[1:], form.elementwise)
        names = {f"x{position}": operand for position, operand in enumerate(operands)}
        text = step.form.format(*names, *map(repr, step.arguments))
        result: torch.Tensor = eval(text, {"torch": torch, **names})
        new = storage_id(result) not in self._largest
        if new != (form.kind == "call") or not 0 < result.numel() <= _ELEMENTS or result.dim() > _DIMENSIONS:
            raise StepRejected
        number = self.count
        if form.kind == "write":
            largest = max(largest, sizes[0])
        self._largest[storage_id(result)] = largest
        self.registers[number] = result
        self.roles[number] = "value" if result.dtype == self.dtype else "other"
        if form.kind != "call" and step.operands[0] in self.packed:
            self.packed.add(number)
        self.count += 1
        return result

    def _check_write(self, target: torch.Tensor, operands: list[torch.Tensor], elementwise: bool) -> None:
        offsets = element_offsets(target)
        written = set(offsets)
        if len(written) < len(offsets):
            raise StepRejected  # overlapping elements: the order of the writes is undefined
        for operand in operands:
            if storage_id(operand) != storage_id(target):
                continue
            same = operand.shape == target.shape and element_offsets(operand) == offsets
            if not (same and elementwise) and written & set(element_offsets(operand)):
                raise StepRejected  # the order of reading and writing the element is undefined


def storage_id(tensor: torch.Tensor) -> int:
    """Return the identity of the tensor's storage."""
    return int(tensor.untyped_storage()._cdata)


def element_offsets(tensor: torch.Tensor) -> list[int]:
    """Return the storage offsets of a tensor's elements, in order."""
    count = tensor.untyped_storage().nbytes() // tensor.itemsize
    numbers = torch.arange(count).as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
    return numbers.flatten().tolist()


def trace_program(program: Program) -> ProgramTrace:
    """Run a program on the CPU and return its registers. Raise StepRejected or an exception of torch if a
    step violates a rule.
    """
    trace = ProgramTrace(program.dtype)
    with torch.no_grad():
        for number, input_spec in enumerate(program.input_specs):
            trace.add_input(~number, input_spec)
        for step in program.steps:
            for position, operand in enumerate(step.operands):
                role = "value" if position == 0 else FORMS[step.form].others[position - 1][0]
                if not trace.can_be_operand(operand, role):
                    raise StepRejected
            trace.run_step(step)
    return trace
