"""Strides of fake results on hpu.

torch has a rule for hpu: fake tensors, and the reference implementations behind them, make the results of
elementwise, indexing and convolution operators contiguous, because the hardware bridge lays them out so. This
device runs the CPU's kernels and keeps strides as the CPU does, and compiled code must agree with eager code.
Eager could follow the rule, at the price of copies and of a table for each release of torch; instead
`torch._subclasses.fake_impls.is_noncontiguous_supported` and its twin in `torch._refs` answer yes for hpu
too, and fake convolutions take the strides that the CPU would give (`fake_results`), as soon as those modules
are imported. No other device is touched.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from .fake_shapes import ask_the_cpu
from .import_hooks import when_imported
from .wrap_function import replace


def lift_rule() -> None:
    """Let fake results on hpu have the strides of eager ones."""
    for name in ("torch._subclasses.fake_impls", "torch._refs"):
        when_imported(name, _lift_contiguity)
    when_imported("torch._subclasses.fake_impls", ask_the_cpu)


def _lift_contiguity(module: ModuleType) -> None:
    if hasattr(module, "is_noncontiguous_supported"):
        replace(module, "is_noncontiguous_supported", _supporting_hpu)


def _supporting_hpu(original: Callable[[Any], bool]) -> Callable[[Any], bool]:
    def is_noncontiguous_supported(device: Any) -> bool:
        return (device is not None and device.type == "hpu") or original(device)

    return is_noncontiguous_supported
