"""HPU graphs: device work that is captured once and replayed without its host code.

=========================  ========================================================================
`capture`                  `HPUGraph` and the context manager `graph`
`io_binding`               replays with other tensors in place of the captured tensors
`inference`                `wrap_in_hpu_graph`: a forward that captures and replays by itself
`callables`                `make_graphed_callables`: forward and backward as graphs
`cacher`, `model`          `ModuleCacher` and `GraphModel`: training with changing shapes
`traced`                   modules of `torch.jit.trace` as graphs
`pytree_keys`              nested arguments and results, keys of caches
=========================  ========================================================================

All functions also work in eager mode, whereas the public bridge supports them in lazy mode only.
`ModuleCacher` keeps the restriction to lazy mode. Names, signatures and defaults are from
``habana_frameworks.torch.hpu.graphs``.
"""

from __future__ import annotations

from .cacher import ModuleCacher
from .callables import make_graphed_callables
from .capture import HPUGraph, graph, is_current_stream_capturing
from .inference import CachedParams, wrap_in_hpu_graph, wrap_in_hpu_graph_func
from .model import GraphModel
from .pytree_keys import TensorPacker, copy_to, input_hash
from .traced import run_traced_as_graph

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
    "run_traced_as_graph",
    "wrap_in_hpu_graph",
    "wrap_in_hpu_graph_func",
]
