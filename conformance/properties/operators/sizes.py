"""Operators at the sizes at which kernels change their ways: around powers of two, and large."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import torch

from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.oracle.reference import Reference, reference_for
from conformance.properties.operators import out
from conformance.properties.operators._transformed_samples import ABOUT_MEMORY, cpu_accepts
from conformance.properties.operators.variants import forms
from conformance.properties.shared.argument_integrity import check_unwritten_arguments
from conformance.properties.shared.comparison import compare_outputs
from conformance.properties.shared.dtypes import dtype_under_test, first_dtypes, pristine
from conformance.properties.shared.execution import copy_in, declares_call, report_failed_call, run
from conformance.samples.enlarged import Enlargement, enlargements
from conformance.samples.operators import Sample, samples_of
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

_DTYPES = ("float32", "int64", "bfloat16", "complex64", "bool", "float64")

#: Rows of sizes, dealt to the dtypes of an operator. Together they are the whole ladder: around a vector of
#: 16, around a warp and a block, and above the sizes from which on kernels work in parts. The largest of a
#: dtype runs in every form of the operator.
LADDER: tuple[tuple[int, ...], ...] = (
    (17, 255, 1025, 70_000),
    (16, 257, 4097, 65_537),
    (15, 31, 256, 32_769),
)

#: Factorisations of so many small matrices take seconds, and so does what compares all elements of a row with
#: each other; they stay below this size.
_SLOW = frozenset(
    {
        *("lu", "geqrf", "linalg.lu_factor", "linalg.lu_factor_ex", "linalg.svd", "svd", "cholesky"),
        *("linalg.eig", "linalg.eigvals", "kron", "nn.functional.multilabel_margin_loss"),
    }
)
#: Nothing of them grows: their size is a number among the arguments, not that of a tensor, or no tensor can
#: change alone. The low-rank factorisations iterate from a random start; the loss in chunks gets logits so
#: far apart that it is the rounding of their difference; what dropout keeps is random.
_LEFT_OUT = frozenset(
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
_BOUND = 5000

#: Samples that are tried for one that can be made larger, and ways of doing so.
_TRIED = 3
_WAYS = 4


def applies(target: Target, subject: Subject) -> Sequence[str]:
    """Return the names of the dtypes for which the property has a result."""
    if subject.name in ABOUT_MEMORY | _LEFT_OUT or subject.name.startswith(("sparse.", "signal.windows.")):
        return []
    # Batches of matrix exponentials in bfloat16 are NaN on the CPU as well.
    among = [name for name in _DTYPES if (subject.name, name) != ("matrix_exp", "bfloat16")]
    return first_dtypes(target, subject, among, len(LADDER))


def sizes_of(place: int, count: int) -> tuple[int, ...]:
    """Return the sizes of the dtype at a place among ``count`` of an operator; together they have all."""
    return tuple(sorted(size for row in LADDER[place :: max(1, count)] for size in row))


@register(
    "sizes",
    subject_kind="operator",
    statement=(
        "Results of 15 to 70,000 elements equal the oracle's, the largest also in place and with out=; no "
        "call changes what it does not write."
    ),
    documentation="torch.html",
    level="core",
    applies=applies,
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    names = applies(target, subject)
    ladder = sizes_of(names.index(recorder.id.dtype) if recorder.id.dtype in names else 0, len(names))
    if subject.name in _SLOW:
        ladder = tuple(size for size in ladder if size < _BOUND)
    grown = Grown(subject, recorder)
    for size in ladder:
        found = grown.at(size)
        if found is None:
            recorder.note(f"the CPU has no result of {size} elements")
            continue
        sample, want = found
        if not declares_call(target, recorder, sample):
            continue
        recorder.samples(1, 0)
        trial = recorder.trial()
        _function(target, subject, trial, sample, want)
        if size == max(ladder):
            _in_place(target, subject, trial, sample, want)
            _out(target, subject, trial, sample, want)
        if trial.failed and not _holds_on_the_cpu(target, subject, recorder, sample, want):
            recorder.note(f"the CPU's own result of {size} elements is not within the tolerance")
        else:
            recorder.absorb(trial)


class Grown:
    """A sample of an operator in one size after another, with the oracle's values."""

    def __init__(self, subject: Subject, recorder: Recorder) -> None:
        self._subject = subject
        self._dtype = dtype_under_test(recorder)
        samples = samples_of(subject, self._dtype).varied(_TRIED)
        found = (way for sample in samples for way in enlargements(subject, sample))
        self._new = itertools.islice(found, _WAYS)
        self._known: list[Enlargement] = []

    def at(self, size: int) -> tuple[Sample, Reference] | None:
        """Return the first sample of that size for which the CPU has a result, with it."""
        for way in self._ways():
            sample = way.at(size)
            if sample is None:
                continue
            want = reference_for(self._subject, self._dtype, sample)
            if want.ok:
                return sample, want
        return None

    def _ways(self) -> Iterator[Enlargement]:
        yield from list(self._known)
        for way in self._new:
            self._known.append(way)
            yield way


