"""Property: compilation with fusion does not change values and gradients."""

from __future__ import annotations

from collections.abc import Sequence

from conformance.framework.compare import fact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.properties.operators import _compiled_calls, compile_gradient
from conformance.properties.shared.comparison import compare_outputs
from conformance.properties.shared.dtypes import differentiable_dtypes, first_dtypes
from conformance.properties.shared.execution import copy_sample_to_device
from conformance.subjects.torch_databases import Subject, find
from conformance.target.target import Target

LIMIT = 2

#: The operators to check: elementwise, reduction, normalisation, product, indexing and view operators. They
#: are few, because each check runs a compiler.
OPERATORS = frozenset(
    [
        "add",
        "mul",
        "div.no_rounding_mode",
        "exp",
        "log",
        "tanh",
        "sigmoid",
        "where",
        "clamp",
        "sum",
        "mean",
        "amax",
        "var",
        "cumsum",
        "softmax",
        "mm",
        "addmm",
        "bmm",
        "cat",
        "index_select",
        "gather",
        "transpose",
        "nn.functional.gelu",
        "nn.functional.layer_norm",
        "nn.functional.conv2d",
        "nn.functional.embedding",
    ]
)


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the operator."""
    if target.fused_options is None or subject.name not in OPERATORS:
        return []
    return (
        first_dtypes(target, subject, ("float32",))
        if _compiled_calls.can_be_captured_by_dynamo(subject)
        else []
    )


@register(
    "compile_fused",
    subject_kind="operator",
    statement="With the target's compile options for fusion, values and gradients are within the tolerance.",
    documentation="generated/torch.compile.html",
    basis="consistency",
    ground="The compiled operator and its gradient must agree with the eager results on the device",
    level="training",
    applies=dtypes_to_check,
    capabilities=("compile",),
    modes=("compile",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Compile with the target's fusion options and compare values, gradients and the executables that ran."""
    before = target.compiled()
    compiler = _compiled_calls.CompiledCallRunner(target, recorder, fused=True)
    cpu_operator = _compiled_calls.unseeded_operator(find("operator", subject.name))
    for sample, reference in _compiled_calls.varied_samples_with_references(target, subject, recorder, LIMIT):
        copy = copy_sample_to_device(target, recorder, sample)
        if copy is None:
            continue
        outcome = compiler.call_without_gradients(
            sample, copy, _compiled_calls.unseeded_operator(subject), cpu_operator
        )
        if outcome is not None:
            compare_outputs(target, recorder, reference, outcome.value, label="the fused result")
    if recorder.id.dtype in differentiable_dtypes(target, subject, (recorder.id.dtype,)):
        compile_gradient.compare_compiled_gradients(target, subject, recorder, compiler, 1)
    compiler.require_evidence()
    after = target.compiled()
    if before is None or after is None:
        recorder.note("the executables that ran are unknown: the target has no hook compiled_graphs")
        return
    run_counts = {
        kind: count - before.get(kind, 0) for kind, count in after.items() if count > before.get(kind, 0)
    }
    description = ", ".join(f"{count} {kind}" for kind, count in sorted(run_counts.items())) or "none"
    recorder.note(f"executables that ran: {description}")
    fact(
        recorder,
        "fused" in run_counts if "fused" in after else bool(run_counts),
        Kind.STATE,
        "the compiled function did not run as an executable that the target counts.",
    )
