"""Faults in the modes compile and graph: faulty compilers and faulty graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from conformance.model.verdicts import Kind
from tests.injected_faults import broken_compile_backends  # noqa: F401  (registers the backends)
from tests.injected_faults.operators.faults import _wrap, plant


def nothing(info: Any) -> None:
    """Leave the operator correct. The target has the fault."""


def by_backend(property: str, operator: str, dtype: str, kind: Kind, backend: str) -> None:
    def breaks(info: Any) -> None:
        nothing(info)

    breaks.__name__ = backend
    plant(property, operator, dtype, kind, target={"backend": backend})(breaks)


def by_graph(property: str, operator: str, dtype: str, kind: Kind, graph: str) -> None:
    def breaks(info: Any) -> None:
        nothing(info)

    breaks.__name__ = graph
    plant(property, operator, dtype, kind, target={"hooks": {"graph": f"tests.support.fake_graph:{graph}"}})(
        breaks
    )


by_backend("compile_value", "mul", "float32", Kind.VALUE, "faulty_wrong_values")
by_backend("compile_value", "mul", "float32", Kind.EXCEPTION, "faulty_refuses")
by_backend("compile_gradient", "sin", "float32", Kind.VALUE, "faulty_steeper")
by_backend("compile_inplace", "add", "float32", Kind.VALUE, "faulty_writes_to_copies")
by_backend("compile_views", "transpose", "float32", Kind.ALIASING, "faulty_writes_to_copies")
by_backend("compile_views", "abs", "float32", Kind.VALUE, "faulty_takes_strides_as_dense")
by_backend("compile_dynamic", "sin", "float32", Kind.VALUE, "faulty_wrong_values")
by_backend("compile_random", "randn_like", "float32", Kind.STATE, "faulty_keeps_values")
by_backend("compile_fused", "mul", "float32", Kind.VALUE, "faulty_wrong_values")
by_backend("compile_fused", "sigmoid", "float32", Kind.VALUE, "faulty_steeper")


@plant("compile_value", "add", "float32", Kind.EXCEPTION)
def breaks_the_graph(info: Any) -> None:
    def change(op: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            torch._dynamo.graph_break()
            return op(*args, **kwargs)

        return call

    _wrap(info, change)


@plant("compile_dynamic", "sin", "float32", Kind.STATE)
def compiles_for_each_size(info: Any) -> None:
    def change(op: Callable[..., Any]) -> Callable[..., Any]:
        def call(x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            result = op(x, *args, **kwargs)
            for _ in range(x.shape[0]):
                result = result + 0
            return result

        return call

    _wrap(info, change)


by_graph("graph_value", "add", "float32", Kind.VALUE, "Stale")
by_graph("graph_value", "sum", "bfloat16", Kind.VALUE, "OldInputs")
by_graph("graph_value", "mm", "float32", Kind.VALUE, "Once")
by_graph("graph_inplace", "add", "float32", Kind.VALUE, "Stale")
by_graph("graph_inplace", "mul", "int64", Kind.VALUE, "Once")
by_graph("graph_views", "add", "float32", Kind.VALUE, "DenseInputs")
by_graph("graph_views", "sin", "float32", Kind.VALUE, "OldInputs")
by_graph("graph_gradient", "sin", "float32", Kind.VALUE, "ForwardOnly")
by_graph("graph_gradient", "mul", "float32", Kind.VALUE, "OldInputs")
by_graph("graph_random", "uniform", "float32", Kind.STATE, "Baked")
by_graph("graph_random", "randn_like", "float32", Kind.STATE, "Stale")
by_graph("graph_refusal", "nonzero", "float32", Kind.VALUE, "Careless")
by_graph("graph_refusal", "linalg.inv", "float32", Kind.ERROR_TYPE, "Rude")
