"""Public import path of the functions that dump graphs to files (`internal.graph_dumps`)."""

from __future__ import annotations

from habana_frameworks.torch.internal.graph_dumps import dump_graph, dump_if_requested, requested_formats

__all__ = ["dump_graph", "dump_if_requested", "requested_formats"]
