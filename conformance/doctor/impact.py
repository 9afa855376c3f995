"""The stakes of a missing thing: the results that it blocks, and the place where openreg has it."""

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
#: Capability that a fact is about, if its subject is another word.
_CAPABILITY = {
    "autocast fallthrough": "autocast",
    "autocast cast list": "autocast",
    "torch.manual_seed": "generator",
    "torch.accelerator.synchronize": "asynchronous",
}
#: Subjects of facts without which nothing on the device can be checked.
_EVERYTHING = ("torch.accelerator", "prerequisite copies", "known answers")


@functools.cache
def _entries(version: str, mode: str, level: str) -> tuple[RequiredResult, ...]:
    try:
        return tuple(manifest.load().demand(version, mode, level).entries.values())
    except UsageError:  # the manifest does not know this torch
        return ()


def of(fact: Fact, target: Target, level: str) -> str:
    """Words about what a missing thing blocks and where openreg has it; empty if neither is known."""
    parts = []
    if (wanted := _wanted(fact)) is not None:
        counts = [
            (word, sum(map(wanted, _entries(torch.__version__, target.mode, word))))
            for word in dict.fromkeys((level, "full"))
        ]
        words = ", ".join(f"{count:,} of {word}" for word, count in counts if count)
        if words:
            parts.append(f"blocks {words} results")
    place = OPENREG.get(fact.subject) or OPENREG.get(fact.subject.partition(" ")[0])
    if place and not target.is_cpu:
        parts.append(f"openreg: {place}")
    return "; ".join(parts)


def _wanted(fact: Fact) -> Callable[[RequiredResult], bool] | None:
    """Predicate of the results that a missing thing blocks; None if they are not known."""
    if fact.subject in _EVERYTHING:
        return lambda entry: True
    if fact.operators:
        return functools.partial(_of_operators, frozenset(fact.operators))
    word = _CAPABILITY.get(fact.subject, fact.subject)
    if word.isidentifier():
        return functools.partial(_needs, word)
    return None


def _of_operators(names: Collection[str], entry: RequiredResult) -> bool:
    return entry.kind == "operator" and entry.id.case.subject in names


def _needs(word: str, entry: RequiredResult) -> bool:
    return word in entry.capabilities


def with_stakes(fact: Fact, target: Target, level: str) -> Fact:
    """The fact with its stakes, if it is missing."""
    if fact.ok is not False:
        return fact
    return dataclasses.replace(fact, stakes=of(fact, target, level))
