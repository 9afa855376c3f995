"""The impact of a missing feature: the results that it blocks, and its location in openreg."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection

import torch

from conformance.doctor.registration_checks import Fact
from conformance.errors import UsageError
from conformance.plan.levels import manifest
from conformance.plan.levels.manifest import RequiredResult
from conformance.target.target import Target

#: Files of torch_openreg, PyTorch's own example of a device, by the subject of a fact or by capability. Its
#: folder in PyTorch's repository is test/cpp_extensions/open_registration_extension/torch_openreg.
OPENREG: dict[str, str] = {
    "torch.accelerator": "csrc/runtime/OpenRegHooks.h",
    "torch.accelerator.is_available": "csrc/runtime/OpenRegHooks.h",
    "torch.accelerator.device_count": "csrc/runtime/OpenRegHooks.h",
    "torch.accelerator.current_device_index": "csrc/runtime/OpenRegHooks.h",
    "torch.accelerator.synchronize": "csrc/runtime/OpenRegGuard.h",
    "prerequisite copies": "csrc/aten/OpenRegMinimal.cpp",
    "prerequisite strided memory": "csrc/aten/OpenRegMinimal.cpp",
    "known answers": "csrc/aten/native/Minimal.cpp",
    "kernels": "csrc/aten/OpenRegMinimal.cpp, and OpenRegExtra.cpp for a fallback to the CPU",
    "module": "torch_openreg/openreg/__init__.py",
    "autocast fallthrough": "csrc/amp/autocast_mode.cpp",
    "autocast cast list": "csrc/amp/autocast_mode.cpp",
    "c10d kernels": "csrc/distributed/c10d/ProcessGroupOCCL.cpp",
    "torch.manual_seed": "csrc/runtime/OpenRegGenerator.cpp",
    "autocast": "csrc/amp/autocast_mode.cpp",
    "streams": "csrc/runtime/OpenRegStream.cpp",
    "events": "csrc/runtime/OpenRegEvent.h",
    "event_timing": "csrc/runtime/OpenRegEvent.h",
    "generator": "csrc/runtime/OpenRegGenerator.cpp",
    "random": "csrc/runtime/OpenRegGenerator.cpp",
    "serialization": "csrc/runtime/OpenRegSerialization.cpp",
    "pinned_memory": "csrc/runtime/OpenRegHostAllocator.cpp",
    "memory_statistics": "csrc/runtime/OpenRegDeviceAllocator.cpp",
    "multiple_devices": "csrc/runtime/OpenRegGuard.h",
    "cpu_fallback": "csrc/aten/OpenRegExtra.cpp",
    "profiler": "csrc/profiler/OpenRegActivityProfiler.cpp",
    "distributed": "csrc/distributed/c10d/ProcessGroupOCCL.cpp",
}
#: The capability of a fact whose subject has a different name.
_CAPABILITY = {
    "autocast fallthrough": "autocast",
    "autocast cast list": "autocast",
    "torch.manual_seed": "generator",
    "torch.accelerator.synchronize": "asynchronous",
}
#: Subjects of facts that every check on the device requires.
_EVERYTHING = ("torch.accelerator", "prerequisite copies", "known answers")


@functools.cache
def _required_results(version: str, mode: str, level: str) -> tuple[RequiredResult, ...]:
    try:
        return tuple(manifest.load().demand(version, mode, level).entries.values())
    except UsageError:  # the manifest does not know this torch
        return ()


def impact_of(fact: Fact, target: Target, level: str) -> str:
    """Return a text about the results that a missing feature blocks and its location in openreg; empty if
    unknown.
    """
    parts = []
    if (is_blocked := _blocked_results(fact)) is not None:
        counts = [
            (level_name, sum(map(is_blocked, _required_results(torch.__version__, target.mode, level_name))))
            for level_name in dict.fromkeys((level, "full"))
        ]
        counts_text = ", ".join(f"{count:,} of {level_name}" for level_name, count in counts if count)
        if counts_text:
            parts.append(f"blocks {counts_text} results")
    openreg_file = OPENREG.get(fact.subject) or OPENREG.get(fact.subject.partition(" ")[0])
    if openreg_file and not target.is_cpu:
        parts.append(f"openreg: {openreg_file}")
    return "; ".join(parts)


def _blocked_results(fact: Fact) -> Callable[[RequiredResult], bool] | None:
    """Return a predicate of the results that a missing feature blocks; None if they are not known."""
    if fact.subject in _EVERYTHING:
        return lambda entry: True
    if fact.operators:
        return functools.partial(_of_operators, frozenset(fact.operators))
    capability = _CAPABILITY.get(fact.subject, fact.subject)
    if capability.isidentifier():
        return functools.partial(_needs, capability)
    return None


def _of_operators(names: Collection[str], entry: RequiredResult) -> bool:
    return entry.kind == "operator" and entry.id.case.subject in names


def _needs(capability: str, entry: RequiredResult) -> bool:
    return capability in entry.capabilities


def with_impact(fact: Fact, target: Target, level: str) -> Fact:
    """Return the fact with its impact, if the feature is missing."""
    if fact.ok is not False:
        return fact
    return dataclasses.replace(fact, impact=impact_of(fact, target, level))
