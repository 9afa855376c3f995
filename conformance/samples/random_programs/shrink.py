"""Smaller programs: fewer steps, fewer and smaller tensors, smaller arguments."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from conformance.samples.random_programs.generator import REFUSED
from conformance.samples.random_programs.program import Given, Program, Step
from conformance.samples.random_programs.steps import FORMS
from conformance.samples.random_programs.validity import Trace, traced


def shorter(program: Program) -> Iterator[Program]:
    """Yield programs that are smaller than this one and keep to the rules, the greatest changes first."""
    size, seen = _size(program), {program}
    for candidate in _candidates(program):
        if candidate is None:
            continue
        candidate = _without_unused(candidate)
        if candidate in seen or not candidate.steps or _size(candidate) >= size:
            continue
        seen.add(candidate)
        try:
            traced(candidate)
        except REFUSED:
            continue
        yield candidate


def _size(program: Program) -> tuple[int, int, int, int]:
    """Return what must fall: steps, elements and dimensions, given tensors, arguments."""
    shapes = [given.shape for given in program.given]
    elements = sum(_product(shape) + len(shape) for shape in shapes)
    arguments = sum(abs(n) for step in program.steps for n in _integers(step.arguments))
    return len(program.steps), elements, len(shapes), arguments


def _product(shape: tuple[int, ...]) -> int:
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


def _candidates(program: Program) -> Iterator[Program | None]:
    trace = traced(program)
    for number in reversed(range(len(program.steps))):
        yield _without(program, number)
    for number in reversed(range(len(program.steps))):
        yield _without(program, number, by=program.steps[number].operands[0])
        yield _given_instead(program, number, trace)
    yield from _resized(program)
    yield from _other_arguments(program)


def _without(program: Program, gone: int, by: int | None = None) -> Program | None:
    """Return the program without a step: ``by`` takes its place, or what depends on it goes too."""
    numbers: dict[int, int] = {}
    steps: list[Step] = []
    for number, step in enumerate(program.steps):
        if number == gone:
            if by is not None:
                numbers[number] = by if by < 0 else numbers[by]
            continue
        if any(operand >= 0 and operand not in numbers for operand in step.operands):
            continue
        operands = tuple(operand if operand < 0 else numbers[operand] for operand in step.operands)
        numbers[number] = len(steps)
        steps.append(dataclasses.replace(step, operands=operands))
    return dataclasses.replace(program, steps=tuple(steps))


def _given_instead(program: Program, number: int, trace: Trace) -> Program | None:
    """Return the program with a given tensor in the place of a call's result."""
    result = trace.registers[number]
    role = "value" if result.dtype == trace.dtype else "mask" if trace.fits(number, "mask") else None
    if role is None or FORMS[program.steps[number].form].kind != "call":
        return None
    given = (*program.given, Given(role, tuple(result.shape), number))
    return _without(dataclasses.replace(program, given=given), number, by=~len(program.given))


def _without_unused(program: Program) -> Program:
    """Return the program without given tensors that no step takes."""
    used = sorted({~operand for step in program.steps for operand in step.operands if operand < 0})
    if len(used) == len(program.given):
        return program
    places = {~old: ~new for new, old in enumerate(used)}
    steps = tuple(
        dataclasses.replace(step, operands=tuple(places.get(operand, operand) for operand in step.operands))
        for step in program.steps
    )
    return dataclasses.replace(program, given=tuple(program.given[one] for one in used), steps=steps)


def _resized(program: Program) -> Iterator[Program]:
    """Yield programs with fewer dimensions and shorter ones, in all given tensors alike or in one alone."""
    given = program.given
    for most in (1, 2):

        def cut(size: int, most: int = most) -> int:
            return min(size, most)

        small = tuple(dataclasses.replace(one, shape=_mapped(one.shape, cut)) for one in given)
        steps = tuple(
            dataclasses.replace(
                step, arguments=tuple(_mapped(x, cut) if isinstance(x, tuple) else x for x in step.arguments)
            )
            for step in program.steps
        )
        yield dataclasses.replace(program, given=small, steps=steps)
    for rank in sorted({len(one.shape) for one in given if one.shape}, reverse=True):
        for part in (slice(1, None), slice(0, -1)):
            smaller = tuple(
                dataclasses.replace(one, shape=one.shape[part], dim=min(one.dim, max(0, rank - 2)))
                if len(one.shape) == rank
                else one
                for one in given
            )
            yield dataclasses.replace(program, given=smaller)
    for old in sorted({size for one in given for size in one.shape if size > 1}, reverse=True):
        for new in dict.fromkeys((1, 2, old // 2, old - 1)):

            def swap(number: int, old: int = old, new: int = new) -> int:
                return new if number == old else number

            if not 0 < new < old:
                continue
            resized = tuple(
                dataclasses.replace(one, shape=tuple(swap(size) for size in one.shape)) for one in given
            )
            yield dataclasses.replace(program, given=resized)
            steps = tuple(
                dataclasses.replace(step, arguments=_mapped(step.arguments, swap)) for step in program.steps
            )
            yield dataclasses.replace(program, given=resized, steps=steps)
    for place, one in enumerate(given):
        for dim, size in enumerate(one.shape):
            for new in dict.fromkeys((1, size // 2)):
                if 0 < new < size:
                    shape = (*one.shape[:dim], new, *one.shape[dim + 1 :])
                    changed = dataclasses.replace(one, shape=shape)
                    yield dataclasses.replace(program, given=(*given[:place], changed, *given[place + 1 :]))


def _other_arguments(program: Program) -> Iterator[Program]:
    """Yield programs in which one number among the arguments is smaller."""
    for number, step in enumerate(program.steps):
        count = len(list(_integers(step.arguments)))
        for place in range(count):
            for new in (0, 1):
                seen = iter(range(count))

                def change(value: int, seen: Iterator[int] = seen, place: int = place, new: int = new) -> int:
                    return new if next(seen) == place and abs(value) > new else value

                changed = dataclasses.replace(step, arguments=_mapped(step.arguments, change))
                steps = (*program.steps[:number], changed, *program.steps[number + 1 :])
                yield dataclasses.replace(program, steps=steps)


def _mapped(tree: Any, change: Callable[[int], int]) -> Any:
    if isinstance(tree, tuple):
        return tuple(_mapped(item, change) for item in tree)
    return change(tree) if type(tree) is int else tree
