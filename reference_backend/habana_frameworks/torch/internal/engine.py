"""Settings of the engine from the environment, read once, when the package is imported.

Beside the flags of the public contract the reference device has its own:
``HPU_REFERENCE_QUEUE_ALL=MICROSECONDS[,SEED]`` sends every operator through its stream's queue, behind a
pause of up to that time; ``HPU_REFERENCE_RECORD_LINES=1`` makes errors of queued work name the program's
line; ``HPU_REFERENCE_LAZY_SEED`` seeds the random flushes of lazy mode 3; ``HPU_REFERENCE_LAZY_STRICT=1``,
which the core reads itself, makes lazy mode refuse CPU tensors and CPU generators;
``HPU_REFERENCE_STREAM_ORDER=events``, which the core reads itself, orders streams by events alone, and names
missing waits; ``HPU_REFERENCE_POISON=1`` fills fresh and freed memory with 0xFF.
"""

from __future__ import annotations

import atexit
import os
from types import ModuleType

from . import graph_dumps
from .fusion import cache_config
from .settings import bridge_config, hardware_limits
from .settings.environment import read


def start(core: ModuleType, lazy_mode: int) -> None:
    """Configure the engine from the environment, and start lazy mode if it is on.

    Args:
        core: the compiled core.
        lazy_mode: 0 for none, otherwise as ``PT_HPU_LAZY_MODE``.

    Raises:
        ValueError: a variable has a value that it does not accept.
    """
    core.set_pipeline(
        bool(read("PT_HPU_EAGER_PIPELINE_ENABLE", "bool", True))
        and bool(read("PT_ENABLE_HABANA_STREAMASYNC", "bool", True))
        and not read("PT_HPU_SYNC_LAUNCH", "bool", False)
    )
    core.recipe_cache_set_limit(int(read("HABANA_PGM_LRU_MAX", "u64", 30000)))
    core.recipe_cache_set_enabled(bool(read("PT_HPU_PGM_ENABLE_CACHE", "bool", True)))
    core.set_record_lines(bool(read("HPU_REFERENCE_RECORD_LINES", "bool", False)))
    core.set_queue_all(*_queue_all())
    hardware_limits.name()  # reports a bad one
    bridge_config.follow("PT_ENABLE_INT64_SUPPORT", core.set_wide_integers)
    core.set_tanh_gelu(bool(read("PT_HPU_FORCE_TANH_FOR_GELU", "bool", True)))
    core.set_copy_queue(
        bool(read("PT_HPU_ENABLE_H2D_COPY_ASYNC_THREAD", "bool", True)),
        bool(read("PT_HPU_ENABLE_D2H_ASYNC_THREAD", "bool", True)),
        int(read("PT_HPU_H2D_COPY_MIN_TENSOR_SIZE", "u32", 1 << 20)),
    )
    core.set_defragmentation(bool(read("PT_ENABLE_MEMORY_DEFRAGMENTATION", "bool", True)))
    # Lazy mode records calls, whose results it must know.
    core.set_keeps_learned(lazy_mode != 0 or bool(read("PT_HPU_ENABLE_EAGER_JIT_CACHE", "bool", True)))
    core.set_range_check(bool(read("PT_HPU_ENABLE_VALID_DATA_RANGE_CHECK", "bool", True)))
    cache_config.from_environment()  # reports a bad value now, not when the first graph is hot
    if read("PT_HPU_PRINT_BACKTRACE_ON_SIGNAL", "bool", False):
        import faulthandler  # the package imports no module that it does not need

        faulthandler.enable()
    if lazy_mode:
        _start_lazy(core, lazy_mode)
    # Before the interpreter ends: queued work may own Python objects.
    atexit.register(core.shutdown)


def _start_lazy(core: ModuleType, mode: int) -> None:
    core.lazy_start(mode, int(read("HPU_REFERENCE_LAZY_SEED", "u64", 0)))
    graph_dumps.dump_lazy_graphs(core)
    core.lazy_set_thread(bool(read("PT_HPU_ENABLE_EXECUTION_THREAD", "bool", True)))
    most = min(
        int(read("PT_HPU_MAX_ACCUM_SIZE", "u64", 2**63 - 1)),
        int(read("PT_HPU_MAX_COMPOUND_OP_SIZE", "i64", 2**63 - 1)),
        2**63 - 1,
    )
    if most < 1:
        raise ValueError(
            f"PT_HPU_MAX_COMPOUND_OP_SIZE or PT_HPU_MAX_ACCUM_SIZE is {most}: a lazy graph holds at least "
            "one operator, so use 1 or more"
        )
    core.lazy_set_limits(most, bool(read("PT_HPU_MAX_COMPOUND_OP_SYNC", "bool", False)))


def _queue_all() -> tuple[int, int]:
    text = os.environ.get("HPU_REFERENCE_QUEUE_ALL", "")
    if not text:
        return -1, 0
    parts = text.split(",")
    if len(parts) > 2 or not all(part.strip().isdigit() for part in parts):
        raise ValueError(
            f"HPU_REFERENCE_QUEUE_ALL={text!r} is not MICROSECONDS[,SEED]: use two whole numbers, e.g. 200,1"
        )
    return int(parts[0]), int(parts[1]) if len(parts) > 1 else 0
