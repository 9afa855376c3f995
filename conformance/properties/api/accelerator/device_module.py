"""Behaviours of the device module (such as ``torch.cuda``): seeds, generator states, the current stream and
memory.
"""

from __future__ import annotations

from typing import Any

import torch

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api.accelerator import _accelerator_or_model

#: Two seeds with the same lower 32 bits. A module that drops the upper bits reports the same initial seed for
#: both. The random numbers drawn after each seed are not compared: the CPU's generator draws the same
#: numbers for both seeds.
_SEED = 2**40 + 3
_SAME_LOWER_HALF = 3
#: The key in ``torch.accelerator.memory_stats()`` under which the sum of all bytes allocated so far is
#: reported.
_TOTAL_ALLOCATED = "allocated_bytes.all.allocated"
_TRIES = 50


def _draw_random_numbers(lab: Lab) -> torch.Tensor:
    return torch.rand(32, device=lab.device)


@behaviour(
    "accelerator",
    level="training",
    capabilities=("generator",),
    must_detect=(),
    page="accelerator/generator.html",
    ground="The page for backends lists these functions; torch.Generator.manual_seed gives the 64-bit range",
)
def seeds_by_the_module(lab: Lab) -> None:
    """The device module (such as ``torch.cuda``) accepts 64-bit seeds for one device and for all devices. The
    module's ``initial_seed`` returns the last seed that was set. Each call of ``seed()`` sets a different
    seed.
    """
    module = _accelerator_or_model.runtime_of_lab(lab).device_module()
    before = module.get_rng_state()
    for name in ("manual_seed", "manual_seed_all"):
        seed = getattr(module, name, module.manual_seed)
        seed(_SEED)
        lab.holds(f"{name} sets the initial seed", module.initial_seed() == _SEED)
        first = _draw_random_numbers(lab)
        seed(_SEED)
        lab.holds(
            f"{name} with an equal seed repeats the random numbers",
            torch.equal(first, _draw_random_numbers(lab)),
        )
        seed(_SAME_LOWER_HALF)
        lab.holds(f"{name} changes the initial seed", module.initial_seed() == _SAME_LOWER_HALF)
        seed(_SAME_LOWER_HALF + 1)
        lab.holds(
            f"different seeds for {name} give different random numbers",
            not torch.equal(first, _draw_random_numbers(lab)),
        )
    for name in ("seed", "seed_all"):
        seed = getattr(module, name, module.seed)
        seeds = set()
        for _ in range(2):
            seed()
            seeds.add(module.initial_seed())
        lab.holds(f"each call of {name} sets a different seed", len(seeds - {_SAME_LOWER_HALF + 1}) == 2)
    module.set_rng_state(before)


@behaviour(
    "accelerator",
    level="training",
    capabilities=("generator",),
    must_detect=(),
    page="accelerator/generator.html",
    ground="The page for backends lists the functions; a restored state must repeat the random numbers",
)
def states_by_the_module(lab: Lab) -> None:
    """If a saved state of the device module's generator is restored, the random numbers that followed this
    state are repeated. This also holds for the states of all devices' generators. A value that is not a
    generator state is refused.
    """
    module = _accelerator_or_model.runtime_of_lab(lab).device_module()
    before = module.get_rng_state()
    module.manual_seed(5)
    _draw_random_numbers(lab)
    state = module.get_rng_state()
    first = _draw_random_numbers(lab)
    lab.holds("drawing changes the state", not torch.equal(state, module.get_rng_state()))
    module.set_rng_state(state)
    lab.holds("a restored state repeats the random numbers", torch.equal(first, _draw_random_numbers(lab)))
    all_states = getattr(module, "get_rng_state_all", lambda: [module.get_rng_state()])
    restore_all = getattr(module, "set_rng_state_all", lambda states: module.set_rng_state(states[0]))
    states = all_states()
    first = _draw_random_numbers(lab)
    lab.holds("drawing changes a state of get_rng_state_all", not _all_equal(states, all_states()))
    restore_all(states)
    lab.holds(
        "restoring all devices' states repeats the numbers", torch.equal(first, _draw_random_numbers(lab))
    )
    with lab.parity("No page says that a state of another dtype is an error"):
        lab.raises("a state of floats", lambda: module.set_rng_state(torch.zeros(3)), TypeError, RuntimeError)
    module.set_rng_state(before)
    with lab.consistent("The state read after a restore must equal the restored state"):
        lab.holds("the state equals the restored state", torch.equal(before, module.get_rng_state()))


