"""Random programs are reproducible from their seed and valid, contain every form of step, and
can be shrunk.
"""

from __future__ import annotations

import collections
import math
import zlib

import pytest
import torch

from conformance.samples.random_programs.generator import DTYPES, generate_program, programs_of
from conformance.samples.random_programs.program import InputSpec, Program, Step, run_program
from conformance.samples.random_programs.shrink import smaller_programs
from conformance.samples.random_programs.step_arguments import StepRejected
from conformance.samples.random_programs.steps import FORMS, step_form_texts
from conformance.samples.random_programs.validity import storage_id, trace_program

SEEDS = {"float32": 500, "bfloat16": 250, "int64": 250, "bool": 250}
CRC = 3875318459


@pytest.fixture(scope="module")
def programs_by_dtype() -> dict[str, list[Program]]:
    return {dtype: [generate_program(index, dtype) for index in range(SEEDS[dtype])] for dtype in DTYPES}


def all_equal(actual: list[torch.Tensor], right: list[torch.Tensor]) -> bool:
    return all(
        torch.equal(actual_tensor, expected_tensor)
        for actual_tensor, expected_tensor in zip(actual, right, strict=True)
    )


def test_programs_are_equal_in_every_process() -> None:
    """The programs of a seed are equal in every process. Update the digest only after a change of the step
    forms.
    """
    text = "".join(str(generate_program(index, dtype)) for dtype in DTYPES for index in range(10))
    assert zlib.crc32(text.encode()) == CRC


def test_programs_do_not_depend_on_earlier_programs(programs_by_dtype: dict[str, list[Program]]) -> None:
    for dtype in reversed(DTYPES):
        assert [generate_program(index, dtype) for index in (40, 3)] == [
            programs_by_dtype[dtype][i] for i in (40, 3)
        ]
        assert programs_of("programs", dtype)[40] == programs_by_dtype[dtype][40]


def test_every_program_is_valid(programs_by_dtype: dict[str, list[Program]]) -> None:
    for dtype in DTYPES:
        for program in programs_by_dtype[dtype]:
            assert 2 <= len(program.steps) <= 5
            trace = trace_program(program)
            registers = run_program(program, program.inputs())
            assert all_equal(
                registers[len(program.input_specs) :], [trace.registers[i] for i in range(trace.count)]
            )
            run_program(program, program.inputs(1))  # must not raise for other input values


def test_every_value_is_exact(programs_by_dtype: dict[str, list[Program]]) -> None:
    """No step of a program rounds: bfloat16 and float64 give the same values."""
    for program in programs_by_dtype["bfloat16"]:
        wide = [x.double() if x.is_floating_point() else x for x in program.inputs()]
        narrow, expected = run_program(program, program.inputs()), run_program(program, wide)
        assert all_equal([x.to(y.dtype) for x, y in zip(narrow, expected, strict=True)], expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_form_occurs(programs_by_dtype: dict[str, list[Program]], dtype: str) -> None:
    used_forms = {step.form for program in programs_by_dtype[dtype] for step in program.steps}
    declared_forms = {text for kind in ("call", "view", "write") for text in step_form_texts(kind, dtype)}
    assert used_forms == declared_forms


def test_programs_mix_kinds_of_steps(programs_by_dtype: dict[str, list[Program]]) -> None:
    counted: collections.Counter[str] = collections.Counter()
    aliased = 0
    for program in programs_by_dtype["float32"]:
        kinds = [FORMS[step.form].kind for step in program.steps]
        assert "write" in kinds
        counted.update(kinds)
        registers_per_memory = collections.Counter(map(storage_id, trace_program(program).registers.values()))
        aliased += max(registers_per_memory.values()) > 2  # a write also returns the register that it changed
    assert min(counted.values()) > SEEDS["float32"] / 2
    assert aliased > SEEDS["float32"] / 2


def test_smaller_programs_are_valid_and_smaller(programs_by_dtype: dict[str, list[Program]]) -> None:
    for program in programs_by_dtype["float32"][:40]:
        candidates = list(smaller_programs(program))
        assert len(set(candidates)) == len(candidates)
        for candidate in candidates:
            trace_program(candidate)
            assert len(candidate.steps) <= len(program.steps)
            used = {operand for step in candidate.steps for operand in step.operands}
            assert {~input_index for input_index in range(len(candidate.input_specs))} <= used


def test_a_program_that_fails_by_one_write_shrinks_to_it(programs_by_dtype: dict[str, list[Program]]) -> None:
    """A program that fails because of a write into a view shrinks to one view and one write."""

    def fails(program: Program) -> bool:
        views = {i for i, step in enumerate(program.steps) if FORMS[step.form].kind == "view"}
        writes = [step for step in program.steps if FORMS[step.form].kind == "write"]
        return any(step.operands[0] in views for step in writes)

    shrunk = 0
    for program in programs_by_dtype["int64"][:60]:
        while (
            fails(program) and (smaller := next(filter(fails, smaller_programs(program)), None)) is not None
        ):
            program = smaller
        if fails(program):
            shrunk += 1
            assert len(program.steps) == 2
            assert sum(math.prod(tensor.shape) for tensor in program.input_specs) <= 8
    assert shrunk > 20


def program_of(*steps: Step, shape: tuple[int, ...] = (4,)) -> Program:
    return Program(0, "float32", (InputSpec("value", shape, 1), InputSpec("value", shape, 2)), steps)


@pytest.mark.parametrize(
    "steps",
    [
        (Step("{0}.expand({1})", (~0,), ((2, 4),)), Step("{0}.add_({1})", (0, ~1))),
        (Step("{0}.unfold({1}, {2}, {3})", (~0,), (0, 2, 1)), Step("{0}.zero_()", (0,))),
        (
            Step("{0}.narrow({1}, {2}, {3})", (~0,), (0, 0, 3)),
            Step("{0}.narrow({1}, {2}, {3})", (~0,), (0, 1, 3)),
            Step("{0}.copy_({1})", (0, 1)),
        ),
        (Step("{0}.clone()", (~0,)), Step("{0}.view({1})", (0,), ((2, 2),))),
        (Step("{0}.narrow({1}, {2}, {3})", (~0,), (0, 0, 0)),),
        (*[Step("{0} * {1}", (number - 1, number - 1)) for number in range(6)],),
    ],
    ids=["expanded", "overlapping windows", "shifted copy", "strides of a result", "empty", "too large"],
)
def test_steps_with_undocumented_results_are_rejected(steps: tuple[Step, ...]) -> None:
    with pytest.raises(StepRejected):
        trace_program(program_of(*steps))


def test_the_text_of_a_program_computes_the_same() -> None:
    program = program_of(Step("{0}[{1}::{2}]", (~0,), (1, 2)), Step("{0}.zero_()", (0,)), shape=(3,))
    assert program.describe(marks={1}).splitlines()[2:] == ["x2 = x0[1::2]", "mark_step()", "x3 = x2.zero_()"]
    scope: dict[str, object] = {"torch": torch}
    exec(program.describe(), scope)
    assert all_equal([scope[name] for name in program.names], run_program(program, program.inputs()))  # type: ignore[misc]
    steps: list[None] = []
    program.as_function(lambda: steps.append(None), {0, 1})(*program.inputs())
    assert len(steps) == 2
    assert program.steps_with_mark() == program.steps_with_mark() <= {0, 1}
