"""The environment flags that have an effect in this release, as data.

Names, types and defaults are those of the public contract; a flag joins the table together with the code that
obeys it.
"""

from __future__ import annotations

from typing import NamedTuple

from .environment import Value


class Flag(NamedTuple):
    """One environment flag.

    Attributes:
        kind: ``bool``, ``u32``, ``u64``, ``i64`` or ``str`` (see `environment.parse`).
        default: value if the variable is unset.
        settable: `bridge_config` has a setter; the other flags are fixed once the process has read them.
        effect: the effect of the flag, in words.
    """

    kind: str
    default: Value
    settable: bool
    effect: str


FLAGS: dict[str, Flag] = {
    "PT_HPU_LAZY_MODE": Flag("u32", 0, False, "mode of the process, read when the package is imported"),
    "PT_HPU_PLACE_ON_CPU": Flag("str", "", False, "which operators may fall back to the CPU"),
    "PT_ENABLE_HABANA_STREAMASYNC": Flag("bool", True, False, "false: the host waits for each operator"),
    "PT_HPU_SYNC_LAUNCH": Flag("bool", False, False, "true: the host waits for each operator"),
    "PT_HPU_INFERENCE_MODE": Flag(
        "bool", False, False, "inference mode at start, see hpu.enable_inference_mode"
    ),
    "PT_HPU_MATMUL3D_2D_RESHAPE": Flag(
        "bool", False, False, "matmul reshape at start, see hpu.enable_matmul3d_2d_reshape"
    ),
    "PT_HPU_ENABLE_REFINE_DYNAMIC_SHAPES": Flag("bool", False, True, "state of hpu.enable_dynamic_shape"),
    "PT_HPU_OPTIM_DYNAMIC_OUTPUT_SIF": Flag("bool", True, False, "state of hpu.enable_optim_output_sif"),
    "PT_HPU_GRAPH_DUMP_PREFIX": Flag("str", ".graph_dumps", False, "folder of utils.debug.graph_dumps"),
    "PT_HPU_GRAPH_DUMP_MODE": Flag("str", "", True, "which graphs utils.debug.graph_dumps writes"),
    "PT_HPU_DUMP_IR_DOT_GRAPH": Flag("bool", False, False, "write captured and lazy graphs as DOT"),
    "PT_HPU_ENABLE_CACHE_METRICS": Flag("bool", False, False, "register the metric recipe_cache at import"),
    "PT_HPU_EAGER_PIPELINE_ENABLE": Flag("bool", True, False, "false: nothing runs behind the host"),
    "PT_HPU_ENABLE_EXECUTION_THREAD": Flag(
        "bool", True, False, "false: the thread that ends a graph waits until it has run"
    ),
    "PT_HPU_MAX_ACCUM_SIZE": Flag("u64", 2**64 - 1, False, "operators after which a lazy graph is launched"),
    "PT_HPU_MAX_COMPOUND_OP_SIZE": Flag(
        "i64", 2**63 - 1, False, "operators after which a lazy graph is launched"
    ),
    "PT_HPU_MAX_COMPOUND_OP_SYNC": Flag("bool", False, False, "true: and the host waits for it"),
    "PT_HPU_PGM_ENABLE_CACHE": Flag("bool", True, False, "false: each lazy graph is compiled anew"),
    "PT_HPU_GPU_MIGRATION": Flag("bool", False, False, "load the separate GPU migration package at import"),
}
