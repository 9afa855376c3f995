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
    seeding.patch_manual_seed: "torch.manual_seed and torch.seed seed all devices known to torch except hpu",
    seeding.patch_fork_rng: "fork_rng should save the hpu generator by default",
    tensor_methods.add_hpu_methods: "Tensor.hpu, Tensor.is_hpu and others exist on fork-like builds only",
    storages.patch_tensor_new: "the constructor that SparseAdam uses does not support hpu",
    storages.patch_byteswap: "torch swaps bytes through a host pointer: a crash on device memory",
    optimizers.patch_foreach_devices: "foreach= and fused= need a device in torch's lists, which lack hpu",
    fake_strides.patch_fake_strides: "fake tensors on hpu must have the strides of eager results",
    settings_barrier.patch_setters_to_wait_for_work: "queued work must run before a setting changes",
    compile_calls.patch_inductor_compile_fx: "Inductor, the default backend, cannot compile for hpu",
    compile_calls.patch_torch_compile: "torch.compile does not support forwards that replay graphs",
    process_transfer.patch_multiprocessing_reductions: "torch shares CPU and CUDA memory only",
    device_name_advice.install_advice_excepthook: "torch's errors do not explain other names of the device",
    accelerator.patch_device_count: "torch 2.6 counts devices by the device guard, which reports one",
    accelerator.patch_memory_snapshot: "torch supports memory snapshots for CUDA and XPU only",
    profiler_activity.patch_profiler_activity: "lightning's profiler requires the bridge's class",
    profiler_results.patch_profiler_results: "torch 2.13 omits the device's rows from operators and tables",
    flow_events.patch_chrome_trace_export: "torch draws arrows from driver events, which this device lacks",
    management_library.patch_pyhlml_library_path: "pyhlml loads a library of the driver from a fixed path",
    traced_modules.patch_jit_trace: "the bridge runs a traced module as one graph",
    fsdp_average.patch_fsdp_divide_factors: "FSDP2 averages by an NCCL operator; hccl supports only the sum",
}

_applied = False


def apply_patches() -> None:
    """Apply the patches; a second call does nothing."""
    global _applied
    if _applied:
        return
    _applied = True
    for patch, reason in PATCHES.items():
        assert reason
        patch()
