"""The public interface of the hpu device; ``torch.hpu`` is this module.

The submodules contain and document the functions.
"""

from __future__ import annotations

import sys as _sys

from habana_frameworks.torch.version import __version__

from . import _utils as _utils
from . import autocast as _autocast
from . import flags as _flags
from . import graphs, memory, metrics, random, sdp_kernel_flag, streams
from . import properties as _properties
from .autocast import (
    get_amp_supported_dtype,
    get_autocast_hpu_dtype,
    is_autocast_hpu_enabled,
    set_autocast_hpu_dtype,
    set_autocast_hpu_enabled,
)
from .devices import (
    _exchange_device as _exchange_device,
)
from .devices import (
    _maybe_exchange_device as _maybe_exchange_device,
)
from .devices import (
    current_device,
    device,
    device_count,
    device_of,
    is_available,
    set_device,
    synchronize,
)
from .flags import (
    disable_const_section_serialization,
    disable_dynamic_shape,
    disable_inference_mode,
    disable_matmul3d_2d_reshape,
    disable_optim_output_sif,
    disable_quantization,
    enable_const_section_serialization,
    enable_dynamic_shape,
    enable_inference_mode,
    enable_matmul3d_2d_reshape,
    enable_optim_output_sif,
    enable_quantization,
    get_dynamic_shape_status,
    get_sync_debug_mode,
    getDeterministic,
    is_inference_mode_enabled,
    is_matmul3d_2d_reshape_enabled,
    set_mark_non_scale_const,
    set_mark_scale_const,
    set_sync_debug_mode,
    setDeterministic,
)
from .graphs import (
    CachedParams,
    GraphModel,
    HPUGraph,
    ModuleCacher,
    TensorPacker,
    graph,
    is_current_stream_capturing,
    make_graphed_callables,
    wrap_in_hpu_graph,
    wrap_in_hpu_graph_func,
)
from .initialization import (
    _finish_work as _finish_work,
)
from .initialization import (
    _is_in_bad_fork as _is_in_bad_fork,
)
from .initialization import (
    _lazy_init as _lazy_init,
)
from .initialization import (
    init,
    is_initialized,
)
from .memory import (
    _extended_memory_summary_dict as _extended_memory_summary_dict,
)
from .memory import (
    _get_hlml_shared_object_name as _get_hlml_shared_object_name,
)
from .memory import (
    empty_cache,
    max_memory_allocated,
    max_memory_cached,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_cached,
    memory_reserved,
    memory_stats,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_peak_memory_stats,
)
from .properties import (
    can_device_access_peer,
    get_arch_list,
    get_device_capability,
    get_device_name,
    get_device_properties,
    get_gencode_flags,
    is_bf16_supported,
)
from .random import (
    default_generators,
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_ctx,
    set_rng_state,
    set_rng_state_all,
    unset_rng_ctx,
)
from .sdp_kernel_flag import enable_recompute_sdp, recompute_sdp_enabled, sdp_kernel
from .streams import (
    Event,
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    get_stream_info,
    record_stream,
    set_stream,
    stream,
)
from .streams import (
    _set_stream_by_id as _set_stream_by_id,
)
from .tensors import (
    BFloat16Tensor,
    BoolTensor,
    ByteTensor,
    CharTensor,
    DoubleTensor,
    FloatTensor,
    HalfTensor,
    IntTensor,
    LongTensor,
    ShortTensor,
)
from .utilization import memory_usage, utilization

version = __version__
# Programs also access this module as `hpu.hpu`, because the public bridge has this attribute.
hpu = _sys.modules[__name__]

_autocast.register_lists()
_flags.apply_environment_flags()
_properties.apply_stream_limit()

__all__ = [
    "BFloat16Tensor",
    "BoolTensor",
    "ByteTensor",
    "CachedParams",
    "CharTensor",
    "DoubleTensor",
    "Event",
    "FloatTensor",
    "GraphModel",
    "HPUGraph",
    "HalfTensor",
    "IntTensor",
    "LongTensor",
    "ModuleCacher",
    "ShortTensor",
    "Stream",
    "StreamContext",
    "TensorPacker",
    "can_device_access_peer",
    "current_device",
    "current_stream",
    "default_generators",
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "disable_const_section_serialization",
    "disable_dynamic_shape",
    "disable_inference_mode",
    "disable_matmul3d_2d_reshape",
    "disable_optim_output_sif",
    "disable_quantization",
    "empty_cache",
    "enable_const_section_serialization",
    "enable_dynamic_shape",
    "enable_inference_mode",
    "enable_matmul3d_2d_reshape",
    "enable_optim_output_sif",
    "enable_quantization",
    "enable_recompute_sdp",
    "getDeterministic",
    "get_amp_supported_dtype",
    "get_arch_list",
    "get_autocast_hpu_dtype",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_dynamic_shape_status",
    "get_gencode_flags",
    "get_rng_state",
    "get_rng_state_all",
    "get_stream_info",
    "get_sync_debug_mode",
    "graph",
    "graphs",
    "hpu",
    "init",
    "initial_seed",
    "is_autocast_hpu_enabled",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_inference_mode_enabled",
    "is_initialized",
    "is_matmul3d_2d_reshape_enabled",
    "make_graphed_callables",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_stats",
    "memory_summary",
    "memory_usage",
    "metrics",
    "random",
    "recompute_sdp_enabled",
    "record_stream",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_peak_memory_stats",
    "sdp_kernel",
    "sdp_kernel_flag",
    "seed",
    "seed_all",
    "setDeterministic",
    "set_autocast_hpu_dtype",
    "set_autocast_hpu_enabled",
    "set_device",
    "set_mark_non_scale_const",
    "set_mark_scale_const",
    "set_rng_ctx",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "set_sync_debug_mode",
    "stream",
    "streams",
    "synchronize",
    "unset_rng_ctx",
    "utilization",
    "version",
    "wrap_in_hpu_graph",
    "wrap_in_hpu_graph_func",
]


def __getattr__(name: str) -> bool:
    # Activation checkpointing saves the state of the random number generator only if `_initialized` is true.
    # The generator exists before the first use of the device, and so the attribute is already true then.
    if name == "_initialized":
        return not _is_in_bad_fork()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
