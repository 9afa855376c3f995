"""Fault injectors: one module and one class (see :mod:`injector`) for each layer of mutants."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from conformance import torch_testing_internals
from conformance.target.target import Target
from tools.mutation import interposer, operators
from tools.mutation.injectors import (
    autocast,
    collectives,
    compiled_graphs,
    device_guard,
    generators,
    python_module,
)
from tools.mutation.injectors.injector import Injector
from tools.mutation.injectors.kernels import KernelInjector

#: All mutation operators with their descriptions.
MUTATION_OPERATORS: Mapping[str, str] = {
    **operators.MUTATION_OPERATORS,
    **python_module.MUTATION_OPERATORS,
    **generators.MUTATION_OPERATORS,
    **device_guard.MUTATION_OPERATORS,
    **autocast.MUTATION_OPERATORS,
    **collectives.MUTATION_OPERATORS,
    **compiled_graphs.MUTATION_OPERATORS,
}


def create_injectors(target: Target, build_folder: Path) -> list[Injector]:
    """Return the fault injectors for a target whose device is already loaded.

    The interposer, a C++ extension, is built if necessary.
    """
    if target.elsewhere:
        return [collectives.CollectiveInjector()]
    extension = interposer.build_and_load(build_folder)
    key = torch_testing_internals.dispatch_key(target.device)
    injectors: list[Injector] = [
        KernelInjector(key, extension),
        autocast.AutocastInjector(target.device, key, extension, target.autocast),
    ]
    if not target.is_cpu:
        injectors += [
            python_module.python_module_injector(target),
            generators.generator_injector(target),
            device_guard.DeviceGuardInjector(target.device, extension),
        ]
    injectors.append(compiled_graphs.compiled_graph_injector(target))
    return injectors