def _all_equal(left_states: list[torch.Tensor], right_states: list[torch.Tensor]) -> bool:
    return len(left_states) == len(right_states) and all(map(torch.equal, left_states, right_states))


@behaviour(
    "accelerator",
    level="core",
    capabilities=("streams",),
    must_detect=(),
    page="generated/torch.accelerator.current_stream.html",
    basis="consistency",
    ground="The module and torch.accelerator must name the same current stream",
)
def streams_of_the_module(lab: Lab) -> None:
    """The device module's stream context and ``set_stream`` change the current stream, and the module's
    ``current_stream`` then returns the new stream. The context restores the previous stream.
    """
    runtime = _accelerator_or_model.runtime_of_lab(lab)
    module = runtime.device_module()
    # A device module without one of these functions passes, because no page requires them.
    current_stream = getattr(module, "current_stream", runtime.current_stream)
    stream_context = getattr(module, "stream", lambda stream: stream)
    set_stream = getattr(module, "set_stream", torch.accelerator.set_stream)
    outer, stream = runtime.current_stream(), runtime.stream()
    lab.holds("the module returns the current stream", current_stream() == outer)
    with stream_context(stream):
        lab.holds("the context sets the current stream", runtime.current_stream() == stream)
        lab.holds("the module returns the context's stream", current_stream() == stream)
    lab.holds("the context restores the previous stream", runtime.current_stream() == outer)
    set_stream(stream)
    lab.holds("set_stream sets the current stream", runtime.current_stream() == stream)
    set_stream(outer)
    lab.holds("set_stream restores the previous stream", runtime.current_stream() == outer)


@behaviour(
    "accelerator",
    level="core",
    must_detect=(),
    page="accelerator/device.html",
    basis="consistency",
    ground=(
        "The module's reports must agree with the device's use, its declared dtypes and its graph captures"
    ),
)
def devices_of_the_module(lab: Lab) -> None:
    """The device module refuses a device that does not exist and keeps the current device. After the device
    was used, the module reports that it is initialized. The module reports support for bfloat16 if the target
    declares bfloat16, and a graph capture only during a capture.
    """
    runtime = _accelerator_or_model.runtime_of_lab(lab)
    module = runtime.device_module()
    lab.same("a sum on the device", lab.integers(3) + 1)
    lab.holds("the module reports that it is initialised", getattr(module, "is_initialized", lambda: True)())
    if "bfloat16" in lab.target.dtypes:
        lab.holds("bfloat16 is supported", getattr(module, "is_bf16_supported", lambda: True)())
    captures = getattr(module, "is_current_stream_capturing", lambda: False)()
    lab.holds("the module reports no graph capture", not captures)
    before, absent = runtime.current_index(), runtime.device_count() + 7
    errors = (RuntimeError, ValueError, AssertionError)
    with lab.documented():
        lab.raises("set_device of a device that does not exist", lambda: module.set_device(absent), *errors)
    with lab.parity("No page says that a query about a device that does not exist is an error"):
        for name in ("get_device_name", "get_device_properties"):
            # A module without the function raises an AttributeError.
            lab.raises(
                f"{name} of a device that does not exist",
                lambda name=name: getattr(module, name)(absent),  # type: ignore[misc]
                *errors,
                AttributeError,
            )
    lab.holds("the current device is unchanged", runtime.current_index() == before)


