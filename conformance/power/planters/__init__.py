"""Planters: what plants the faults of a family, each in a module, behind one class (:mod:`planter`)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from conformance import torch_testing_internals
from conformance.power import interposer, kinds
from conformance.power.planters import autocast, collectives, engine, front, generators, streams
from conformance.power.planters.kernels import Kernels
from conformance.power.planters.planter import Planter
from conformance.target.target import Target

#: Every kind of every family, with what it does.
KINDS: Mapping[str, str] = {
    **kinds.KINDS,
    **front.KINDS,
    **generators.KINDS,
    **streams.KINDS,
    **autocast.KINDS,
    **collectives.KINDS,
    **engine.KINDS,
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
        found += [front.of(target), generators.of(target), streams.Streams(target.device, extension)]
    found.append(engine.of(target))
    return found
