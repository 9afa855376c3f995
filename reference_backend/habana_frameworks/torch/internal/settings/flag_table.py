"""Table of the environment flags of the Intel Gaudi bridge.

Names, types and defaults are from this bridge. `OBEYED` lists the flags with an effect on this device. All
other flags are in `flags_without_effect.txt`: they are accepted, checked and returned by `bridge_config`, so
that scripts that set them run.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from .environment import Value, parse_value


class Flag(NamedTuple):
    """One environment flag.

    Attributes:
        kind: ``bool``, ``switch``, ``u32``, ``u64``, ``i64`` or ``str`` (see `environment.parse_value`).
        default: value if the variable is unset.
        settable: `bridge_config` has a setter. Other flags are fixed after the first read.
        effect: description of the effect; empty if the flag has no effect.
        why: the reason why the flag has no effect, if a program might expect an effect.
    """

    kind: str
    default: Value
    settable: bool
    effect: str
    why: str = ""


OBEYED: dict[str, Flag] = {
    "PT_HPU_LAZY_MODE": Flag("u32", 0, False, "mode of the process, read when the package is imported"),
    "PT_HPU_PLACE_ON_CPU": Flag(
        "str",
        "",
        False,
        "operators that run on the CPU; others may not fall back (empty: all may; none: no operator may)",
    ),
    "PT_ENABLE_HABANA_STREAMASYNC": Flag("bool", True, False, "false: the host waits for each operator"),
    "PT_HPU_SYNC_LAUNCH": Flag("bool", False, False, "true: the host waits for each operator"),
    "PT_HPU_INFERENCE_MODE": Flag("bool", False, False, "initial state of hpu.enable_inference_mode"),
    "PT_HABANA_MEM_LOG_FILENAME": Flag(
        "str", "habana_log.livealloc.log", False, "file of utils.debug._memstat_devmem_stop_collect"
    ),
    "PT_HPU_MATMUL3D_2D_RESHAPE": Flag(
        "bool", False, False, "initial state of hpu.enable_matmul3d_2d_reshape"
    ),
    "PT_HPU_ENABLE_REFINE_DYNAMIC_SHAPES": Flag("bool", False, True, "state of hpu.enable_dynamic_shape"),
    "PT_HPU_OPTIM_DYNAMIC_OUTPUT_SIF": Flag("bool", True, False, "state of hpu.enable_optim_output_sif"),
    "PT_HPU_GRAPH_DUMP_PREFIX": Flag("str", ".graph_dumps", False, "folder of utils.debug.graph_dumps"),
    "PT_HPU_GRAPH_DUMP_MODE": Flag("str", "", True, "which graphs utils.debug.graph_dumps writes"),
    "PT_HPU_DUMP_IR_DOT_GRAPH": Flag("bool", False, False, "write captured and lazy graphs as DOT"),
    "PT_HPU_ENABLE_CACHE_METRICS": Flag("bool", False, False, "register the metric recipe_cache at import"),
    "PT_HPU_EAGER_PIPELINE_ENABLE": Flag("bool", True, False, "false: the host waits for each operator"),
    "PT_HPU_ENABLE_EXECUTION_THREAD": Flag(
        "bool", True, False, "false: the thread that ends a lazy graph waits until the graph has run"
    ),
    "PT_HPU_MAX_ACCUM_SIZE": Flag(
        "u64", 2**64 - 1, False, "number of operators after which a lazy graph is launched"
    ),
    "PT_HPU_MAX_COMPOUND_OP_SIZE": Flag(
        "i64", 2**63 - 1, False, "number of operators after which a lazy graph is launched"
    ),
    "PT_HPU_MAX_COMPOUND_OP_SYNC": Flag(
        "bool", False, False, "true: the host waits for a graph launched at PT_HPU_MAX_COMPOUND_OP_SIZE"
    ),
    "PT_HPU_PGM_ENABLE_CACHE": Flag(
        "bool", True, False, "false: each lazy graph is compiled again at each launch"
    ),
    "PT_HPU_GPU_MIGRATION": Flag("bool", False, False, "map torch.cuda to hpu, see gpu_migration"),
    "PT_HPU_STOCHASTIC_ROUNDING_MODE": Flag(
        "u32",
        1,
        False,
        "1: stochastic rounding to fp8 rounds magnitudes below half of the smallest subnormal to zero",
    ),
    "PT_ENABLE_COMM_GROUP_CACHE": Flag(
        "bool", True, False, "new_group with the same ranks returns the same group"
    ),
    "PT_HPU_ENABLE_LAZY_COLLECTIVES": Flag("bool", False, False, "collectives are recorded in graphs"),
    "PT_HPU_EMULATE_DISTRIBUTED": Flag(
        "bool", False, False, "a rank runs without its peers: collectives use copies of its own data"
    ),
    "PT_HPU_EMULATE_DISTRIBUTED_SINGLE_RANK": Flag(
        "bool",
        False,
        False,
        "as PT_HPU_EMULATE_DISTRIBUTED, and the process is rank 0 of WORLD_SIZE regardless of RANK",
    ),
    "PT_HPU_ENABLE_SFG": Flag(
        "switch", False, False, "initial value of the option enable_sfg of hpu_backend"
    ),
    "PT_ENABLE_INT64_SUPPORT": Flag(
        "bool", False, True, "if HPU_REFERENCE_PROFILE is set: int64 has 64 bits, not 32"
    ),
    "PT_HPU_ENABLE_VALID_DATA_RANGE_CHECK": Flag(
        "bool",
        True,
        False,
        "if HPU_REFERENCE_PROFILE is set: a host value outside the device's range is an error",
    ),
    "PT_HPU_POOL_MEM_ACQUIRE_PERC": Flag("u32", 100, False, "percentage of memory that tensors may use"),
    "PT_ENABLE_SYNLAUNCH_TIME_CAPTURE": Flag(
        "bool", False, False, "log each launch of a recipe and its duration"
    ),
    "PT_ENABLE_REALTIME_MEMORY_LOGGING": Flag("bool", False, False, "log each allocation and free"),
    "PT_ENABLE_LIGHTWEIGHT_MEMORY_USAGE_LOGGING": Flag(
        "bool", False, False, "log the memory in use after each allocation and free"
    ),
    "PT_ENABLE_DEFRAGMENTATION_INFO": Flag(
        "bool", False, False, "log waits for memory and failed allocations"
    ),
    "PT_HPU_POOL_LOG_FRAGMENTATION_INFO": Flag(
        "bool", False, False, "log waits for memory and failed allocations"
    ),
    "PT_HPU_MEM_STATS_DUMP": Flag("bool", False, False, "log the memory in use at each launch of a graph"),
    "PT_TB_ENABLE_FLOW_EVENTS": Flag(
        "bool", False, False, "exported traces have arrows from operators to device rows"
    ),
    "PT_HPU_ENABLE_LOP_TRACES_COLLECTION": Flag(
        "bool", False, False, "low_overhead_profiler records the whole process and writes its trace at exit"
    ),
    "PT_HPU_ENABLE_LOP_METRICS_COLLECTION": Flag(
        "bool",
        False,
        False,
        "as PT_HPU_ENABLE_LOP_TRACES_COLLECTION, and writes the number of calls and the time by name",
    ),
    "PT_LOG_FILE_AMOUNT": Flag("u32", 5, False, "number of retained log files"),
    "PT_HPU_RECIPE_CACHE_CONFIG": Flag(
        "str",
        "",
        False,
        "disk cache of compiled recipes, also of torch.compile: path, delete at start, size in MB",
    ),
    "PT_HPU_FORCE_USE_DEFAULT_STREAM": Flag(
        "bool", False, False, "streams that the program creates are the default stream"
    ),
    "PT_HPU_ENABLE_GENERIC_STREAM": Flag(
        "bool", True, False, "false: the program's new streams are taken in turn from a pool of 4 (GAUDI: 2)"
    ),
    "PT_HPU_FORCE_TANH_FOR_GELU": Flag(
        "bool", True, False, "if HPU_REFERENCE_PROFILE is set: gelu always uses the tanh approximation"
    ),
    "PT_HPU_ENABLE_H2D_COPY_ASYNC_THREAD": Flag(
        "bool", True, False, "false: copies from pinned memory to the device run on the host"
    ),
    "PT_HPU_ENABLE_D2H_ASYNC_THREAD": Flag(
        "bool", True, False, "false: copies from the device to pinned memory run on the host"
    ),
    "PT_HPU_H2D_COPY_MIN_TENSOR_SIZE": Flag(
        "u32",
        1048576,
        False,
        "minimum size in bytes of a pinned copy that is queued although its stream is idle",
    ),
    "PT_ENABLE_MEMORY_DEFRAGMENTATION": Flag(
        "bool",
        True,
        False,
        "false: small free blocks are not coalesced for a large allocation",
    ),
    "PT_HPU_ENABLE_EAGER_JIT_CACHE": Flag(
        "bool",
        True,
        False,
        "false: eager mode does not cache output metadata of calls, see utils.debug._get_jit_cache_size",
    ),
    "PT_HPU_DISABLE_ASYNC_COLLECTIVE": Flag(
        "bool", False, False, "true: each collective call waits until the collective has run"
    ),
    "PT_HPU_EAGER_COLLECTIVE_PIPELINE_ENABLE": Flag(
        "bool", True, False, "false: each collective call waits until the collective has run"
    ),
    "PT_HPU_USE_NW_STREAM_SYNC": Flag(
        "bool",
        False,
        False,
        "true: each collective call waits until the collective has run",
    ),
    "PT_HPU_USE_PT_STORE_SYNC": Flag(
        "bool",
        False,
        False,
        "true: before each collective the ranks synchronise through the group's store, and the call waits",
    ),
    "PT_RECIPE_CACHE_PATH": Flag("str", "", False, "older flag for the path of PT_HPU_RECIPE_CACHE_CONFIG"),
    "PT_CACHE_FOLDER_DELETE": Flag(
        "bool", False, False, "older flag for the delete field of PT_HPU_RECIPE_CACHE_CONFIG"
    ),
    "PT_CACHE_FOLDER_SIZE_MB": Flag(
        "u32", 1024, False, "older flag for the size in MB of PT_HPU_RECIPE_CACHE_CONFIG"
    ),
    "PT_HPU_CHECK_NUM_CONSTS": Flag(
        "u32", 0, False, "if not 0: number of constants that a frozen graph of hpu_backend must have"
    ),
    "PT_HPU_ENABLE_COMPILED_AUTOGRAD": Flag(
        "bool", False, False, "torch.compile also compiles backward passes (torch's compiled autograd)"
    ),
    "PT_COMPILATION_STATS_PATH": Flag(
        "str", "", True, "folder for a JSON file of each graph that hpu_backend compiles"
    ),
    "PT_HPU_PRINT_BACKTRACE_ON_SIGNAL": Flag(
        "bool", False, False, "a fatal signal prints the stacks of all Python threads"
    ),
}


def _flags_without_effect() -> Iterator[tuple[str, Flag]]:
    text = Path(__file__).with_name("flags_without_effect.txt").read_text()
    for line in text.splitlines():
        if line and not line.startswith("#"):
            flag, _, why = line.partition(" # ")
            name, kind, settable, *default = flag.split(" ")
            yield (
                name,
                Flag(kind, parse_value(name, kind, " ".join(default)), settable == "settable", "", why),
            )


#: All flags, by name.
FLAGS: dict[str, Flag] = OBEYED | dict(_flags_without_effect())
