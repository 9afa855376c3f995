"""Property: operators give correct results in sizes at which kernels change their algorithm.

The sizes are drawn from the distributions of :mod:`conformance.samples.sizes`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import torch

from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.oracle.reference import Call, Reference, reference_for
from conformance.properties.operators import out
from conformance.properties.operators._transformed_samples import DEFINED_BY_MEMORY, cpu_accepts
from conformance.properties.operators.variants import call_forms_of_operator
from conformance.properties.shared.argument_integrity import check_unwritten_arguments
from conformance.properties.shared.comparison import LARGE, compare_outputs
from conformance.properties.shared.cpu_control import controlled_by_cpu
from conformance.properties.shared.dtypes import dtype_under_test, first_dtypes, unmodified_info
from conformance.properties.shared.execution import (
    copy_sample_to_device,
    report_failed_call,
    run_operator,
    target_declares_call,
)
from conformance.samples.enlarged import Enlargement, enlargements
from conformance.samples.operators import Sample, samples_of
from conformance.samples.sizes import ANY, GRID, GROUP, PRIME, SPLIT, VECTOR, SizeDistribution, draw_sizes
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

_DTYPES = ("float32", "int64", "bfloat16", "complex64", "bool", "float64")

#: Each row lists distributions of sizes, and each dtype of an operator gets at least one row. In the largest
#: size of a dtype, every form of the operator runs.
DISTRIBUTIONS_BY_ROW: tuple[tuple[SizeDistribution, ...], ...] = (
    (VECTOR, GROUP, SPLIT, GRID),
    (VECTOR, GROUP, SPLIT, GRID),
    (VECTOR, PRIME, ANY, SPLIT),
)

#: Operators that stay below ``_SLOW_LIMIT`` elements. Factorisations of many small matrices take seconds, and
#: so do operators that compare all elements of a row with each other.
_SLOW = frozenset(
    {
        *("lu", "geqrf", "linalg.lu_factor", "linalg.lu_factor_ex", "linalg.svd", "svd", "cholesky"),
        *("linalg.eig", "linalg.eigvals", "kron", "nn.functional.multilabel_margin_loss"),
    }
)
#: Operators that are omitted. Most of them cannot be enlarged: a number among the arguments determines the
#: size, or the shapes of several tensors depend on each other. The low-rank factorisations iterate from a
#: random start. In the chunked loss, the logits are so far apart that the result consists of rounding errors.
#: The elements that dropout keeps are random.
_OMITTED = frozenset(
    {
        *("arange", "empty", "empty_permuted", "empty_strided", "eye", "full", "linspace", "logspace"),
        *("linspace.tensor_overload", "logspace.tensor_overload", "ones", "randint", "randn", "zeros"),
        *("scalar_tensor", "tril_indices", "triu_indices", "broadcast_shapes", "broadcast_to", "expand"),
        *("expand_copy", "item", "diagflat", "linalg.tensorinv", "linalg.tensorsolve", "native_group_norm"),
        *("svd_lowrank", "pca_lowrank", "nn.functional.linear_cross_entropy.chunked"),
        *("nn.functional.dropout", "nn.functional.dropout2d", "nn.functional.dropout3d"),
        *("nn.functional.alpha_dropout", "nn.functional.feature_alpha_dropout.with_train"),
    }
)
_SLOW_LIMIT = 5000

#: Operators that add values to elements of the result, in the dtype of the result. An enlarged sample repeats
#: its indices, so one element gets thousands of addends. In bfloat16 such a sum stops growing far below its
#: value (2,048 positive addends: 128 instead of 644), so the property omits bfloat16.
_ADDS_TO_ELEMENTS = frozenset(
    {"index_add", "index_put", "scatter_add", "scatter_reduce.sum", "scatter_reduce.mean"}
)

#: ``_CANDIDATES`` is the number of samples that are tried. ``_MAX_ENLARGEMENTS`` is the maximum number of
#: enlargements of one sample.
_CANDIDATES = 3
_MAX_ENLARGEMENTS = 4


def dtypes_to_check(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes in which the property checks the operator."""
    if subject.name in DEFINED_BY_MEMORY | _OMITTED or subject.name.startswith(
        ("sparse.", "signal.windows.")
    ):
        return []
    # The CPU's results of ``matrix_exp`` for batches are NaN in bfloat16.
    omits_bfloat16 = subject.name in {"matrix_exp", *_ADDS_TO_ELEMENTS}
    among = [name for name in _DTYPES if not (omits_bfloat16 and name == "bfloat16")]
    return first_dtypes(target, subject, among, len(DISTRIBUTIONS_BY_ROW))


def sizes_to_check(operator: str, dtype_index: int, count: int) -> tuple[int, ...]:
    """Return the numbers of elements with which an operator is checked in one of its ``count`` dtypes.

    The rows of ``DISTRIBUTIONS_BY_ROW`` are divided among the dtypes. The sizes depend on the operator's name
    and on the seed of the run.
    """
    rows = [draw_sizes(f"{operator} {number}", row) for number, row in enumerate(DISTRIBUTIONS_BY_ROW)]
    return tuple(sorted(size for row in rows[dtype_index :: max(1, count)] for size in row))


