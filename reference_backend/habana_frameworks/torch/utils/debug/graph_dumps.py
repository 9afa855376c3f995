"""Public import path of graph dumps; see `habana_frameworks.torch.internal.graph_dumps`."""

from __future__ import annotations

from habana_frameworks.torch.internal.graph_dumps import dump_graph, dump_if_requested, requested_forms

__all__ = ["dump_graph", "dump_if_requested", "requested_forms"]