def _holds_on_the_cpu(
    target: Target, subject: Subject, recorder: Recorder, sample: Sample, want: Reference
) -> bool:
    """Return whether the CPU's own result in the dtype is within the tolerance that others are held to."""
    scratch = recorder.trial()
    return compare_outputs(target, scratch, subject, sample, want.outputs, want, place=False)


def _function(target: Target, subject: Subject, recorder: Recorder, sample: Sample, want: Reference) -> None:
    copy = copy_in(target, recorder, sample)
    if copy is None:
        return
    outcome = run(target, subject.info.op, copy)
    if not outcome.ok:
        report_failed_call(target, recorder, sample, outcome)
        return
    what = f"the result for ({sample.describe()})"
    compare_outputs(target, recorder, subject, sample, outcome.value, want, label=what, bits=True)
    check_unwritten_arguments(recorder, sample, copy, want.written)


def _in_place(target: Target, subject: Subject, recorder: Recorder, sample: Sample, want: Reference) -> None:
    expected = want.outputs
    if not target.capable("inplace") or not isinstance(sample.input, torch.Tensor):
        return
    if not isinstance(expected, torch.Tensor) or expected.shape != sample.input.shape:
        return
    if expected.dtype != sample.input.dtype:
        return
    reference = dict(forms(pristine(subject), inplace=True))
    for name, form in forms(subject.info, inplace=True):
        copy = copy_in(target, recorder, sample)
        if copy is None:
            return
        outcome = run(target, form, copy)
        if outcome.ok:
            what = f"the input of ({sample.describe()}) after the {name}"
            compare_outputs(target, recorder, subject, sample, copy.input, want, label=what, bits=True)
            check_unwritten_arguments(recorder, sample, copy, {0, *want.written}, label=f"the {name}")
        elif cpu_accepts(reference[name], sample):
            report_failed_call(target, recorder, sample, outcome, f"the {name}")
        break


def _out(target: Target, subject: Subject, recorder: Recorder, sample: Sample, want: Reference) -> None:
    if not target.capable("out_variants") or not out.has_out(subject):
        return
    parts = out.parts_of(recorder, sample, want)
    if not parts:
        return
    given = [torch.empty(p.shape, dtype=p.dtype, device=target.torch_device).fill_(1) for p in parts]
    outcome = out.call(target, subject, recorder, sample, given, want.outputs, written=want.written)
    if outcome is None:
        return
    if not outcome.ok:
        report_failed_call(target, recorder, sample, outcome, "the operator with out=")
        return
    value = given[0] if isinstance(want.outputs, torch.Tensor) else tuple(given)
    what = f"out= for ({sample.describe()})"
    compare_outputs(target, recorder, subject, sample, value, want, label=what, bits=True)