@register(
    "sizes",
    subject_kind="operator",
    statement=(
        "Results of 3 to 71,536 elements equal the reference, the largest also in place and with out=. No "
        "call changes arguments that it does not write."
    ),
    documentation="torch.html",
    level="core",
    applies=dtypes_to_check,
)
@controlled_by_cpu
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Call the operator, in the largest size also in place and with out=, and compare with the reference."""
    names = dtypes_to_check(target, subject)
    ladder = sizes_to_check(
        subject.name, names.index(recorder.id.dtype) if recorder.id.dtype in names else 0, len(names)
    )
    if subject.name in _SLOW:
        ladder = tuple(size for size in ladder if size < _SLOW_LIMIT)
    growing_sample = GrowingSample(subject, recorder)
    for size in ladder:
        sample_with_reference = growing_sample.enlarged_to(size)
        if sample_with_reference is None:
            recorder.note(f"the CPU has no result of {size} elements")
            continue
        sample, reference = sample_with_reference
        if not target_declares_call(target, recorder, sample):
            continue
        recorder.samples(1, 0)
        _check_function(target, subject, recorder, sample, reference)
        if size == max(ladder):
            _check_in_place(target, subject, recorder, sample, reference)
            _check_out(target, subject, recorder, sample, reference)


class GrowingSample:
    """A sample of an operator that is enlarged to each requested size, with its reference."""

    def __init__(self, subject: Subject, recorder: Recorder) -> None:
        self._subject = subject
        self._dtype = dtype_under_test(recorder)
        samples = samples_of(subject, self._dtype).varied(_CANDIDATES)
        candidates = (enlargement for sample in samples for enlargement in enlargements(subject, sample))
        self._untried = itertools.islice(candidates, _MAX_ENLARGEMENTS)
        self._usable: list[Enlargement] = []

    def enlarged_to(self, size: int) -> tuple[Sample, Reference] | None:
        """Return the sample enlarged to a size, with its reference.

        The sample can be enlarged in several ways. The first enlarged sample that the CPU accepts is used.
        The result is None if the CPU accepts none.
        """
        for enlargement in self._enlargements():
            sample = enlargement.enlarge_sample(size)
            if sample is None:
                continue
            reference = reference_for(Call(self._subject, self._dtype, sample))
            if reference.ok:
                return sample, reference
        return None

    def _enlargements(self) -> Iterator[Enlargement]:
        yield from list(self._usable)
        for enlargement in self._untried:
            self._usable.append(enlargement)
            yield enlargement


def _check_function(
    target: Target, subject: Subject, recorder: Recorder, sample: Sample, reference: Reference
) -> None:
    copy = copy_sample_to_device(target, recorder, sample)
    if copy is None:
        return
    outcome = run_operator(target, subject.info.op, copy)
    if not outcome.ok:
        report_failed_call(target, recorder, sample, outcome)
        return
    label = f"the result for ({sample.describe()})"
    compare_outputs(target, recorder, reference, outcome.value, label=label, policy=LARGE)
    check_unwritten_arguments(recorder, sample, copy, reference.written)


def _check_in_place(
    target: Target, subject: Subject, recorder: Recorder, sample: Sample, reference: Reference
) -> None:
    expected = reference.outputs
    if not target.capable("inplace") or not isinstance(sample.input, torch.Tensor):
        return
    if not isinstance(expected, torch.Tensor) or expected.shape != sample.input.shape:
        return
    if expected.dtype != sample.input.dtype:
        return
    cpu_forms = dict(call_forms_of_operator(unmodified_info(subject), inplace=True))
    for name, form in call_forms_of_operator(subject.info, inplace=True):
        copy = copy_sample_to_device(target, recorder, sample)
        if copy is None:
            return
        outcome = run_operator(target, form, copy)
        if outcome.ok:
            label = f"the input of ({sample.describe()}) after the {name}"
            compare_outputs(target, recorder, reference, copy.input, label=label, policy=LARGE)
            check_unwritten_arguments(recorder, sample, copy, {0, *reference.written}, label=f"the {name}")
        elif cpu_accepts(cpu_forms[name], sample):
            report_failed_call(target, recorder, sample, outcome, f"the {name}")
        break


def _check_out(
    target: Target, subject: Subject, recorder: Recorder, sample: Sample, reference: Reference
) -> None:
    if not target.capable("out_variants") or not out.has_out(subject):
        return
    parts = out.results_matching_out(recorder, sample, reference)
    if not parts:
        return
    out_tensors = [torch.empty(p.shape, dtype=p.dtype, device=target.torch_device).fill_(1) for p in parts]
    outcome = out.call_with_out(
        target, subject, recorder, sample, out_tensors, reference.outputs, written=reference.written
    )
    if outcome is None:
        return
    if not outcome.ok:
        report_failed_call(target, recorder, sample, outcome, "the operator with out=")
        return
    value = out_tensors[0] if isinstance(reference.outputs, torch.Tensor) else tuple(out_tensors)
    label = f"out= for ({sample.describe()})"
    compare_outputs(target, recorder, reference, value, label=label, policy=LARGE)
