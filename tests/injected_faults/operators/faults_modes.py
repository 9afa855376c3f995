"""Faults in the modes compile and graph: faulty compilers and faulty graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from conformance.model.verdicts import Kind
from tests.injected_faults import broken_compile_backends  # noqa: F401  (registers the backends)
from tests.injected_faults.operators.faults import _replace_op, register_fault


def leave_operator_correct(info: Any) -> None:
    """Do nothing, because the fault is in the target's compile backend or graph class and not in the
    operator.
    """


def register_backend_fault(property: str, operator: str, dtype: str, kind: Kind, backend: str) -> None:
    def inject(info: Any) -> None:
        leave_operator_correct(info)

    inject.__name__ = backend
    register_fault(property, operator, dtype, kind, target={"backend": backend})(inject)


def register_graph_fault(property: str, operator: str, dtype: str, kind: Kind, graph: str) -> None:
    def inject(info: Any) -> None:
        leave_operator_correct(info)

    inject.__name__ = graph
    register_fault(
        property, operator, dtype, kind, target={"hooks": {"graph": f"tests.support.fake_graph:{graph}"}}
    )(inject)


register_backend_fault("compile_value", "mul", "float32", Kind.VALUE, "faulty_wrong_values")
register_backend_fault("compile_value", "mul", "float32", Kind.EXCEPTION, "faulty_raises_on_compilation")
register_backend_fault("compile_gradient", "sin", "float32", Kind.VALUE, "faulty_gradients_too_large")
register_backend_fault("compile_inplace", "add", "float32", Kind.VALUE, "faulty_writes_to_copies")
register_backend_fault("compile_views", "transpose", "float32", Kind.ALIASING, "faulty_writes_to_copies")
register_backend_fault("compile_views", "abs", "float32", Kind.VALUE, "faulty_reads_inputs_as_dense")
register_backend_fault("compile_dynamic", "sin", "float32", Kind.VALUE, "faulty_wrong_values")
register_backend_fault("compile_random", "randn_like", "float32", Kind.STATE, "faulty_returns_first_results")
register_backend_fault("compile_fused", "mul", "float32", Kind.VALUE, "faulty_wrong_values")
register_backend_fault("compile_fused", "sigmoid", "float32", Kind.VALUE, "faulty_gradients_too_large")


@register_fault("compile_value", "add", "float32", Kind.EXCEPTION)
def forces_graph_break(info: Any) -> None:
    def make_faulty_op(op: Callable[..., Any]) -> Callable[..., Any]:
        def faulty_call(*args: Any, **kwargs: Any) -> Any:
            torch._dynamo.graph_break()
            return op(*args, **kwargs)

        return faulty_call

    _replace_op(info, make_faulty_op)


@register_fault("compile_dynamic", "sin", "float32", Kind.STATE)
def recompiles_for_each_size(info: Any) -> None:
    def make_faulty_op(op: Callable[..., Any]) -> Callable[..., Any]:
        def faulty_call(x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            result = op(x, *args, **kwargs)
            for _ in range(x.shape[0]):
                result = result + 0
            return result

        return faulty_call

    _replace_op(info, make_faulty_op)


register_graph_fault("graph_value", "add", "float32", Kind.VALUE, "ReplayDoesNothing")
register_graph_fault("graph_value", "sum", "bfloat16", Kind.VALUE, "UsesInputsOfCapture")
register_graph_fault("graph_value", "mm", "float32", Kind.VALUE, "ReplaysOnlyOnce")
register_graph_fault("graph_inplace", "add", "float32", Kind.VALUE, "ReplayDoesNothing")
register_graph_fault("graph_inplace", "mul", "int64", Kind.VALUE, "ReplaysOnlyOnce")
register_graph_fault("graph_views", "add", "float32", Kind.VALUE, "ReadsInputsAsDense")
register_graph_fault("graph_views", "sin", "float32", Kind.VALUE, "UsesInputsOfCapture")
register_graph_fault("graph_gradient", "sin", "float32", Kind.VALUE, "DropsSecondHalf")
register_graph_fault("graph_gradient", "mul", "float32", Kind.VALUE, "UsesInputsOfCapture")
register_graph_fault("graph_random", "uniform", "float32", Kind.STATE, "RepeatsRandomNumbers")
register_graph_fault("graph_random", "randn_like", "float32", Kind.STATE, "ReplayDoesNothing")
register_graph_fault("graph_refusal", "nonzero", "float32", Kind.VALUE, "AcceptsHostValues")
register_graph_fault("graph_refusal", "linalg.inv", "float32", Kind.ERROR_TYPE, "WrongErrorType")
