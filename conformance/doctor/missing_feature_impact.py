"""Describe the impact of a missing feature: the number of results that it blocks, and the file of openreg
that implements the feature.
"""

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

#: Maps the subject of a fact, or a capability, to the file of torch_openreg that implements it. torch_openreg
#: is PyTorch's example of a device. Its folder in PyTorch's repository is
#: test/cpp_extensions/open_registration_extension/torch_openreg.
OPENREG_FILE_OF_FEATURE: dict[str, str] = {
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
#: The capability that a fact is about, if the fact's subject is not the name of the capability.
_CAPABILITY = {
    "autocast fallthrough": "autocast",
    "autocast cast list": "autocast",
    "torch.manual_seed": "generator",
    "torch.accelerator.synchronize": "asynchronous",
}
#: Subjects of facts about features that every check on the device requires.
_EVERYTHING = ("torch.accelerator", "prerequisite copies", "known answers")


@functools.cache
def _required_results(version: str, mode: str, level: str) -> tuple[RequiredResult, ...]:
    try:
        return tuple(manifest.load().level_requirements(version, mode, level).entries.values())
    except UsageError:  # the manifest has no entry for this torch
        return ()


def impact_text(fact: Fact, target: Target, level: str) -> str:
    """Return how many results a missing feature blocks and which file of openreg implements the feature.

    The text is empty if the number and the file are unknown.
    """
    parts = []
    if (is_blocked := _predicate_of_blocked_results(fact)) is not None:
        counts = [
            (level_name, sum(map(is_blocked, _required_results(torch.__version__, target.mode, level_name))))
            for level_name in dict.fromkeys((level, "full"))
        ]
        counts_text = ", ".join(f"{count:,} of {level_name}" for level_name, count in counts if count)
        if counts_text:
            parts.append(f"blocks {counts_text} results")
    openreg_file = OPENREG_FILE_OF_FEATURE.get(fact.subject) or OPENREG_FILE_OF_FEATURE.get(
        fact.subject.partition(" ")[0]
    )
    if openreg_file and not target.is_cpu:
        parts.append(f"openreg: {openreg_file}")
    return "; ".join(parts)


def _predicate_of_blocked_results(fact: Fact) -> Callable[[RequiredResult], bool] | None:
    """Return a predicate that is true for the results that a missing feature blocks, or None if these results
    are unknown.
    """
    if fact.subject in _EVERYTHING:
        return lambda entry: True
    if fact.operators:
        return functools.partial(_is_result_of_operators, frozenset(fact.operators))
    capability = _CAPABILITY.get(fact.subject, fact.subject)
    if capability.isidentifier():
        return functools.partial(_requires_capability, capability)
    return None


def _is_result_of_operators(names: Collection[str], entry: RequiredResult) -> bool:
    return entry.kind == "operator" and entry.id.case.subject in names


def _requires_capability(capability: str, entry: RequiredResult) -> bool:
    return capability in entry.capabilities


def fact_with_impact(fact: Fact, target: Target, level: str) -> Fact:
    """Return the fact. If its feature is missing, the returned fact describes the impact too."""
    if fact.ok is not False:
        return fact
    return dataclasses.replace(fact, impact=impact_text(fact, target, level))
