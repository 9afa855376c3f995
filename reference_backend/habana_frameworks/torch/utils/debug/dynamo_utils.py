"""Count, for compiled graphs, the operators that run inside and outside recipes."""

from __future__ import annotations

from typing import Any

from habana_frameworks.torch.dynamo.debug_utils.logger import get_compile_backend_logger


class FxGraphAnalyzer:
    """Context manager that counts the operators of the graphs that ``hpu_backend`` compiles in its block.

    At the end of the block, graphs with operators outside recipes (compiled device graphs) are logged.

    ::

        with FxGraphAnalyzer(reset_dynamo=True) as analyzer:
            compiled_model(x)
        analyzer.get_ops_summary()[0]["torch.ops.aten.mm.default"].graph_count

    Args:
        reset_dynamo: drop Dynamo's compiled code, so that graphs compiled earlier are compiled again and
            counted.
        capture_non_hpu_output: also count operators whose results are not on hpu.
    """

    def __init__(self, reset_dynamo: bool = False, capture_non_hpu_output: bool = False) -> None:
        self._reset_dynamo = reset_dynamo
        self._all_devices = capture_non_hpu_output
        self._graphs: list[Any] = []

    def __enter__(self) -> FxGraphAnalyzer:
        # Imported here, so that only programs that analyse graphs import Dynamo.
        from habana_frameworks.torch.dynamo.compile_backend import summary

        import torch._dynamo

        if self._reset_dynamo:
            torch._dynamo.reset()
        self._graphs = []
        summary.listeners.append(self._graphs)
        return self

    def __exit__(self, *exception: object) -> None:
        from habana_frameworks.torch.dynamo.compile_backend import summary

        summary.listeners[:] = [listener for listener in summary.listeners if listener is not self._graphs]
        logger = get_compile_backend_logger()
        for graph, ops in zip(self._graphs, self.get_ops_summary(), strict=True):
            eager = {name: counts.eager_count for name, counts in ops.items() if counts.eager_count}
            if eager:
                logger.warning("%s has operators outside recipes: %s", graph.name, eager)

    def get_ops_summary(self) -> list[dict[str, Any]]:
        """Return, for each compiled graph, a dict from operator names to counts.

        A name is like ``torch.ops.aten.add.Tensor``. A count has the attributes ``graph_count`` (calls inside
        recipes) and ``eager_count`` (calls outside recipes).
        """
        return [self._counts(graph) for graph in self._graphs]

    def _counts(self, graph: Any) -> dict[str, Any]:
        result = dict(graph.ops)
        if self._all_devices:
            for name, counts in graph.other_ops.items():
                existing = result.get(name)
                result[name] = counts if existing is None else existing + counts
        return result
