"""The results that must fail with each fault of :mod:`broken_backend`: a list of (mode, fault, result ids).
Each property occurs only once in the list.
"""

from __future__ import annotations

EXPECTED_FAILURES: list[tuple[str, str, list[str]]] = [
    (
        "eager",
        "wrong_values",
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
        "wrong_values",
        [
            "overload-forms/sin@float32", "overload-layouts/sin@float32", "overload-shapes/sin@float32",
            "overload-values/sin@float32", "overload-repeats/sin@float32",
            "overload-magnitudes/expm1@float32",
        ],
    ),
    (
        "eager",
        "wrong_result_dtype",
        ["overload-options/add.Tensor@float32", "overload-numbers/add.Tensor@float32"],
    ),
    ("eager", "wrong_error_type", ["overload-errors/gather@float32"]),
    ("eager", "wrong_error_type", ["overload-indices/gather@float32"]),
    ("eager", "random_numbers_constant", ["overload-random/uniform@float32"]),
    ("eager", "wrong_result_dtype", ["promotion/add@any", "value/add@float32"]),
    ("eager", "integers_refused", ["dtypes/add@any"]),
    ("eager", "empty_reductions_wrong", ["zero-elements/sum@float32", "reduction/sum@float32"]),
    ("eager", "wrong_error_type", ["error-type/gather@any", "error-message/gather@any"]),
    ("eager", "views_are_copies", ["views/transpose@float32", "fake/transpose@float32"]),
    ("eager", "view_writes_lost", ["programs/programs@float32"]),
    ("eager", "out_not_resized", ["out/add@float32"]),
    (
        "eager",
        "out_accepts_any_dtype",
        ["out_dtype/add@float32", "out_device/add@float32", "out_grad/add@float32"],
    ),
    ("eager", "wrong_values", ["vmap-differentiates/functorch@float32"]),
    (
        "eager",
        "wrong_values",
        [
            "vjp-vmap/sin@float32", "jvp-vmap/sin@float32", "vmap-vjp-vjp/sin@float32",
            "vmap-jvp-vjp/sin@float32",
        ],
    ),
    ("eager", "inplace_returns_view", ["fake_inplace/sin@float32"]),
    ("eager", "random_numbers_constant", ["random/uniform@float32"]),
    ("eager", "counted_as_fallback", ["placement/sin@float32"]),
    (
        "eager",
        "results_change_per_call",
        ["composite/sin@float32", "composite-backward/sin@float32", "composite-forward-ad/sin@float32"],
    ),
    ("eager", "wrong_result_dtype", ["fake_backward/add@float32"]),
    ("eager", "bool_bytes_summed", ["bool-bytes/sum@bool"]),
    (
        "eager",
        "wrong_module_outputs",
        [
            "forward/nn.Linear@float32", "backward/nn.Linear@float32", "double-backward/nn.Tanh@float32",
            "memory-format/nn.Conv2d@float32", "non-contiguous/nn.Linear@float32",
            "state-dict/nn.Linear@float32", "train-eval/nn.BatchNorm2d@float32",
        ],
    ),
    ("eager", "zero_grad_skipped", ["zero-grad/nn.Linear@float32"]),
    (
        "eager",
        "module_to_changes_parameters",
        ["device-transfer/nn.Linear@float32", "dtype-transfer/nn.Linear@float32"],
    ),
    ("eager", "deepcopy_shares_parameters", ["copies/nn.Linear@float32"]),
    ("eager", "wrong_initial_weights", ["factory-device/nn.BatchNorm1d@float32"]),
    ("eager", "dropout_half_as_often", ["random/nn.Dropout@float32"]),
    ("eager", "invalid_arguments_accepted", ["error-inputs/nn.RNNCell@float32", "error-inputs/SGD@float32"]),
    (
        "eager",
        "step_too_large",
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
        "set_stream_ignored",
        ["stream_query/Stream@any", "no_host_wait/Stream@any"],
    ),
    ("eager", "events_without_effect", ["event_order/Event@any", "event_timing/Event@any"]),
    (
        "eager",
        "missing_from_profiles",
        [
            "profiled_operators/Profiler@any", "profiled_counts/Profiler@any",
            "profiled_streams/Profiler@any",
            "profiled_times/Profiler@any", "profiled_memory/Profiler@any", "profiled_trace/Profiler@any",
            "profiled_end/Profiler@any", "profiled_fork/Profiler@any", "memory_events/Memory@any",
            "memory_segments/Memory@any",
        ],
    ),
    ("eager", "non_blocking_copies_incomplete", ["pinned_copy/Copy@any", "record_stream/Memory@any"]),
    ("eager", "foreach_step_too_large", ["implementations/Adam@float32"]),
    ("eager", "inplace_add_skipped", ["stream_order/Stream@any"]),
    ("eager", "one_stream_for_all_threads", ["thread_stream/Thread@any"]),
    ("eager", "synchronize_does_not_wait", ["synchronize_waits/Stream@any"]),
    (
        "compile",
        "compiled_wrong_values",
        [
            "compile_value/sin@float32", "compile_gradient/sin@float32", "compile_dynamic/sin@float32",
            "compile_fused/sin@float32", "compile_inplace/add@float32", "compile_views/transpose@float32",
            "recompilations/Compile@any", "programs-compiled/programs@float32",
            "compiled-state/programs@float32", "compiled-blocks/programs@float32",
        ],
    ),
    ("compile", "compiled_returns_first_results", ["compile_random/randn_like@float32"]),
    (
        "graph",
        "graph_replay_skipped",
        [
            "graph_value/sin@float32", "graph_inplace/add@float32", "graph_views/sin@float32",
            "graph_gradient/sin@float32", "graph_random/randn_like@float32", "graph_refusal/nonzero@float32",
            "replay_stream/Graph@any", "programs-replayed/programs@float32",
        ],
    ),
]  # fmt: skip
