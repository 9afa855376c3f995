"""Define how reference values are computed: the high-precision dtypes, the distances by which probes move the
inputs, and the settings of the CPU, such as the number of threads.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

from conformance import torch_testing_internals

#: The high-precision dtype of each floating and complex dtype.
HIGH_PRECISION_DTYPES: dict[torch.dtype, torch.dtype] = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex32: torch.complex128,
    torch.complex64: torch.complex128,
}

#: The number of probes. A probe recomputes a result with inputs moved in random directions, to measure how
#: far the result moves.
PROBE_COUNT = 2
#: The relative distance by which a probe moves the inputs if the dtype under test is float64 or complex128.
#: Probes are computed in float64 too, so the distance must exceed the rounding errors of float64.
FLOAT64_PROBE_STEP = 2.0**-24
_PROBE_STEP = 2.0**-20


def probe_step(dtype: torch.dtype) -> float:
    """Return the relative distance by which a probe moves the values of a module or optimizer of a dtype."""
    return FLOAT64_PROBE_STEP if dtype in (torch.float64, torch.complex128) else _PROBE_STEP


@contextlib.contextmanager
def reproducible_cpu_state(default: torch.dtype, seed: int = 0) -> Iterator[None]:
    """Run the block on one thread, with a default dtype and a seeded CPU generator. Afterwards restore the
    number of threads, the default dtype and the generator.
    """
    threads, before = torch.get_num_threads(), torch.get_default_dtype()
    if threads != 1:
        torch.set_num_threads(1)  # the order of sums depends on the number of threads
    torch.set_default_dtype(default)
    try:
        with torch_testing_internals.torch_seeded(seed), torch_testing_internals.silence_warnings():
            yield
    finally:
        torch.set_default_dtype(before)
        if threads != 1:
            torch.set_num_threads(threads)