def _reports_same_free_memory(module: Any, memory_functions: Any) -> bool:
    """Return whether the module's free memory lies between two readings of ``torch.accelerator``.

    One success in several attempts is enough, because other processes can allocate and free memory at any
    time.
    """
    memory_info = getattr(module, "mem_get_info", memory_functions.get_memory_info)
    for _ in range(_TRIES):
        before, free, after = (
            memory_functions.get_memory_info()[0],
            memory_info()[0],
            memory_functions.get_memory_info()[0],
        )
        if min(before, after) <= free <= max(before, after):
            return True
    return False


def _resets_allocation_total_if_supported(module: Any, memory_functions: Any) -> bool:
    """Return whether the module resets the sum of all bytes allocated so far.

    Return True also if the module has no function that resets this sum, or if ``torch.accelerator`` does not
    report the sum.
    """
    reset = getattr(module, "reset_accumulated_memory_stats", None)
    before = dict(memory_functions.memory_stats()).get(_TOTAL_ALLOCATED)
    if reset is None or before is None:
        return True
    reset()
    return bool(dict(memory_functions.memory_stats())[_TOTAL_ALLOCATED] < before)


@behaviour(
    "accelerator",
    level="core",
    capabilities=("memory_statistics",),
    must_detect=(),
    basis="consistency",
    ground="The module and torch.accelerator must report the same memory statistics",
)
def memory_by_the_module(lab: Lab) -> None:
    """The device module reports the same memory statistics as ``torch.accelerator``. This holds before and
    after the module resets the peak statistics and the accumulated statistics, and before and after it
    empties the cache.
    """
    runtime = _accelerator_or_model.runtime_of_lab(lab)
    counts, module = runtime.memory_functions(), runtime.device_module()
    names = ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved")

    def expect_agreement(when: str) -> None:
        runtime.synchronize()
        for name in names:
            of_module, generic = getattr(module, name, None), getattr(counts, name)
            lab.holds(f"{name} {when}", of_module is None or of_module() == generic())
        lab.holds(f"free memory {when}", _reports_same_free_memory(module, counts))

    expect_agreement("at first")
    tensor = lab.integers(1 << 16)
    size = tensor.numel() * tensor.element_size()
    expect_agreement("with a tensor")
    with lab.documented():
        lab.holds("a tensor is counted", counts.memory_allocated() >= size)
    with lab.documented():
        lab.holds(
            "the reserved peak is at least the reserved memory",
            counts.max_memory_reserved() >= counts.memory_reserved() >= size,
        )
    del tensor
    expect_agreement("without it")
    with lab.documented():
        lab.holds("the peak stays", counts.max_memory_allocated() >= size)
    getattr(module, "reset_peak_memory_stats", counts.reset_peak_memory_stats)()
    with lab.documented():
        lab.holds(
            "the reset peak equals the allocated memory",
            counts.max_memory_allocated() == counts.memory_allocated(),
        )
        lab.holds(
            "the reset sum is smaller than before", _resets_allocation_total_if_supported(module, counts)
        )
    getattr(module, "empty_cache", counts.empty_cache)()
    expect_agreement("with an empty cache")
    getattr(module, "reset_peak_memory_stats", counts.reset_peak_memory_stats)()
    expect_agreement("with the cache empty and its peaks reset")
    memory_stats = getattr(module, "memory_stats", counts.memory_stats)
    table = dict(memory_stats())
    tensor_in_use = lab.integers(1 << 16)
    runtime.synchronize()
    with lab.documented():
        lab.holds("memory_stats changes with an allocation", dict(memory_stats()) != table)
    lab.same("a tensor that stayed alive during the counts", tensor_in_use.shape)
    del tensor_in_use
    with lab.parity("No page says that a device must have free memory at that moment"):
        lab.holds("some memory is free", counts.get_memory_info()[0] > 0)
    free, total = getattr(module, "mem_get_info", counts.get_memory_info)()
    with lab.documented():
        lab.holds(
            "free memory is at most the total memory",
            0 <= free <= total and total >= counts.memory_reserved(),
        )
    lab.holds(
        "the module and torch.accelerator report the same total memory", total == counts.get_memory_info()[1]
    )
