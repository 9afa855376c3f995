"""The list of all patches that the backend applies to torch, each with its reason.

Each patch is a function of `habana_frameworks.torch.internal.patches`. Most patches replace a function of
torch. The replacement accesses the device as ``torch.hpu`` when a program calls it.
"""

from __future__ import annotations

from collections.abc import Callable

from habana_frameworks.torch.internal.patches import (
    accelerator,
    compile_calls,
    device_name_advice,
    fake_strides,
    flow_events,
    fsdp_average,
    management_library,
    optimizers,
    process_transfer,
    profiler_activity,
    profiler_results,
    seeding,
    settings_barrier,
    storages,
    tensor_methods,
    traced_modules,
)

PATCHES: dict[Callable[[], None], str] = {
    seeding.seed_hpu: "torch.manual_seed and torch.seed seed all devices known to torch except hpu",
    seeding.fork_hpu_rng: "fork_rng should save the hpu generator by default",
    tensor_methods.add_methods: "Tensor.hpu, Tensor.is_hpu and others exist on fork-like builds only",
    storages.construct_sparse: "the constructor that SparseAdam uses does not support hpu",
    storages.swap_bytes_on_the_host: "torch swaps bytes through a host pointer: a crash on device memory",
    optimizers.allow_foreach: "foreach= and fused= need a device in torch's lists, which do not contain hpu",
    fake_strides.keep_eager_strides: "fake tensors on hpu must have the strides of eager results",
    settings_barrier.finish_work_before_changes: "queued work must run before a setting changes",
    compile_calls.compile_by_hpu_backend: "Inductor, the default backend, cannot compile for hpu",
    compile_calls.refuse_graphed_modules: "torch.compile does not support forwards that replay graphs",
    process_transfer.refuse_transfers: "torch shares CPU and CUDA memory only; a receiver would wait forever",
    device_name_advice.explain_in_traceback: "torch's errors do not explain old or other names of the device",
    accelerator.count_devices: "torch 2.6 counts devices by the device guard, which reports one",
    accelerator.take_snapshots_of_hpu: "torch supports memory snapshots for CUDA and XPU only",
    profiler_activity.choose_activity_class: "lightning's profiler requires the bridge's class",
    profiler_results.attribute_device_rows: "torch 2.13 omits the device's rows from operators and tables",
    flow_events.add_flow_events: "torch draws arrows from driver events, which this device does not have",
    management_library.load_simulated_library: "pyhlml loads a library of the driver from a fixed path",
    traced_modules.run_as_one_graph: "the bridge runs a traced module as one graph",
    fsdp_average.average_by_sum: "FSDP2 averages by an NCCL operator; hccl supports only the sum",
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
