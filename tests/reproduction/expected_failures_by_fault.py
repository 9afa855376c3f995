"""The results that must fail with each fault of :mod:`broken_backend`: a list of (mode, fault, result ids).
Each property occurs only once in the list.
"""

from __future__ import annotations

RED: list[tuple[str, str, list[str]]] = [
    (
        "eager",
        "values",
        [
            "value/sin@float32", "layout/sin@float32", "bits/sin@complex64", "extremal/sin@float32",
            "sizes/sin@float32",
            "variants/sin@float32", "gradient/sin@float64", "gradgrad/sin@float64",
            "backward-cpu/sin@float32", "gradient-uses/sin@float64",
            "forward-ad/sin@float64", "jvp/sin@float32", "vjp/sin@float32", "vjp-vjp/sin@float32",
            "jvp-vjp/sin@float32", "vmap/sin@float32", "vmap-jvp/sin@float32", "vmap-vjp/sin@float32",
        ],
    ),
    (
        "eager",
        "values",
        [
            "overload-forms/sin@float32", "overload-layouts/sin@float32", "overload-shapes/sin@float32",
            "overload-values/sin@float32", "overload-repeats/sin@float32",
            "overload-magnitudes/expm1@float32",
        ],
    ),
    ("eager", "dtype", ["overload-options/add.Tensor@float32", "overload-numbers/add.Tensor@float32"]),
    ("eager", "error", ["overload-errors/gather@float32"]),
    ("eager", "error", ["overload-indices/gather@float32"]),
    ("eager", "random", ["overload-random/uniform@float32"]),
    ("eager", "dtype", ["promotion/add@any", "value/add@float32"]),
    ("eager", "integers", ["dtypes/add@any"]),
    ("eager", "empty", ["zero-elements/sum@float32", "reduction/sum@float32"]),
    ("eager", "error", ["error-type/gather@any", "error-message/gather@any"]),
    ("eager", "views", ["views/transpose@float32", "fake/transpose@float32"]),
    ("eager", "views_apart", ["programs/programs@float32"]),
    ("eager", "out", ["out/add@float32"]),
    ("eager", "lenient_out", ["out_dtype/add@float32", "out_device/add@float32", "out_grad/add@float32"]),
    ("eager", "values", ["vmap-differentiates/functorch@float32"]),
    (
        "eager",
        "values",
        [
            "vjp-vmap/sin@float32", "jvp-vmap/sin@float32", "vmap-vjp-vjp/sin@float32",
            "vmap-jvp-vjp/sin@float32",
        ],
    ),
    ("eager", "inplace", ["fake_inplace/sin@float32"]),
    ("eager", "random", ["random/uniform@float32"]),
    ("eager", "counted", ["placement/sin@float32"]),
    (
        "eager",
        "unsteady",
        ["composite/sin@float32", "composite-backward/sin@float32", "composite-forward-ad/sin@float32"],
    ),
    ("eager", "dtype", ["fake_backward/add@float32"]),
    ("eager", "booleans", ["bool-bytes/sum@bool"]),
    (
        "eager",
        "outputs",
        [
            "forward/nn.Linear@float32", "backward/nn.Linear@float32", "double-backward/nn.Tanh@float32",
            "memory-format/nn.Conv2d@float32", "non-contiguous/nn.Linear@float32",
            "state-dict/nn.Linear@float32", "train-eval/nn.BatchNorm2d@float32",
        ],
    ),
    ("eager", "kept_gradients", ["zero-grad/nn.Linear@float32"]),
    ("eager", "moved", ["device-transfer/nn.Linear@float32", "dtype-transfer/nn.Linear@float32"]),
    ("eager", "shared_copies", ["copies/nn.Linear@float32"]),
    ("eager", "starts", ["factory-device/nn.BatchNorm1d@float32"]),
    ("eager", "dropout", ["random/nn.Dropout@float32"]),
    ("eager", "lenient", ["error-inputs/nn.RNNCell@float32", "error-inputs/SGD@float32"]),
    (
        "eager",
        "too_far",
        [
            "steps/SGD@float32", "state-dict/Adam@float32",
            "tensor-lr/SGD@float32",
            "lr-scheduler/SGD@float32", "param-groups/RMSprop@float32", "missing-gradients/SGD@float32",
            "closure/LBFGS@float32", "sparse-gradients/SparseAdam@float32", "grad-scaler/SGD@float32",
            "differentiable/SGD@float32",
        ],
    ),
    (
        "eager",
        "deaf",
        ["stream_query/Stream@any", "no_host_wait/Stream@any"],
    ),
    ("eager", "mute", ["event_order/Event@any", "event_timing/Event@any"]),
    (
        "eager",
        "blind",
        [
            "profiled_operators/Profiler@any", "profiled_counts/Profiler@any",
            "profiled_streams/Profiler@any",
            "profiled_times/Profiler@any", "profiled_memory/Profiler@any", "profiled_trace/Profiler@any",
            "profiled_end/Profiler@any", "profiled_fork/Profiler@any", "memory_events/Memory@any",
            "memory_segments/Memory@any",
        ],
    ),
    ("eager", "forgetful", ["pinned_copy/Copy@any", "record_stream/Memory@any"]),
    ("eager", "foreach_too_far", ["implementations/Adam@float32"]),
    ("eager", "lost", ["stream_order/Stream@any"]),
    ("eager", "one_stream", ["thread_stream/Thread@any"]),
    ("eager", "hasty", ["synchronize_waits/Stream@any"]),
    (
        "compile",
        "compiled",
        [
            "compile_value/sin@float32", "compile_gradient/sin@float32", "compile_dynamic/sin@float32",
            "compile_fused/sin@float32", "compile_inplace/add@float32", "compile_views/transpose@float32",
            "recompilations/Compile@any", "programs-compiled/programs@float32",
            "compiled-state/programs@float32", "compiled-blocks/programs@float32",
        ],
    ),
    ("compile", "kept", ["compile_random/randn_like@float32"]),
    (
        "graph",
        "deaf_graphs",
        [
            "graph_value/sin@float32", "graph_inplace/add@float32", "graph_views/sin@float32",
            "graph_gradient/sin@float32", "graph_random/randn_like@float32", "graph_refusal/nonzero@float32",
            "replay_stream/Graph@any", "programs-replayed/programs@float32",
        ],
    ),
]  # fmt: skip
