"""The shared parts of the operator properties: their dtypes, calls on the target, and comparisons
of results.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch

from conformance import torch_testing_internals
from conformance.framework import trees, undeclared_dtypes
from conformance.framework.calls import CallOutcome, attempt, attempt_on, one_line, report_error
from conformance.framework.compare import compare_metadata, compare_values, on_host, same_bits, same_nesting
from conformance.framework.recorder import Recorder
from conformance.framework.tolerances import EXACT, Rule, Tolerance, rule
from conformance.model.verdicts import Kind
from conformance.oracle import relations
from conformance.oracle.operators import Expected, expected
from conformance.oracle.relations import Claim
from conformance.properties.operators import _known_torch_bugs
from conformance.samples import sample_limit
from conformance.samples.copies import to_device, to_host
from conformance.samples.operators import Sample, SampleSet, dtype_name, dtype_of, samples_of
from conformance.subjects.torch_databases import Subject, find
from conformance.target.target import Target

FLOATING = ("float32", "float64", "bfloat16", "float16")
COMPLEX = ("complex64", "complex128")


def declared(target: Target, subject: Subject) -> frozenset[str]:
    """Return the names of the dtypes that the target declares for an operator.

    They are its own list, else those that the CPU supports.
    """
    listed = target.dtype_overrides.get(subject.name)
    if listed is not None:
        return listed
    return (
        frozenset(dtype_name(d) for d in torch_testing_internals.forward_dtypes(subject.info)) & target.dtypes
    )


def dtypes_of(target: Target, subject: Subject, among: Sequence[str] | None = None) -> list[str]:
    """Return the declared dtypes for which the CPU has an oracle, in order of ``among`` or of their names."""
    able = {dtype_name(d) for d in torch_testing_internals.forward_dtypes(subject.info)}
    names = declared(target, subject) & able
    return [name for name in among if name in names] if among is not None else sorted(names)


def first_dtypes(target: Target, subject: Subject, among: Sequence[str], count: int = 1) -> list[str]:
    """Return the first ``count`` dtypes of ``among`` that the target declares for the operator."""
    return dtypes_of(target, subject, among)[:count]


#: Indices of their samples repeat, with the same values: other values race (torch.nn.MaxUnpool2d).
WRITES_TWICE = frozenset(f"nn.functional.max_unpool{d}d" for d in (1, 2, 3))


def has_fixed_derivative(subject: Subject) -> bool:
    """Return whether derivatives are dense and the same everywhere.

    Those of sparse arguments are sparse, which no property here compares; those of the low-rank
    factorisations follow a random start that each device draws for itself; mode passes its gradient to any
    of the values that appear most often, all of which do in most samples.
    """
    free = ("svd_lowrank", "pca_lowrank", "mode")
    return not subject.name.startswith("sparse.") and subject.name not in free


def differentiable(target: Target, subject: Subject, among: Sequence[str]) -> list[str]:
    """Return the dtypes of ``among`` with a backward on the CPU that the target declares."""
    info = subject.info
    if not info.supports_autograd or not has_fixed_derivative(subject):
        return []
    able = {dtype_name(d) for d in torch_testing_internals.backward_dtypes(info)}
    return [name for name in dtypes_of(target, subject, among) if name in able]


def dtype_under_test(recorder: Recorder) -> torch.dtype:
    """Return the dtype of the result that is being recorded."""
    return dtype_of(recorder.id.dtype)


def run(target: Target, op: Callable[..., Any], sample: Sample, *, grad: bool = False) -> CallOutcome:
    """Run ``op`` on a sample that is on the device, warnings silenced, without a graph unless ``grad``."""

    def call() -> Any:
        with warnings.catch_warnings(), torch.set_grad_enabled(grad):
            warnings.simplefilter("ignore")
            return sample.call(op)

    return attempt_on(target, call)


def claimed(
    target: Target,
    recorder: Recorder,
    sample: Sample,
    derive: Callable[[Any, Sample], object] | None = None,
) -> bool:
    """Return whether the target declares every dtype that an operator's call needs.

    If there is ``derive(info, sample)``, it counts as well. If a dtype is missing, the recorder notes what is
    left out. Both run on the CPU for their dtypes.
    """
    if undeclared_dtypes.declares_all(target):
        return True
    info = find("operator", recorder.id.case.subject).info

    def call() -> Any:
        with (
            torch_testing_internals.torch_seeded(sample.index),
            torch_testing_internals.quiet(),
            torch.no_grad(),
        ):
            return to_host(sample).call(info.op)

    own = undeclared_dtypes.declared_for(target, recorder.id)
    missing = undeclared_dtypes.undeclared_dtypes_of_call(target, call, sample.arguments) - own
    if derive is not None and not missing:
        with torch_testing_internals.torch_seeded(sample.index), torch_testing_internals.quiet():
            missing = (
                undeclared_dtypes.undeclared_dtypes_of_call(target, lambda: derive(info, to_host(sample)))
                - own
            )
    if missing:
        recorder.left_out(missing)
    return not missing


def cases(
    target: Target, subject: Subject, recorder: Recorder, own_limit: int | None = None
) -> Iterator[tuple[Sample, Expected]]:
    """Yield the chosen samples that the target claims with the oracle's values; those on which the CPU raises
    are noted and left out.
    """
    dtype = dtype_under_test(recorder)
    samples = samples_of(subject, dtype)
    chosen = samples.chosen(sample_limit.limit(own_limit))
    recorder.samples(0, samples.available)
    yield from _with_expected(target, subject, recorder, dtype, samples, chosen)


def _with_expected(
    target: Target,
    subject: Subject,
    recorder: Recorder,
    dtype: torch.dtype,
    samples: SampleSet,
    chosen: Iterable[Sample],
) -> Iterator[tuple[Sample, Expected]]:
    for sample in chosen:
        want = expected(subject, dtype, sample.index, samples)
        if not want.ok:
            assert want.error is not None
            recorder.note(f"sample {sample.index} has no oracle: the CPU raised {one_line(want.error)}")
            continue
        if not claimed(target, recorder, sample):
            continue
        recorder.samples(1, 0)
        yield sample, want


def tolerance_for(
    target: Target, applied: Rule, leaf: torch.dtype, dtype: torch.dtype, elements: int, *, peer: bool
) -> Tolerance:
    """Return the bound of one result tensor; twice as wide against a peer that may be off as far itself."""
    bound = applied.tolerance(leaf, dtype, elements=elements, precision=target.precision)
    return bound.widened(2) if peer else bound


def compare_result(
    target: Target,
    recorder: Recorder,
    subject: Subject,
    sample: Sample,
    actual: Any,
    want: Expected,
    *,
    label: str = "the result",
    stride: bool = False,
    dtypes: bool = True,
    place: bool = True,
    bits: bool = False,
    dtype: torch.dtype | None = None,
) -> bool:
    """Compare a whole result of the device with the oracle's: nesting, metadata, then values or claims.

    ``sample`` holds the arguments on the CPU. ``dtypes`` and ``place`` switch off the comparison of dtypes
    and of the device; ``dtype`` is that of the call, by default that of the result that is recorded. With
    ``bits`` the CPU's own bits agree, without a look at how near they are to the values in raised precision,
    which cost several calls: for statements that are not about precision.
    Returns whether everything agrees.
    """
    if dtype is None:
        dtype = dtype_under_test(recorder)
    index = sample.index
    if not same_nesting(recorder, actual, want.plain, label=label, sample=index):
        return False
    got, plain = list(trees.leaves(actual)), list(trees.leaves(want.plain))
    good = True
    free = relations.free_parts(subject.name, sample)
    device = target.torch_device if place and _belongs_on_device(subject, sample) else None
    for number, (value, base) in enumerate(zip(got, plain, strict=False)):
        if number in free:
            continue
        name = label if len(got) == 1 else f"part {number} of {label}"
        accumulated = (
            number in relations.statistics(subject.name)
            and base.dtype in (torch.bfloat16, torch.float16)
            and isinstance(value, torch.Tensor)
            and value.dtype == torch.float32
        )
        good &= compare_metadata(
            recorder,
            value,
            base,
            label=name,
            sample=index,
            stride=stride,
            device=device,
            dtype=dtypes and not accumulated,
        )
    if not good or relations.free_of_values(subject.name, sample):
        return good
    if bits and not target.is_cpu and _same_bits(recorder, got, plain):
        return True
    applied = rule(subject.name, dtype)
    precise = list(trees.leaves(want.precise))
    peer = not want.raised_precision
    promise = relations.promise_of(subject.name)
    if promise is not None:
        claims = _claims(target, recorder, promise, actual, want, sample, label)
        if claims is False:
            return False
        if claims is not None:
            held = [_claim(target, recorder, applied, dtype, want, claim, label, index) for claim in claims]
            return all(held)
    spreads = iter(want.spread)
    for number, (value, exact, base) in enumerate(zip(got, precise, plain, strict=False)):
        name = label if len(got) == 1 else f"part {number} of {label}"
        if isinstance(base, torch.Tensor):
            spread = next(spreads, None)
            bound = tolerance_for(target, applied, base.dtype, want.computed, want.elements, peer=peer)
            reference = (
                base if applied.exact or not (base.is_floating_point() or base.is_complex()) else exact
            )
        elif isinstance(base, (float, complex)) and not applied.exact:
            spread = None
            bound = tolerance_for(target, applied, dtype, want.computed, want.elements, peer=peer)
            reference = exact
        elif isinstance(base, (bool, int, float, complex)):
            spread, bound, reference = None, EXACT, base
        else:
            recorder.compared(1)
            if value != base:
                recorder.fail(Kind.VALUE, f"{name} is {value!r}, expected {base!r}.", sample=index)
                good = False
            continue
        if number not in free:
            good &= compare_values(
                recorder, value, reference, tolerance=bound, label=name, sample=index, spread=spread
            )
    return good


def _same_bits(recorder: Recorder, got: list[Any], plain: list[Any]) -> bool:
    for value, base in zip(got, plain, strict=True):
        if not isinstance(base, torch.Tensor) or not isinstance(value, torch.Tensor):
            return False
        fetched = attempt(functools.partial(on_host, value))
        if not fetched.ok or fetched.value.dtype != base.dtype or not same_bits(fetched.value, on_host(base)):
            return False
    recorder.compared(sum(base.numel() for base in plain))
    return True


def _belongs_on_device(subject: Subject, sample: Sample) -> bool:
    """Return whether the arguments say that the result is on the device: a device argument, else a tensor.

    Factories make their result on the default device, whatever tensors they are given.
    """
    if any(isinstance(leaf, torch.device) or leaf == "cpu" for leaf in _not_tensors(sample)):
        return True
    return not is_factory(subject) and bool(sample.tensors())


def is_factory(subject: Subject) -> bool:
    """Return whether the operator makes its result from nothing, on the default device."""
    return getattr(subject.info, "is_factory_function", False) or subject.info.name in _FACTORIES


_FACTORIES = frozenset({"arange", "linspace", "logspace", "full", "eye", "scalar_tensor"})


def _not_tensors(sample: Sample) -> list[Any]:
    return [leaf for leaf in trees.leaves(sample.arguments) if isinstance(leaf, (torch.device, str))]


def _claims(
    target: Target, recorder: Recorder, promise: Any, actual: Any, want: Expected, sample: Sample, label: str
) -> Any:
    def host(leaf: Any) -> Any:
        return on_host(leaf) if isinstance(leaf, torch.Tensor) else leaf

    def make() -> list[Claim] | None:
        with torch.no_grad():
            claims = promise(trees.tree_map(host, actual), want.precise, sample)
            return None if claims is None else list(claims)

    outcome = attempt(make)
    if outcome.ok:
        return outcome.value
    assert outcome.error is not None
    recorder.compared(1)
    recorder.fail(
        Kind.VALUE, f"{label} cannot be used as promised: {one_line(outcome.error)}", sample=sample.index
    )
    return False


def _claim(
    target: Target,
    recorder: Recorder,
    applied: Rule,
    dtype: torch.dtype,
    want: Expected,
    claim: Claim,
    label: str,
    index: int,
) -> bool:
    bound = EXACT
    if not claim.exact:
        bound = tolerance_for(target, applied, dtype, dtype, want.elements, peer=True)
    spread = torch.full(claim.expected.shape, claim.scale, dtype=torch.float64) if claim.scale else None
    return compare_values(
        recorder,
        claim.actual,
        claim.expected,
        tolerance=bound,
        label=f"{claim.label} of {label}",
        sample=index,
        spread=spread,
    )


def copy_in(target: Target, recorder: Recorder, sample: Sample, *, check: bool = True) -> Sample | None:
    """Return a private copy on the device; None if that failed, which is then recorded.

    ``check`` is that of :func:`conformance.samples.copies.to_device`.
    """
    return to_device(sample, target, recorder, check=check)


def failed_call(
    target: Target, recorder: Recorder, sample: Sample, outcome: CallOutcome, label: str = "the operator"
) -> None:
    """Record the error of a call for which the CPU has a result; one of torch's own kernels is a note."""
    assert outcome.error is not None
    if page := _known_torch_bugs.page_of(target, recorder.id.case.subject, outcome.error):
        recorder.compared(1)
        recorder.note(f"torch's own kernel, which the device runs, fails: {one_line(outcome.error)} ({page})")
        return
    report_error(
        target, recorder, outcome.error, label=f"{label} on ({sample.describe()})", sample=sample.index
    )


def pristine(subject: Subject) -> Any:
    """Return torch's own record of the operator, even if a test hands in a broken one."""
    return find(subject.kind, subject.name).info
