"""Compare random programs on the device with the CPU, in a worker process.

Each input line is a program as JSON. Each output line is the reply for one program: the word "fine", or the
reason of the failure as a JSON string. If a program hangs, the process prints the stacks of its threads to
standard error and exits.
"""

from __future__ import annotations

import faulthandler
import json
import os
import sys

import torch

from .program import Program, Step, run_program


def difference_from_cpu(program: Program) -> str:
    """Run a program on the CPU and FUZZ_RUNS times on the device, and describe the first difference.

    The result is the empty string if all runs agree.
    """
    reference = run_program(program, "cpu")
    for number in range(int(os.environ.get("FUZZ_RUNS", "1"))):
        try:
            actual = run_program(program, "hpu")
        except Exception as error:
            return f"run {number}: {type(error).__name__}: {error}"
        if reason := difference_between_results(reference, actual):
            return f"run {number}: {reason}"
    return ""


def difference_between_results(reference: list[list[torch.Tensor]], actual: list[list[torch.Tensor]]) -> str:
    """Return the first difference between the values of two runs as text, or the empty string."""
    for thread, (expected, values) in enumerate(zip(reference, actual, strict=True)):
        if len(expected) != len(values):
            return f"thread {thread} has {len(values)} values, not {len(expected)}"
        for position, (a, b) in enumerate(zip(expected, values, strict=True)):
            if a.shape != b.shape or a.dtype != b.dtype:
                forms = f"{b.dtype} {tuple(b.shape)}, not {a.dtype} {tuple(a.shape)}"
                return f"thread {thread}, value {position}: {forms}"
            if not torch.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True):
                return f"thread {thread}, value {position}: off by {(a - b).abs().max().item():.3g}"
    return ""


def main() -> None:
    """Reply to each input line until the input ends."""
    import habana_frameworks.torch as ht

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # text that the device prints must not become part of a reply
    if mode := int(os.environ.get("FUZZ_LAZY", "0")):
        ht._C.lazy_start(mode, 1)
    torch.set_num_threads(2)
    for line in sys.stdin:
        faulthandler.dump_traceback_later(float(sys.argv[1]), exit=True)
        steps = [
            tuple(Step(kind, tuple(numbers)) for kind, *numbers in thread) for thread in json.loads(line)
        ]
        reason = difference_from_cpu(Program(0, tuple(steps)))
        faulthandler.cancel_dump_traceback_later()
        print(json.dumps(reason) if reason else "fine", file=answers, flush=True)


if __name__ == "__main__":
    main()
