"""Planters: what plants the faults of a family, each in a module, behind one class (:mod:`planter`)."""

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
from tools.mutation.injectors.injector import Planter
from tools.mutation.injectors.kernels import Kernels

#: Every kind of every family, with what it does.
KINDS: Mapping[str, str] = {
    **operators.KINDS,
    **python_module.KINDS,
    **generators.KINDS,
    **device_guard.KINDS,
    **autocast.KINDS,
    **collectives.KINDS,
    **compiled_graphs.KINDS,
}


def of(target: Target, build_folder: Path) -> list[Planter]:
    """Return the planters for a target that was brought up; the extension is built if it has to be."""
    if target.elsewhere:
        return [collectives.Collectives()]
    extension = interposer.load(build_folder)
    key = torch_testing_internals.dispatch_key(target.device)
    found: list[Planter] = [
        Kernels(key, extension),
        autocast.Autocast(target.device, key, extension, target.autocast),
    ]
    if not target.is_cpu:
        found += [
            python_module.of(target),
            generators.of(target),
            device_guard.Streams(target.device, extension),
        ]
    found.append(compiled_graphs.of(target))
    return found
