"""The precision of the oracle: wider dtypes, steps of its probes, and the state in which the CPU computes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

from conformance import torch_testing_internals

#: Floating and complex dtypes with the ones in which the oracle computes.
UP: dict[torch.dtype, torch.dtype] = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex32: torch.complex128,
    torch.complex64: torch.complex128,
}

#: Number of probes: computations with inputs moved in random directions.
PROBES = 2
#: In float64 the oracle has no more digits than the result, so the step must stand out of its rounding.
STEP_DOUBLE = 2.0**-24
_STEP = 2.0**-20


def step_of(dtype: torch.dtype) -> float:
    """Return the relative size of a probe's movement for modules and optimizers of a dtype."""
    return STEP_DOUBLE if dtype in (torch.float64, torch.complex128) else _STEP


@contextlib.contextmanager
def surroundings(default: torch.dtype, seed: int = 0) -> Iterator[None]:
    """Compute on one thread, with a default dtype and torch's CPU generator seeded; restore all three."""
    threads, before = torch.get_num_threads(), torch.get_default_dtype()
    if threads != 1:
        torch.set_num_threads(1)  # the order of sums depends on it
    torch.set_default_dtype(default)
    try:
        with torch_testing_internals.torch_seeded(seed), torch_testing_internals.quiet():
            yield
    finally:
        torch.set_default_dtype(before)
        if threads != 1:
            torch.set_num_threads(threads)
