"""Compiled with fusion, operators keep their values and gradients."""

from __future__ import annotations

from collections.abc import Sequence

from conformance.framework.compare import fact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind
from conformance.properties.operators import _compile_checks, compile_gradient
from conformance.properties.shared.comparison import compare_outputs
from conformance.properties.shared.dtypes import differentiable, first_dtypes
from conformance.properties.shared.execution import copy_in
from conformance.subjects.torch_databases import Subject, find
from conformance.target.target import Target

LIMIT = 2

#: Each costs a run of a compiler: elementwise, reduction, normalisation, product, indexing, view, pooling.
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


def applies(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes for which the property has a result."""
    if target.fused_options is None or subject.name not in OPERATORS:
        return []
    return first_dtypes(target, subject, ("float32",)) if _compile_checks.has_graph(subject) else []


@register(
    "compile_fused",
    subject_kind="operator",
    statement="Compiled with the target's options for fusion, values and gradients are within the tolerance.",
    documentation="generated/torch.compile.html",
    level="training",
    applies=applies,
    capabilities=("compile",),
    modes=("compile",),
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    before = target.compiled()
    compiler = _compile_checks.Compiler(target, recorder, fused=True)
    reference = _compile_checks.unseeded_operator(find("operator", subject.name))
    for sample, want in _compile_checks.cases(target, subject, recorder, LIMIT):
        copy = copy_in(target, recorder, sample)
        if copy is None:
            continue
        outcome = compiler.forward(sample, copy, _compile_checks.unseeded_operator(subject), reference)
        if outcome is not None:
            compare_outputs(target, recorder, subject, sample, outcome.value, want, label="the fused result")
    if recorder.id.dtype in differentiable(target, subject, (recorder.id.dtype,)):
        compile_gradient.gradients(target, subject, recorder, compiler, 1)
    compiler.settle()
    after = target.compiled()
    if before is None or after is None:
        recorder.note("which executable ran cannot be seen: the target has no hook compiled_graphs")
        return
    grown = {
        kind: count - before.get(kind, 0) for kind, count in after.items() if count > before.get(kind, 0)
    }
    words = ", ".join(f"{count} {kind}" for kind, count in sorted(grown.items())) or "none"
    recorder.note(f"executables that ran: {words}")
    fact(
        recorder,
        "fused" in grown if "fused" in after else bool(grown),
        Kind.STATE,
        "the compiled function did not run as an executable that the target counts.",
    )
