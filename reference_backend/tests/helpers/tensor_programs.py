"""Make, run and compare random programs of tensor operations. All modes must match eager mode bit for bit.

A program is a list of steps that read and write a pool of tensors. Equal seeds give equal programs. Each step
ran once on the CPU while the program was made. A run also needs data: `inputs` (device tensors), `hosts` (CPU
tensors that steps copy to the device) and `numbers` (scalars that differ between runs).
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

Pool = dict[str, Tensor]
SIZES = ((4, 4), (4,), (3, 4), (4, 4, 2), (40, 40))


@dataclass(frozen=True)
class Step:
    """One call `result = function(*operands, *extra)`. A step without a result writes in place.

    ``number`` is the index of the scalar argument in `InputData.numbers`, or -1 for a call without a scalar.
    """

    kind: str
    operands: tuple[str, ...]
    result: str = ""
    extra: tuple[Any, ...] = ()
    number: int = -1


@dataclass
class Program:
    shapes: dict[str, tuple[int, ...]]
    hosts: dict[str, tuple[int, ...]]
    steps: list[Step] = field(default_factory=list)
    numbers: int = 0

    @property
    def random(self) -> bool:
        return any(step.kind in ("rand_like", "uniform_", "dropout") for step in self.steps)


@dataclass
class InputData:
    inputs: Pool
    hosts: Pool
    numbers: list[float]

    @classmethod
    def for_program(cls, program: Program, seed: int, numbers: list[float] | None = None) -> InputData:
        generator = torch.Generator().manual_seed(seed)

        def random_tensor(shape: tuple[int, ...]) -> Tensor:
            return torch.rand(shape, generator=generator) * 2 - 1

        draw = random.Random(seed)
        return cls(
            {name: random_tensor(shape) for name, shape in program.shapes.items()},
            {name: random_tensor(shape) for name, shape in program.hosts.items()},
            numbers or [draw.choice((0.5, -1.25, 1.0, draw.uniform(-2, 2))) for _ in range(program.numbers)],
        )


NEW: dict[str, Callable[..., Tensor]] = {
    "neg": lambda a: -a,
    "relu": torch.relu,
    "tanh": torch.tanh,
    "sin": torch.sin,
    "clone": torch.clone,
    "positive": lambda a: torch.where(a > 0, a, a * 0.5),
    "round_trip": lambda a: a.to(torch.float64).to(torch.float32),
    "int": lambda a: (a * 8).to(torch.int32).float(),
    "softmax": lambda a: torch.softmax(a, -1),
    "sum": lambda a, dim, keep: a.sum(dim, keepdim=keep),
    "mean": lambda a: a.mean(),
    "amax": lambda a, dim: a.amax(dim),
    "max": lambda a, dim: a.max(dim)[0],
    "sort": lambda a: a.sort(-1)[0],
    "cumsum": lambda a: a.cumsum(-1),
    "flip": lambda a: a.flip(0),
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "maximum": torch.maximum,
    "add_alpha": lambda a, b, number: torch.add(a, b, alpha=number),
    "lerp": lambda a, b, number: torch.lerp(a, b, number),
    "mul_scalar": lambda a, number: a * number,
    "add_scalar": lambda a, number: a + number,
    "clamp": lambda a, number: a.clamp(min=number),
    "mul_constant": lambda a, constant: a * constant,
    "add_integer": lambda a, constant: a + constant,
    "cpu_scalar": lambda a, number: a * torch.tensor(number),
    "matmul": lambda a, b: a @ b,
    "cat": lambda a, b: torch.cat((a, b)),
    "stack": lambda a, b: torch.stack((a, b)).mean(0),
    "zeros_like": torch.zeros_like,
    "full_like": lambda a, number: torch.full_like(a, number),
    "rand_like": torch.rand_like,
    "dropout": lambda a: torch.nn.functional.dropout(a, 0.5),
    # views
    "t": lambda a: a.transpose(0, -1),
    "row": lambda a, index: a[index],
    "part": lambda a, start, step: a[start::step],
    "last": lambda a, start: a[..., start:],
    "diagonal": lambda a: a.diagonal(),
    "flat": lambda a: a.view(-1),
    "unsqueeze": lambda a: a.unsqueeze(0),
    "expand": lambda a: a.unsqueeze(0).expand(3, *a.shape),
    "detach": lambda a: a.detach(),
}
CHANGE: dict[str, Callable[..., Any]] = {
    "add_": lambda a, b: a.add_(b),
    "mul_": lambda a, b: a.mul_(b),
    "copy_": lambda a, b: a.copy_(b),
    "add_scalar_": lambda a, number: a.add_(number),
    "mul_scalar_": lambda a, number: a.mul_(number),
    "mul_constant_": lambda a, constant: a.mul_(constant),
    "add_constant_": lambda a, constant: a.add_(constant),
    "fill_": lambda a, number: a.fill_(number),
    "relu_": lambda a: a.relu_(),
    "zero_": lambda a: a.zero_(),
    "tanh_": lambda a: a.tanh_(),
    "uniform_": lambda a: a.uniform_(),
    "foreach_": lambda a, b: torch._foreach_add_([a, b], 0.25),
    "foreach_list_": lambda a, b, c: torch._foreach_mul_([a, b], [c, c]),
    "addcmul_": lambda a, b, c, number: a.addcmul_(b, c, value=number),
    "out_add": lambda a, b, c: torch.add(b, c, out=a),
    "out_mm": lambda a, b, c: torch.mm(b, c, out=a),
    "setitem": lambda a, b, index: a.__setitem__(index, b),
}
ONE = [
    "neg",
    "relu",
    "tanh",
    "sin",
    "clone",
    "positive",
    "round_trip",
    "int",
    "softmax",
    "sum",
    "mean",
    "amax",
    "max",
    "sort",
    "cumsum",
    "flip",
    "mul_scalar",
    "add_scalar",
    "clamp",
    "mul_constant",
    "add_integer",
    "cpu_scalar",
    "zeros_like",
    "full_like",
]
TWO = ["add", "sub", "mul", "maximum", "add_alpha", "lerp", "matmul", "cat", "stack", "add", "mul", "matmul"]
VIEWS = ["t", "row", "part", "last", "diagonal", "flat", "unsqueeze", "expand", "detach"]
RANDOM = ["rand_like", "dropout", "uniform_"]
WRITES = [
    "add_",
    "mul_",
    "copy_",
    "add_scalar_",
    "mul_scalar_",
    "mul_constant_",
    "add_constant_",
    "fill_",
    "relu_",
    "zero_",
    "tanh_",
    "foreach_",
    "foreach_list_",
    "addcmul_",
    "out_add",
    "out_mm",
    "setitem",
]
NUMBERED = (
    "add_alpha lerp mul_scalar add_scalar clamp cpu_scalar full_like add_scalar_ mul_scalar_ fill_ addcmul_"
)
OPERANDS = {"addcmul_": 3, "foreach_list_": 3, "out_add": 3, "out_mm": 3} | dict.fromkeys(
    ("add_", "mul_", "copy_", "foreach_", "setitem"), 2
)
CONSTANTS = (2.0, 0.5, -1.0, 1.5)


def run_step(step: Step, pool: Pool, data: InputData) -> None:
    """Run one step on the tensors of the pool. The step adds, frees or writes a tensor of the pool."""
    if step.kind == "free":
        del pool[step.operands[0]]
        return
    if step.kind == "host":
        pool[step.operands[0]].copy_(data.hosts[step.extra[0]])
        return
    arguments: list[Any] = [pool[name] for name in step.operands]
    arguments += step.extra
    if step.number >= 0:
        arguments.append(data.numbers[step.number])
    if step.kind in CHANGE:
        CHANGE[step.kind](*arguments)
    else:
        pool[step.result] = NEW[step.kind](*arguments)


def run_program(program: Program, pool: Pool, data: InputData, steps: slice = slice(None)) -> Pool:
    """Run the steps on the tensors of the pool, and return the pool. The steps change the pool."""
    for step in program.steps[steps]:
        run_step(step, pool, data)
    return pool


def _share_storage(a: Tensor, b: Tensor) -> bool:
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


def _is_valid(step: Step, pool: Pool) -> bool:
    if any(name not in pool for name in step.operands):
        return False
    tensors = [pool[name] for name in step.operands]
    if step.kind in CHANGE or step.kind == "host":
        written = tensors[:2] if step.kind.startswith("foreach") else tensors[:1]
        if any(0 in tensor.stride() and tensor.numel() > 1 for tensor in written):
            return False
        rest = tensors[len(written) :]
        if any(_share_storage(a, b) for a in written for b in rest):
            return False
        if len(written) == 2 and _share_storage(*written):
            return False
        # out= tensors keep their size, because a resize calls a different operator
        if step.kind == "out_add" and tensors[0].shape != torch.broadcast_shapes(*(t.shape for t in rest)):
            return False
        if step.kind == "out_mm" and tensors[0].shape != (rest[0].shape[0], rest[1].shape[-1]):
            return False
    return sum(t.numel() for t in tensors) < 20000


def _run_if_valid(step: Step, pool: Pool, data: InputData) -> bool:
    try:
        if not _is_valid(step, pool):
            return False
        run_step(step, pool, data)
    except (RuntimeError, IndexError):
        return False
    if step.result and pool[step.result].numel() > 8000:
        del pool[step.result]
        return False
    return True


def _random_step(rng: random.Random, kind: str, pool: Pool, program: Program, result_number: int) -> Step:
    names = sorted(pool)
    operands = OPERANDS.get(kind, 2 if kind in TWO else 1)
    picked = tuple(rng.choice(names) for _ in range(operands))
    extra: tuple[Any, ...] = ()
    if kind == "sum":
        extra = (rng.choice((0, -1)), rng.random() < 0.5)
    elif kind in ("amax", "max"):
        extra = (rng.choice((0, -1)),)
    elif kind in ("row", "last", "setitem"):
        extra = (rng.randrange(3),)
    elif kind == "part":
        extra = (rng.randrange(2), rng.choice((1, 2)))
    elif kind in ("mul_constant", "mul_constant_", "add_constant_"):
        extra = (rng.choice(CONSTANTS),)
    elif kind == "add_integer":
        extra = (rng.randrange(3),)
    number = -1
    if kind in NUMBERED.split():
        number = rng.randrange(program.numbers + 1)
    result = "" if kind in CHANGE else f"v{result_number}"
    return Step(kind, picked, result, extra, number)


def make_program(seed: int, length: int = 24, uses_random_numbers: bool = True) -> Program:
    """Return the program of a seed. If `uses_random_numbers` is true, its steps may use torch's random
    generator.
    """
    rng = random.Random(seed)
    program = Program(
        {f"in{i}": rng.choice(SIZES[:3] + SIZES[:1] * 3 + SIZES[3:]) for i in range(rng.randrange(2, 5))},
        {f"host{i}": rng.choice(SIZES[:3]) for i in range(2)},
    )
    if rng.random() < 0.3:
        program.shapes = dict.fromkeys(program.shapes, (40, 40))
    data = InputData.for_program(program, seed, [0.5] * 100)
    pool = {name: tensor.clone() for name, tensor in data.inputs.items()}
    kinds = rng.random()
    attempts = 0
    while len(program.steps) < length and attempts < 50 * length:
        attempts += 1
        choice = rng.random()
        if choice < 0.12 and len(pool) > 3:
            step = Step("free", (rng.choice(sorted(pool)),))
        elif choice < 0.16:
            step = Step("host", (rng.choice(sorted(pool)),), extra=(rng.choice(sorted(program.hosts)),))
        elif choice < 0.2 and uses_random_numbers:
            step = _random_step(rng, rng.choice(RANDOM), pool, program, attempts)
        elif choice < 0.4:
            step = _random_step(rng, rng.choice(WRITES), pool, program, attempts)
        elif choice < 0.55:
            step = _random_step(rng, rng.choice(VIEWS), pool, program, attempts)
        elif choice < 0.6 and program.steps:  # repeat an earlier step
            earlier = rng.choice(program.steps)
            step = Step(
                earlier.kind,
                earlier.operands,
                earlier.result and f"v{attempts}",
                earlier.extra,
                earlier.number,
            )
        else:
            step = _random_step(
                rng, rng.choice(ONE if rng.random() < kinds else TWO), pool, program, attempts
            )
        if _run_if_valid(step, pool, data):
            program.steps.append(step)
            program.numbers = max(program.numbers, step.number + 1)
    return program


def is_runnable(program: Program) -> bool:
    """Return whether the CPU can run all steps."""
    data = InputData.for_program(program, 0)
    pool = {name: tensor.clone() for name, tensor in data.inputs.items()}
    return all(_run_if_valid(step, pool, data) for step in program.steps)


def programs_with_small_changes(program: Program, seed: int, count: int = 3) -> list[Program]:
    """Return copies of the program with one small change each.

    The change is a different number, a different part in a view, a different operand, two exchanged steps, or
    a ``free`` step that is removed or added.
    """
    rng = random.Random(seed)
    result: list[Program] = []
    for _ in range(40):
        steps = list(program.steps)
        at = rng.randrange(len(steps))
        step = steps[at]
        change = rng.randrange(5)
        if change == 0 and step.extra and isinstance(step.extra[0], float):
            steps[at] = Step(step.kind, step.operands, step.result, (step.extra[0] + 1.0,), step.number)
        elif change == 0 and step.extra and isinstance(step.extra[0], int):
            extra = (1 - min(step.extra[0], 1), *step.extra[1:])
            steps[at] = Step(step.kind, step.operands, step.result, extra, step.number)
        elif change == 1 and step.kind != "host":
            names = sorted({name for step in steps[:at] for name in (*step.operands, step.result) if name})
            if names:
                operands = list(step.operands)
                operands[rng.randrange(len(operands))] = rng.choice(names)
                steps[at] = Step(step.kind, tuple(operands), step.result, step.extra, step.number)
        elif change == 2 and at + 1 < len(steps):
            steps[at], steps[at + 1] = steps[at + 1], steps[at]
        elif change == 3 and step.kind == "free":
            del steps[at]
        elif change == 4 and step.result:
            steps.append(Step("free", (step.result,)))
        changed = Program(program.shapes, program.hosts, steps, program.numbers)
        if steps != program.steps and is_runnable(changed):
            result.append(changed)
            if len(result) == count:
                break
    return result


def without_free_steps(program: Program) -> Program:
    """Return the program without its ``free`` steps, so that all tensors live until its end."""
    steps = [step for step in program.steps if step.kind != "free"]
    return Program(program.shapes, program.hosts, steps, program.numbers)


def copy_pool_to_host(pool: Pool) -> dict[str, Any]:
    """Return values, metadata and shared storages of the tensors, by name."""
    result: dict[str, Any] = {}
    order = sorted(pool)
    for name in order:
        tensor = pool[name]
        shared = [earlier for earlier in order if _share_storage(pool[earlier], tensor)]
        result[name] = (tensor.shape, tensor.stride(), tensor.storage_offset(), tensor.dtype, shared)
    values = {name: pool[name].cpu().flatten().clone(memory_format=torch.contiguous_format) for name in order}
    return {name: (*result[name], values[name]) for name in order}


def differences_between_snapshots(actual: dict[str, Any], expected: dict[str, Any]) -> list[str]:
    """Return a description of each bitwise difference between two snapshots."""
    result = [] if actual.keys() == expected.keys() else [f"names {sorted(actual)} != {sorted(expected)}"]
    for name in sorted(actual.keys() & expected.keys()):
        if actual[name][:-1] != expected[name][:-1]:
            result.append(f"{name}: {actual[name][:-1]} != {expected[name][:-1]}")
        else:
            a, b = actual[name][-1], expected[name][-1]
            if not torch.equal(a.view(torch.uint8), b.view(torch.uint8)):
                result.append(
                    f"{name}: values differ by up to {(a - b).abs().max()} at {(a != b).sum()} of {a.numel()}"
                )
    return result


def inputs_on_device(data: InputData) -> Pool:
    return {name: tensor.to("hpu") for name, tensor in data.inputs.items()}


def program_runs_of_seed(
    seed: int, length: int = 24, keep_tensors: bool = False
) -> list[tuple[Program, int]]:
    """Return the runs of a seed. Each run is a program and the seed of its data.

    The programs are the program of the seed and its small variants. Each program runs three times in a row,
    and once more after all programs. If `keep_tensors` is true, no step frees a tensor.
    """
    program = make_program(seed, length)
    family = [program, *programs_with_small_changes(program, seed)]
    if keep_tensors:
        family = [without_free_steps(member) for member in family]
    turns = [0, 0, 0, *(i for i in range(1, len(family)) for _ in range(3)), *range(len(family))]
    return [(family[index], 1000 * seed + turn) for turn, index in enumerate(turns)]


def run_programs_of_seed(
    seed: int, between: Callable[[int], None], keep_tensors: bool = False
) -> list[dict[str, Any]]:
    """Run the schedule of a seed on the device, and return the snapshot after each run.

    The seed determines whether `between` is called before, within or after each run. The argument of
    `between` is the index of the run, or -1 if it is called before the run.
    """
    results = []
    previous: Pool = {}
    for turn, (program, data_seed) in enumerate(program_runs_of_seed(seed, keep_tensors=keep_tensors)):
        torch.manual_seed(data_seed)
        data = InputData.for_program(program, data_seed)
        pool = inputs_on_device(data)
        if seed % 3 == 0:  # replace copies from the host by clones made on the device
            pool = {name: tensor.clone() for name, tensor in pool.items()}
        if seed % 2 == 0:
            between(-1)
        if seed % 5 == 4:  # `between` is called in the middle of the run
            middle = len(program.steps) // 2
            run_program(program, pool, data, slice(middle))
            between(turn)
            run_program(program, pool, data, slice(middle, None))
        else:
            run_program(program, pool, data)
        if seed % 2 == 1:
            between(turn)
        if seed % 7 != 6:
            previous.clear()
        results.append(copy_pool_to_host(pool))
        previous = pool
    return results


def main(path: str, mode: str, first: str, last: str, keep_tensors: str = "") -> None:
    """Run the seeds `first` to `last` - 1 in lazy mode. Write results and cache statistics to `path`."""
    import habana_frameworks.torch as ht

    ht._C.lazy_start(int(mode), 7)
    results = {
        seed: run_programs_of_seed(
            seed, lambda turn: ht._C.lazy_flush(False), keep_tensors=bool(keep_tensors)
        )
        for seed in range(int(first), int(last))
    }
    torch.save({"results": results, "statistics": ht._C.recipe_cache_stats()}, path)


if __name__ == "__main__":
    main(*sys.argv[1:])
