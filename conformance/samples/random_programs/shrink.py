"""Shrink random programs: fewer steps, fewer and smaller tensors, smaller arguments."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from conformance.samples.random_programs.generator import REFUSED
from conformance.samples.random_programs.program import InputSpec, Program, Step
from conformance.samples.random_programs.steps import FORMS
from conformance.samples.random_programs.validity import ProgramTrace, trace_program


def smaller_programs(program: Program) -> Iterator[Program]:
    """Yield valid programs that are smaller than ``program``, the greatest reductions first."""
    size, visited = _program_size(program), {program}
    for candidate in _smaller_candidates(program):
        if candidate is None:
            continue
        candidate = _without_unused_inputs(candidate)
        if candidate in visited or not candidate.steps or _program_size(candidate) >= size:
            continue
        visited.add(candidate)
        try:
            trace_program(candidate)
        except REFUSED:
            continue
        yield candidate


def _program_size(program: Program) -> tuple[int, int, int, int]:
    """Return the sizes that shrinking reduces, the most important first.

    The sizes are the number of steps, the number of elements and dimensions of all inputs, the number of
    inputs, and the sum of the absolute integer arguments.
    """
    shapes = [input_spec.shape for input_spec in program.input_specs]
    elements = sum(_element_count(shape) + len(shape) for shape in shapes)
    arguments = sum(abs(n) for step in program.steps for n in _integers(step.arguments))
    return len(program.steps), elements, len(shapes), arguments


def _element_count(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def _integers(tree: Any) -> Iterator[int]:
    if isinstance(tree, tuple):
        for item in tree:
            yield from _integers(item)
    elif type(tree) is int:
        yield tree


def _smaller_candidates(program: Program) -> Iterator[Program | None]:
    trace = trace_program(program)
    for number in reversed(range(len(program.steps))):
        yield _without_step(program, number)
    for number in reversed(range(len(program.steps))):
        yield _without_step(program, number, replacement=program.steps[number].operands[0])
        yield _input_instead_of_call(program, number, trace)
    yield from _with_smaller_inputs(program)
    yield from _with_smaller_arguments(program)


def _without_step(program: Program, removed: int, replacement: int | None = None) -> Program | None:
    """Return the program without the step ``removed``.

    Later steps use the operand ``replacement`` in place of the removed result. If ``replacement`` is None,
    the steps that depend on the removed result are removed too.
    """
    numbers: dict[int, int] = {}
    steps: list[Step] = []
    for number, step in enumerate(program.steps):
        if number == removed:
            if replacement is not None:
                numbers[number] = replacement if replacement < 0 else numbers[replacement]
            continue
        if any(operand >= 0 and operand not in numbers for operand in step.operands):
            continue
        operands = tuple(operand if operand < 0 else numbers[operand] for operand in step.operands)
        numbers[number] = len(steps)
        steps.append(dataclasses.replace(step, operands=operands))
    return dataclasses.replace(program, steps=tuple(steps))


def _input_instead_of_call(program: Program, number: int, trace: ProgramTrace) -> Program | None:
    """Return the program with a new input in place of the result of step ``number``.

    Return None if the step is not a call, or if no input can have the dtype of its result.
    """
    result = trace.registers[number]
    role = (
        "value" if result.dtype == trace.dtype else "mask" if trace.can_be_operand(number, "mask") else None
    )
    if role is None or FORMS[program.steps[number].form].kind != "call":
        return None
    input_specs = (*program.input_specs, InputSpec(role, tuple(result.shape), number))
    return _without_step(
        dataclasses.replace(program, input_specs=input_specs), number, replacement=~len(program.input_specs)
    )


def _without_unused_inputs(program: Program) -> Program:
    """Return the program without the inputs that no step uses."""
    used = sorted({~operand for step in program.steps for operand in step.operands if operand < 0})
    if len(used) == len(program.input_specs):
        return program
    new_operands = {~old: ~new for new, old in enumerate(used)}
    steps = tuple(
        dataclasses.replace(
            step, operands=tuple(new_operands.get(operand, operand) for operand in step.operands)
        )
        for step in program.steps
    )
    return dataclasses.replace(
        program, input_specs=tuple(program.input_specs[input_index] for input_index in used), steps=steps
    )


def _with_smaller_inputs(program: Program) -> Iterator[Program]:
    """Yield programs with fewer or shorter dimensions, first in all inputs, then in a single input."""
    input_specs = program.input_specs
    for largest in (1, 2):

        def at_most(size: int, most: int = largest) -> int:
            return min(size, most)

        small = tuple(
            dataclasses.replace(input_spec, shape=_map_integers(input_spec.shape, at_most))
            for input_spec in input_specs
        )
        steps = tuple(
            dataclasses.replace(
                step,
                arguments=tuple(
                    _map_integers(x, at_most) if isinstance(x, tuple) else x for x in step.arguments
                ),
            )
            for step in program.steps
        )
        yield dataclasses.replace(program, input_specs=small, steps=steps)
    for rank in sorted(
        {len(input_spec.shape) for input_spec in input_specs if input_spec.shape}, reverse=True
    ):
        for part in (slice(1, None), slice(0, -1)):
            smaller = tuple(
                dataclasses.replace(
                    input_spec, shape=input_spec.shape[part], dim=min(input_spec.dim, max(0, rank - 2))
                )
                if len(input_spec.shape) == rank
                else input_spec
                for input_spec in input_specs
            )
            yield dataclasses.replace(program, input_specs=smaller)
    for old in sorted(
        {size for input_spec in input_specs for size in input_spec.shape if size > 1}, reverse=True
    ):
        for new in dict.fromkeys((1, 2, old // 2, old - 1)):

            def replace_size(number: int, old: int = old, new: int = new) -> int:
                return new if number == old else number

            if not 0 < new < old:
                continue
            resized = tuple(
                dataclasses.replace(input_spec, shape=tuple(replace_size(size) for size in input_spec.shape))
                for input_spec in input_specs
            )
            yield dataclasses.replace(program, input_specs=resized)
            steps = tuple(
                dataclasses.replace(step, arguments=_map_integers(step.arguments, replace_size))
                for step in program.steps
            )
            yield dataclasses.replace(program, input_specs=resized, steps=steps)
    for input_index, input_spec in enumerate(input_specs):
        for dim, size in enumerate(input_spec.shape):
            for new in dict.fromkeys((1, size // 2)):
                if 0 < new < size:
                    shape = (*input_spec.shape[:dim], new, *input_spec.shape[dim + 1 :])
                    changed = dataclasses.replace(input_spec, shape=shape)
                    yield dataclasses.replace(
                        program,
                        input_specs=(*input_specs[:input_index], changed, *input_specs[input_index + 1 :]),
                    )


def _with_smaller_arguments(program: Program) -> Iterator[Program]:
    """Yield programs in which one integer argument is smaller."""
    for number, step in enumerate(program.steps):
        count = len(list(_integers(step.arguments)))
        for argument_index in range(count):
            for new in (0, 1):
                counter = iter(range(count))

                def reduce_chosen_integer(
                    value: int,
                    counter: Iterator[int] = counter,
                    argument_index: int = argument_index,
                    new: int = new,
                ) -> int:
                    return new if next(counter) == argument_index and abs(value) > new else value

                changed = dataclasses.replace(
                    step, arguments=_map_integers(step.arguments, reduce_chosen_integer)
                )
                steps = (*program.steps[:number], changed, *program.steps[number + 1 :])
                yield dataclasses.replace(program, steps=steps)


def _map_integers(tree: Any, change: Callable[[int], int]) -> Any:
    if isinstance(tree, tuple):
        return tuple(_map_integers(item, change) for item in tree)
    return change(tree) if type(tree) is int else tree
