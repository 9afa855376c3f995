"""Comparison of the outputs of an operator on a target with its reference."""

from __future__ import annotations

import functools
from typing import Any

import torch

from conformance.framework import trees
from conformance.framework.calls import attempt, one_line
from conformance.framework.compare import compare_metadata, compare_values, on_host, same_bits, same_nesting
from conformance.framework.recorder import Recorder
from conformance.framework.tolerances import EXACT, Rule, Tolerance, rule
from conformance.model.verdicts import Kind
from conformance.oracle import relations
from conformance.oracle.reference import Reference
from conformance.oracle.relations import Claim
from conformance.properties.shared.dtypes import dtype_under_test
from conformance.samples.operators import Sample
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target


def tolerance_for(
    target: Target, applied: Rule, leaf: torch.dtype, dtype: torch.dtype, elements: int, *, peer: bool
) -> Tolerance:
    """Return the bound of one result tensor; twice as wide against a peer that may be off as far itself."""
    bound = applied.tolerance(leaf, dtype, elements=elements, precision=target.precision)
    return bound.widened(2) if peer else bound


def compare_outputs(
    target: Target,
    recorder: Recorder,
    subject: Subject,
    sample: Sample,
    actual: Any,
    want: Reference,
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
    if not same_nesting(recorder, actual, want.outputs, label=label, sample=index):
        return False
    got, plain = list(trees.leaves(actual)), list(trees.leaves(want.outputs))
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
    precise = list(trees.leaves(want.high_precision))
    peer = not want.has_high_precision
    promise = relations.promise_of(subject.name)
    if promise is not None:
        claims = _claims(target, recorder, promise, actual, want, sample, label)
        if claims is False:
            return False
        if claims is not None:
            held = [_claim(target, recorder, applied, dtype, want, claim, label, index) for claim in claims]
            return all(held)
    spreads = iter(want.sensitivity)
    for number, (value, exact, base) in enumerate(zip(got, precise, plain, strict=False)):
        name = label if len(got) == 1 else f"part {number} of {label}"
        if isinstance(base, torch.Tensor):
            spread = next(spreads, None)
            bound = tolerance_for(target, applied, base.dtype, want.coarsest_dtype, want.elements, peer=peer)
            reference = (
                base if applied.exact or not (base.is_floating_point() or base.is_complex()) else exact
            )
        elif isinstance(base, (float, complex)) and not applied.exact:
            spread = None
            bound = tolerance_for(target, applied, dtype, want.coarsest_dtype, want.elements, peer=peer)
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
    target: Target, recorder: Recorder, promise: Any, actual: Any, want: Reference, sample: Sample, label: str
) -> Any:
    def host(leaf: Any) -> Any:
        return on_host(leaf) if isinstance(leaf, torch.Tensor) else leaf

    def make() -> list[Claim] | None:
        with torch.no_grad():
            claims = promise(trees.tree_map(host, actual), want.high_precision, sample)
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
    want: Reference,
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
