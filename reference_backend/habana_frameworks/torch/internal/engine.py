"""Configure the engine from environment variables, once, when the package is imported.

Besides the flags of the Intel Gaudi bridge, the reference device has its own variables:

    HPU_REFERENCE_QUEUE_ALL=MICROSECONDS[,SEED]  queue every operator on its stream, after a random pause of
                                                 at most this time
    HPU_REFERENCE_RECORD_LINES=1                 errors of queued work name the line of the program
    HPU_REFERENCE_LAZY_SEED                      seed of the random flushes of lazy mode 3
    HPU_REFERENCE_LAZY_STRICT=1                  lazy mode rejects CPU tensors and CPU generators (read by the
                                                 core)
    HPU_REFERENCE_STREAM_ORDER=events            streams are ordered by events alone, and missing waits are
                                                 reported (read by the core)
    HPU_REFERENCE_POISON=1                       new and freed memory is filled with 0xFF
"""

from __future__ import annotations

import atexit
import os
from types import ModuleType

from . import graph_dumps
from .fusion import cache_config
from .settings import bridge_config, hardware_limits
from .settings.environment import read_variable


def start_engine(core: ModuleType, lazy_mode: int) -> None:
    """Configure the engine from the environment, and start lazy mode if it is requested.

    Args:
        core: the compiled core.
        lazy_mode: value of ``PT_HPU_LAZY_MODE``; 0 means not lazy.

    Raises:
        ValueError: a variable has a value that is not accepted.
    """
    core.set_pipeline(
        bool(read_variable("PT_HPU_EAGER_PIPELINE_ENABLE", "bool", True))
        and bool(read_variable("PT_ENABLE_HABANA_STREAMASYNC", "bool", True))
        and not read_variable("PT_HPU_SYNC_LAUNCH", "bool", False)
    )
    core.recipe_cache_set_limit(int(read_variable("HABANA_PGM_LRU_MAX", "u64", 30000)))
    core.recipe_cache_set_enabled(bool(read_variable("PT_HPU_PGM_ENABLE_CACHE", "bool", True)))
    core.set_record_lines(bool(read_variable("HPU_REFERENCE_RECORD_LINES", "bool", False)))
    core.set_queue_all(*_queue_all_settings())
    hardware_limits.hardware_limits_name()  # raises ValueError if HPU_REFERENCE_PROFILE is invalid
    bridge_config.add_flag_listener("PT_ENABLE_INT64_SUPPORT", core.set_wide_integers)
    core.set_tanh_gelu(bool(read_variable("PT_HPU_FORCE_TANH_FOR_GELU", "bool", True)))
    core.set_copy_queue(
        bool(read_variable("PT_HPU_ENABLE_H2D_COPY_ASYNC_THREAD", "bool", True)),
        bool(read_variable("PT_HPU_ENABLE_D2H_ASYNC_THREAD", "bool", True)),
        int(read_variable("PT_HPU_H2D_COPY_MIN_TENSOR_SIZE", "u32", 1 << 20)),
    )
    core.set_defragmentation(bool(read_variable("PT_ENABLE_MEMORY_DEFRAGMENTATION", "bool", True)))
    # Lazy mode records a call instead of running it, so it needs the cached metadata of the call's outputs.
    core.set_output_metadata_cache_enabled(
        lazy_mode != 0 or bool(read_variable("PT_HPU_ENABLE_EAGER_JIT_CACHE", "bool", True))
    )
    core.set_range_check(bool(read_variable("PT_HPU_ENABLE_VALID_DATA_RANGE_CHECK", "bool", True)))
    # Called now, because it raises ValueError if a variable is invalid.
    cache_config.cache_config_from_environment()
    if read_variable("PT_HPU_PRINT_BACKTRACE_ON_SIGNAL", "bool", False):
        import faulthandler  # imported here to keep the import of the package fast

        faulthandler.enable()
    if lazy_mode:
        _start_lazy_mode(core, lazy_mode)
    # The core is shut down before the interpreter exits, because queued work may own Python objects.
    atexit.register(core.shutdown)


def _start_lazy_mode(core: ModuleType, mode: int) -> None:
    core.lazy_start(mode, int(read_variable("HPU_REFERENCE_LAZY_SEED", "u64", 0)))
    graph_dumps.dump_lazy_graphs(core)
    core.lazy_set_thread(bool(read_variable("PT_HPU_ENABLE_EXECUTION_THREAD", "bool", True)))
    most = min(
        int(read_variable("PT_HPU_MAX_ACCUM_SIZE", "u64", 2**63 - 1)),
        int(read_variable("PT_HPU_MAX_COMPOUND_OP_SIZE", "i64", 2**63 - 1)),
        2**63 - 1,
    )
    if most < 1:
        raise ValueError(
            f"PT_HPU_MAX_COMPOUND_OP_SIZE or PT_HPU_MAX_ACCUM_SIZE is {most}, but a lazy graph holds at "
            "least one operator. Use 1 or more."
        )
    core.lazy_set_limits(most, bool(read_variable("PT_HPU_MAX_COMPOUND_OP_SYNC", "bool", False)))


def _queue_all_settings() -> tuple[int, int]:
    text = os.environ.get("HPU_REFERENCE_QUEUE_ALL", "")
    if not text:
        return -1, 0
    parts = text.split(",")
    if len(parts) > 2 or not all(part.strip().isdigit() for part in parts):
        raise ValueError(
            f"HPU_REFERENCE_QUEUE_ALL={text!r} is not MICROSECONDS[,SEED]. Use whole numbers, e.g. 200,1."
        )
    return int(parts[0]), int(parts[1]) if len(parts) > 1 else 0
