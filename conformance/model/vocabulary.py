"""The closed lists of names that target files, levels, properties and results share."""

from __future__ import annotations

#: Every mode that a target file may name; one process runs one mode.
MODES = ("eager", "lazy", "compile", "graph", "distributed")

#: The default modes of a property. Mode lazy is included, because a requirement on calls applies in mode lazy
#: too.
CALLS = ("eager", "lazy")

#: Levels that can be certified, from narrow to broad. ``smoke``, a fixed quick selection, cannot be
#: certified.
LEVELS = ("bringup", "core", "training", "full")

#: The dtype word in the id of a result that does not depend on a dtype.
ANY_DTYPE = "any"

#: How a run judges a result whose deviations all have basis ``parity``: ``apart`` gives it the verdict
#: ``parity``, which is not unexpected; ``strict`` leaves the verdict ``fail``.
PARITY = ("apart", "strict")

#: The kinds of subjects that the suite defines. ``conformance.pytest_modules`` has a module for each kind.
KINDS = ("operator", "overload", "module", "optimizer", "device", "api", "collective", "world")

#: The kinds whose subjects are whole areas. A subject of any other kind is one operator, overload, module or
#: optimizer.
AREA_KINDS = ("device", "api", "collective", "world")

#: Every capability with its meaning. A target declares each capability that its file does not set to false.
CAPABILITIES: dict[str, str] = {
    # Operators
    "autograd": "backward passes run on the device",
    "double_backward": "gradients of gradients run on the device",
    "forward_ad": "forward-mode differentiation runs on the device",
    "out_variants": "operators accept out=",
    "inplace": "operators have in-place variants",
    "storage": "tensors have a storage with a data pointer",
    "strides": "tensors keep the strides and the storage offset with which they are made",
    "views": "a write to a view changes its base",
    "non_contiguous": "operators accept strided, offset and overlapping inputs",
    "channels_last": "memory formats other than contiguous are kept",
    "conj_neg_views": "conjugate and negative views are lazy, as bits of a tensor",
    "data_dependent_shapes": "operators may return shapes that depend on values",
    "sparse": "COO tensors live on the device",
    "sparse_compressed": "CSR, CSC, BSR and BSC tensors live on the device",
    "quantized": "quantized tensors live on the device",
    "nested": "nested tensors live on the device",
    "foreach": "the torch._foreach_* operators run on the device",
    "custom_operators": "operators defined with torch.library run on the device",
    "functorch": "vmap, jvp and vjp run on the device",
    "cpu_fallback": "an operator without a device kernel runs on the CPU instead of raising",
    "index_checks": "an index out of range, or a failed assertion, raises before its operator returns",
    # Randomness and determinism
    "random": "random operators run on the device",
    "generator": "torch.Generator exists for the device",
    "deterministic": "torch.use_deterministic_algorithms is honoured",
    # Runtime
    "accelerator": "torch.accelerator knows the device, and torch.get_device_module has its module",
    "streams": "streams exist and order work",
    "events": "events exist and can be waited for",
    "event_timing": "events measure elapsed time",
    "asynchronous": "operators return before the device has finished",
    "non_blocking": "copies between host and device can be asynchronous",
    "pinned_memory": "page-locked host memory exists",
    "memory_statistics": "torch.accelerator reports allocated and reserved bytes",
    "memory_limit": "running out of device memory raises torch.OutOfMemoryError",
    "record_stream": "memory is not reused while a stream still works on it",
    "multiple_devices": "more than one device in a process",
    "peer_copy": "tensors are copied between devices",
    "graphs": "device graphs capture and replay",
    "profiler": "torch.profiler sees work on the device",
    "memory_history": "the device's module records allocations as torch.cuda.memory does",
    # Around the device
    "autocast": "torch.autocast supports the device",
    "grad_scaler": "torch.amp.GradScaler supports the device",
    "fused_optimizers": "optimizers accept fused=True",
    "capturable_optimizers": "optimizers accept capturable=True",
    "foreach_optimizers": "optimizers accept foreach=True",
    "serialization": "torch.save, torch.load and map_location work",
    "dataloader": "DataLoader workers and pinning work",
    "multiprocessing": "tensors are shared between processes",
    "fork": "a forked child reports clearly that it may not use the device",
    "dlpack": "tensors are exchanged through DLPack",
    "fake_tensors": "fake tensors of the device predict its metadata",
    "compile": "torch.compile runs on the device",
    "export": "torch.export keeps the device",
    "distributed": "torch.distributed has a backend for the device",
    "reduce_average": "process groups reduce by ReduceOp.AVG",
    "reduce_bitwise": "process groups reduce by ReduceOp.BAND, BOR and BXOR",
}

#: If the target does not declare one of these capabilities, the results that need the capability do not
#: exist. Their checks would be meaningless (no second device, no work to wait for) or harmful: a check may
#: exhaust the host's memory, a child process may hang, or torch may end the process (nested tensors without
#: kernels). If any other capability is not declared, the results exist, and a clean refusal is
#: ``unsupported``.
WITHOUT_REFUSAL = frozenset(
    {
        "asynchronous",
        "channels_last",
        "deterministic",
        "fork",
        "index_checks",
        "memory_limit",
        "memory_history",
        "multiple_devices",
        "nested",
        "profiler",
    }
)

#: If the target does not declare one of these capabilities, the checks that need it are skipped, and their
#: results are ``unsupported``. A device without strides does not refuse a call: it reports different
#: strides. ``torch.accelerator`` may return data of a different device if it does not know this device.
CHECKS_SKIPPED_IF_UNDECLARED = frozenset({"accelerator", "conj_neg_views", "strides"})
