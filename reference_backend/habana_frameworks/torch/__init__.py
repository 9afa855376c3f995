"""A simulated HPU for PyTorch with the public Python interface of the Intel Gaudi bridge.

``import habana_frameworks.torch`` loads the compiled core, registers the device module as ``torch.hpu`` and
applies the patches of `core.torch_overwrites`. ``import torch`` performs this import automatically (see
`habana_frameworks.autoload`). Device memory is not allocated before the first tensor operation.

Raises at import:
    ValueError: ``PT_HPU_LAZY_MODE`` or ``PT_HPU_AUTOLOAD`` has an invalid value.
    AssertionError: a lazy mode is requested on a public build of torch.
    ImportError: no compiled core fits this torch, or the Intel Gaudi bridge is also installed.
"""

from __future__ import annotations

import habana_frameworks as _namespace
from habana_frameworks import autoload_switch as _autoload_switch

import torch as _torch

from . import _loader
from .internal import bridge_config, engine, exit_after_backward, logs
from .internal.operators import registration as _operators
from .internal.patches import gpu_migration, quantized_decomposed, torchvision_ops
from .internal.settings import compile_threads as _compile_threads
from .internal.settings import mode as _mode

_autoload_switch.autoload_requested()
_lazy_mode = _mode.check_lazy_mode(str(_torch.__version__))
bridge_config.validate_flag_variables()
_loader.reject_installed_bridge(_namespace.__path__)
_compile_threads.disable_worker_processes()
_C = _loader.load_core(_torch)
logs.start_log(_C)
engine.start_engine(_C, _lazy_mode)

from . import activity_profiler, core, distributed, dynamo, hpu, low_overhead_profiler, utils  # noqa: E402
from .distributed import hccl  # noqa: E402
from .hpu import memory_history as _memory_history  # noqa: E402
from .internal import process_trace as _process_profile  # noqa: E402
from .version import __version__  # noqa: E402

gpu_migration.load_if_requested()
torchvision_ops.define_torchvision_operators()
quantized_decomposed.register_quantized_decomposed_kernels()
_operators.register_operators()
exit_after_backward.register_exit_wait(_C)
_process_profile.start_if_requested()
low_overhead_profiler.profiler.record_process_if_requested()
_memory_history.dump_on_out_of_memory_if_requested()

__all__ = [
    "__version__",
    "activity_profiler",
    "bridge_config",
    "core",
    "distributed",
    "dynamo",
    "hccl",
    "hpu",
    "utils",
]
