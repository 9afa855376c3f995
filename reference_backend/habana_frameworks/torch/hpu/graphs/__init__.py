"""HPU graphs: work of the device that is captured once and replayed without its host code.

=========================  ========================================================================
`capture`                  `HPUGraph`, the context manager `graph`
`exchange`                 replaying with other tensors in the place of captured ones
`inference`                `wrap_in_hpu_graph`: a forward that captures and replays by itself
`callables`                `make_graphed_callables`: forward and backward as graphs
`cacher`, `model`          `ModuleCacher` and `GraphModel`: training with changing shapes
`structure`                nested arguments and results, keys of caches
=========================  ========================================================================

All of it works in eager mode too, whereas the public bridge has it in lazy mode only; `ModuleCacher` keeps
that condition. Names, signatures and defaults are those of ``habana_frameworks.torch.hpu.graphs``.
"""

from __future__ import annotations

from .cacher import ModuleCacher
from .callables import make_graphed_callables
from .capture import HPUGraph, graph, is_current_stream_capturing
from .inference import CachedParams, wrap_in_hpu_graph, wrap_in_hpu_graph_func
from .model import GraphModel
from .pytree_keys import TensorPacker, copy_to, input_hash

__all__ = [
    "CachedParams",
    "GraphModel",
    "HPUGraph",
    "ModuleCacher",
    "TensorPacker",
    "copy_to",
    "graph",
    "input_hash",
    "is_current_stream_capturing",
    "make_graphed_callables",
    "wrap_in_hpu_graph",
    "wrap_in_hpu_graph_func",
]
