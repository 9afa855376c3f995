"""HPU graphs: device work that is captured once and replayed without its host code.

=========================  ========================================================================
`capture`                  `HPUGraph` and the context manager `graph`
`io_binding`               replays with other tensors in place of the captured tensors
`inference`                `wrap_in_hpu_graph`: a forward that is captured at the first call, then replayed
`callables`                `make_graphed_callables`: forward and backward pass as graphs
`cacher`, `model`          `ModuleCacher` and `GraphModel`: training with changing shapes
`traced`                   modules of `torch.jit.trace` that run as graphs
`pytree_keys`              cache keys of graphs for nested arguments, and packing of nested values
=========================  ========================================================================

Names, signatures and defaults are from the public bridge, which supports these functions in lazy mode only.
Here, all of them except `ModuleCacher` also capture graphs in eager mode.
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
