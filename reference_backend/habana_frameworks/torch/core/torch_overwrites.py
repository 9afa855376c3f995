"""The list of everything that the backend changes in torch. `apply` does it, once.

Each patch is a function of `habana_frameworks.torch.internal.patches`, in the file of its subject. Patches
run when torch calls them, and reach the device as torch does, as ``torch.hpu``.
"""

from __future__ import annotations

from collections.abc import Callable

from habana_frameworks.torch.internal.patches import (
    accelerator,
    fake_strides,
    flow_events,
    fsdp_average,
    inductor_refusal,
    optimizers,
    profiler_activity,
    profiler_results,
    seeding,
    settings_barrier,
    storages,
    tensor_methods,
)

PATCHES: dict[Callable[[], None], str] = {
    seeding.seed_hpu: "torch.manual_seed and torch.seed seed every device that torch knows, hpu excepted",
    seeding.fork_hpu_rng: "fork_rng should save hpu's generator by default, and only that of this process",
    tensor_methods.add_methods: "Tensor.hpu, Tensor.is_hpu and the like exist on fork-like builds only",
    storages.construct_sparse: "the legacy constructor that SparseAdam uses knows no sparse hpu tensors",
    storages.swap_bytes_on_the_host: "torch swaps bytes through the host's pointer: a fault on device memory",
    optimizers.allow_foreach: "optimizers take foreach= and fused= on listed devices, and hpu is not listed",
    fake_strides.lift_rule: "fake results must have the strides of eager ones",
    settings_barrier.finish_work_before_changes: "queued work runs with the settings of its issue",
    inductor_refusal.refuse_hpu: "Inductor has no code for hpu and would say so with a KeyError, late",
    accelerator.count_devices: "torch 2.6 counts devices by the guard, which reports one",
    accelerator.take_snapshots_of_hpu: "torch's snapshots of memory are CUDA's or XPU's",
    profiler_activity.choose: "lightning's profiler wants a class that is not torch's, if asked for",
    profiler_results.count_the_device: "torch 2.13 leaves the device's rows out of operators and tables",
    flow_events.add_flow_events: "torch draws arrows to the rows of a driver, and this device has none",
    fsdp_average.average_by_sum: "FSDP2 averages by an operator of NCCL's; hccl has the sum, to be divided later",
}

_applied = False


def apply() -> None:
    """Apply the patches; a second call does nothing."""
    global _applied
    if _applied:
        return
    _applied = True
    for patch, reason in PATCHES.items():
        assert reason
        patch()
