"""Compare the outputs of an operator or overload on a target with the reference."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import torch

from conformance.framework import trees
from conformance.framework.calls import attempt, one_line, report_error
from conformance.framework.compare import (
    compare_leaf_counts,
    compare_metadata,
    compare_values,
    excess_over_tolerance,
    fact,
    same_bits,
    to_host_tensor,
)
from conformance.framework.recorder import Recorder
from conformance.framework.tolerances import EXACT, Rule, Tolerance
from conformance.model.verdicts import Kind
from conformance.model.vocabulary import CALLS
from conformance.oracle import relations
from conformance.oracle.reference import Agreement, Call, Reference
from conformance.oracle.relations import Equation
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

#: The number of units by which a sum of whole numbers may differ. By torch's notes on numerical accuracy, a
#: device may truncate some partial sums to a dtype of 16 bits.
_UNITS_OF_SUMS = {Agreement.SUMS_OF_WHOLE_NUMBERS: 8.0, Agreement.EXACT_SUMS: 2.0}


def _rule_for_agreement(tolerance_rule: Rule, agreement: Agreement) -> Rule:
    units = _UNITS_OF_SUMS.get(agreement)
    return tolerance_rule if units is None else dataclasses.replace(tolerance_rule, k=units, growth="none")


def tolerance_for(
    target: Target,
    tolerance_rule: Rule,
    output_dtype: torch.dtype,
    computed_dtype: torch.dtype,
    elements: int,
    *,
    reference_has_same_precision: bool,
) -> Tolerance:
    """Return the tolerance of one output tensor.

    ``reference_has_same_precision`` doubles the tolerance. It is set if the reference has no more digits than
    the output: the rounding error of the reference is then as large as the rounding error of the output.
    """
    bound = tolerance_rule.tolerance(
        output_dtype, computed_dtype, elements=elements, precision=target.precision
    )
    return bound.widened(2) if reference_has_same_precision else bound


@dataclasses.dataclass(frozen=True)
class ComparisonPolicy:
    """The settings of a comparison that differ between properties.

    ``strides``, ``dtypes`` and ``device`` select the compared metadata. With ``same_bits_agree``, an output
    with the CPU's bits agrees and is not compared with the high-precision values, which cost several calls.
    Use it for properties that do not check precision. With ``bool_bytes``, each bool must be stored as 0 or
    1.

    If the CPU's error exceeds the tolerance, the device's error may be as large as the CPU's error. This
    applies in modes eager and lazy if the device under test is not the CPU. With ``cpu_may_differ``, it
    applies in every mode and also to the CPU.
    """

    strides: bool = False
    dtypes: bool = True
    device: bool = True
    same_bits_agree: bool = False
    bool_bytes: bool = False
    cpu_may_differ: bool = False


#: Compare values within the tolerance, and all metadata except strides.
VALUES = ComparisonPolicy()
#: For properties that do not check precision: an output with the CPU's bits agrees.
SAME_BITS_AGREE = ComparisonPolicy(same_bits_agree=True)
#: For large samples, for which the tolerances are not calibrated.
LARGE = ComparisonPolicy(same_bits_agree=True, cpu_may_differ=True)
#: For overloads: the documentation does not describe them, so the CPU decides which results are correct.
OVERLOADS = ComparisonPolicy(same_bits_agree=True, bool_bytes=True, cpu_may_differ=True)


def compare_outputs(
    target: Target,
    recorder: Recorder,
    reference: Reference,
    actual: Any,
    *,
    label: str = "the result",
    policy: ComparisonPolicy = VALUES,
) -> bool:
    """Compare a result of the device with the reference: nesting, metadata, then values or a relation.

    Return True if everything agrees.

    If the CPU's error exceeds the tolerance, the device's error may be as large as the CPU's error, and a
    note records this. This applies in modes eager and lazy if the device under test is not the CPU. With
    ``policy.cpu_may_differ``, it applies in every mode and also to the CPU.
    """
    if not compare_leaf_counts(
        recorder, actual, reference.outputs, label=label, sample=reference.sample.index
    ):
        return False
    comparison = _OutputComparison(target, recorder, reference, policy, label, actual)
    if not comparison.metadata_agrees():
        return False
    call = reference.call
    if not call.is_overload and relations.is_only_metadata_specified(call.name, call.sample):
        return True
    return comparison.values_agree()


@dataclasses.dataclass
class _OutputComparison:
    """The comparison of one result with its reference. Both have the same number of leaves."""

    target: Target
    recorder: Recorder
    reference: Reference
    policy: ComparisonPolicy
    label: str
    actual: Any

    def __post_init__(self) -> None:
        self.call = self.reference.call
        self.index = self.call.sample.index
        self.leaves = list(zip(trees.leaves(self.actual), trees.leaves(self.reference.outputs), strict=True))
        self.unspecified = relations.outputs_unspecified(self.call.name, self.call.sample)

    def label_of(self, number: int) -> str:
        """Return the name that messages use for the leaf with index ``number``."""
        return self.label if len(self.leaves) == 1 else f"part {number} of {self.label}"

    def metadata_agrees(self) -> bool:
        """Compare the selected metadata of each leaf, except for unspecified outputs."""
        statistics = relations.outputs_with_unspecified_dtype(self.call.name)
        device = self.target.torch_device if self.policy.device and _belongs_on_device(self.call) else None
        agrees = True
        for number, (value, base) in enumerate(self.leaves):
            if number in self.unspecified:
                continue
            accumulated = (
                number in statistics
                and base.dtype in (torch.bfloat16, torch.float16)
                and isinstance(value, torch.Tensor)
                and value.dtype == torch.float32
            )
            agrees &= compare_metadata(
                self.recorder,
                value,
                base,
                label=self.label_of(number),
                sample=self.index,
                stride=self.policy.strides,
                device=device,
                dtype=self.policy.dtypes and not accumulated,
            )
        return agrees

    def values_agree(self) -> bool:
        """Compare the values, and then the bytes of bools if the policy demands it.

        The values come first: a call on the device between the checked call and the first read would hide a
        result that is written late.
        """
        unspecified = self.unspecified | relations.outputs_with_unspecified_values(
            self.call.name, self.call.sample
        )
        specified = [(n, *pair) for n, pair in enumerate(self.leaves) if n not in unspecified]
        if not self._specified_values_agree(specified):
            return False
        if not self.policy.bool_bytes:
            return True
        stored_well = [self._bools_are_0_or_1(number, value) for number, value, _ in specified]
        return all(stored_well)

    def _specified_values_agree(self, specified: list[tuple[int, Any, Any]]) -> bool:
        """Compare the equations of the call's relation or, if no relation applies, each value."""
        unspecified = self.unspecified
        if self.call.is_overload:
            unspecified = unspecified | relations.outputs_with_unspecified_indices(
                self.call.name, self.call.sample
            )
        if self.call.relation is not None:
            if self.reference.agreement in (Agreement.SPECIAL_VALUES, Agreement.INFINITIES):
                return True  # no page defines outputs with a relation, such as factors, for NaN and infinity
            if not self._all_bits_agree():
                agrees = self._relation_holds()
                if agrees is not None:
                    return agrees
        agreements = [
            self._leaf_agrees(number, value, base)
            for number, value, base in specified
            if number not in unspecified
        ]
        return all(agreements)

    @functools.cached_property
    def _high_precision_leaves(self) -> list[tuple[Any, torch.Tensor | None]]:
        """Return the high-precision value of each leaf, with its sensitivity if it is a tensor."""
        sensitivities = iter(self.reference.sensitivity)
        return [
            (exact, next(sensitivities, None) if isinstance(base, torch.Tensor) else None)
            for exact, (_, base) in zip(trees.leaves(self.reference.high_precision), self.leaves, strict=True)
        ]

    def _leaf_agrees(self, number: int, value: Any, base: Any) -> bool:
        exact = self.reference.tolerance_rule.exact
        if isinstance(base, torch.Tensor):
            return self._tensor_agrees(number, value, base)
        if isinstance(base, (float, complex)) and not exact:
            return self._is_within_tolerance(number, value, base, self.call.dtype)
        if isinstance(base, (bool, int, float, complex)):
            return compare_values(self.recorder, value, base, label=self.label_of(number), sample=self.index)
        text = "" if value == base else f"{self.label_of(number)} is {value!r}, expected {base!r}."
        return fact(self.recorder, value == base, Kind.VALUE, text, sample=self.index)

    def _tensor_agrees(self, number: int, value: torch.Tensor, base: torch.Tensor) -> bool:
        reference, label, expected = self.reference, self.label_of(number), to_host_tensor(base)
        zeros = reference.fixes_signs_of_zeros or reference.agreement is Agreement.BITS
        # Compare the device's tensor and not a copy of it: if a snippet is made, CallRecorder finds the
        # failed output by this tensor object.
        actual = value
        if self._may_agree_by_bits:
            fetched = attempt(lambda: to_host_tensor(value))
            if not fetched.ok:
                assert fetched.error is not None
                error_label = f"reading {label}"
                report_error(self.target, self.recorder, fetched.error, label=error_label, sample=self.index)
                return False
            copied = fetched.value
            if copied.dtype == expected.dtype and same_bits(copied, expected, zeros=zeros):
                self.recorder.compared(copied.numel())
                return True
            actual = copied if self.call.is_overload else value
        if reference.agreement in (Agreement.SPECIAL_VALUES, Agreement.INFINITIES):
            return self._keeps_special_values(to_host_tensor(actual), expected, label)
        floating = base.is_floating_point() or base.is_complex()
        if not floating or reference.tolerance_rule.exact or reference.agreement is Agreement.BITS:
            return compare_values(
                self.recorder, actual, expected, label=label, sample=self.index, signed_zeros=zeros
            )
        if not self._is_within_tolerance(number, actual, expected, base.dtype):
            return False
        if reference.agreement is Agreement.SUBNORMALS and not self._keeps_subnormals(
            to_host_tensor(actual), expected, label
        ):
            return False
        return not reference.fixes_signs_of_zeros or self._signs_of_zeros_agree(
            to_host_tensor(actual), expected, label
        )

    @property
    def _may_agree_by_bits(self) -> bool:
        """True if an output with the CPU's bits agrees without any further comparison.

        It is False for an operator if the CPU is the device under test, because the bits of its outputs
        always equal the bits of the reference.
        """
        return self.policy.same_bits_agree and (self.call.is_overload or not self.target.is_cpu)

    def _all_bits_agree(self) -> bool:
        """Return whether equal bits suffice for agreement, and each leaf is a tensor with the CPU's bits."""
        if not self._may_agree_by_bits:
            return False
        for value, base in self.leaves:
            if not isinstance(base, torch.Tensor):
                return False
            fetched = attempt(functools.partial(to_host_tensor, value))
            if not fetched.ok or fetched.value.dtype != base.dtype:
                return False
            if not same_bits(fetched.value, to_host_tensor(base)):
                return False
        return True

    def _is_within_tolerance(self, number: int, actual: Any, expected: Any, dtype: torch.dtype) -> bool:
        reference = self.reference
        exact, sensitivity = self._high_precision_leaves[number]
        bound = tolerance_for(
            self.target,
            _rule_for_agreement(reference.tolerance_rule, reference.agreement),
            dtype,
            reference.coarsest_dtype,
            reference.elements,
            reference_has_same_precision=not reference.has_high_precision,
        )
        return self._agrees_as_far_as_on_cpu(
            actual, exact, (expected, exact), bound, self.label_of(number), sensitivity
        )

    @property
    def _has_cpu_control(self) -> bool:
        """True if an error of the CPU that exceeds the tolerance widens the tolerance of the device."""
        return self.policy.cpu_may_differ or (not self.target.is_cpu and self.target.mode in CALLS)

    def _agrees_as_far_as_on_cpu(
        self,
        actual: Any,
        expected: Any,
        on_cpu: tuple[Any, Any] | None,
        bound: Tolerance,
        label: str,
        sensitivity: torch.Tensor | None,
    ) -> bool:
        """Return whether the device's value ``actual`` is within the tolerance ``bound``.

        ``on_cpu`` is the CPU's value and its expected value, or None. If these two differ by k > 1 times the
        tolerance, the tolerance of the device is multiplied by k. Elements in which the CPU has a wrong NaN
        or infinity are not compared. A note records both changes.
        """

        def compare_with_tolerance(
            recorder: Recorder, tolerance: Tolerance, excused: torch.Tensor | None
        ) -> bool:
            return compare_values(
                recorder,
                actual,
                expected,
                tolerance=tolerance,
                label=label,
                sample=self.index,
                sensitivity=sensitivity,
                excused=excused,
            )

        trial = self.recorder.scratch()
        agrees = compare_with_tolerance(trial, bound, None)
        if not agrees and on_cpu is not None and self._has_cpu_control:
            excess = excess_over_tolerance(
                *map(to_host_tensor, on_cpu), tolerance=bound, sensitivity=sensitivity
            )
            excluded = int(excess.not_finite.sum())
            if excess.factor > 1.0 or excluded:
                note = f"the CPU's own error widens the tolerance of {label} by {excess.factor:.3g}"
                if excluded:
                    note += f"; {excluded} elements with a wrong NaN or infinity on the CPU are not compared"
                self.recorder.note(note)
                trial = self.recorder.scratch()
                agrees = compare_with_tolerance(trial, bound.widened(excess.factor), excess.not_finite)
        self.recorder.merge(trial)
        return agrees

    def _relation_holds(self) -> bool | None:
        """Return whether the equations of the call's relation hold.

        The result is None if the relation does not apply, because the values of this call are specified.
        """
        trial = self.recorder.scratch()
        equations = self._equations_of(trial, self.actual)
        if equations is None:
            return None
        of_cpu = self._equations_of(self.recorder.scratch(), self.reference.outputs)
        if self._has_cpu_control and not of_cpu:
            text = f"not checked: the relation of {self.label} cannot be computed for the CPU's result"
            self.recorder.allow_nothing_compared(text)
            self.recorder.note(text)
            return True
        self.recorder.merge(trial)
        if not equations:
            return False
        # The CPU's equations are the control only if their shapes agree. They differ if, for example, the
        # device finds another number of unique values than the CPU.
        same_sizes = of_cpu and [e.expected.shape for e in of_cpu] == [e.expected.shape for e in equations]
        controls = of_cpu if same_sizes else [None] * len(equations)
        agreements = [self._equation_holds(*pair) for pair in zip(equations, controls, strict=True)]
        return all(agreements)

    def _equations_of(self, recorder: Recorder, value: Any) -> Any:
        """Return the equations of the relation for a result.

        The result is None if the values of this call are specified. If the equations cannot be computed,
        record a failure and return False.
        """
        relation = self.call.relation
        assert relation is not None

        def copy_to_host(leaf: Any) -> Any:
            return to_host_tensor(leaf) if isinstance(leaf, torch.Tensor) else leaf

        def make_equations() -> list[Equation] | None:
            with torch.no_grad():
                equations = relation(
                    trees.tree_map(copy_to_host, value), self.reference.high_precision, self.call.sample
                )
                return None if equations is None else list(equations)

        outcome = attempt(make_equations)
        if outcome.ok:
            return outcome.value
        assert outcome.error is not None
        text = f"computing the required relation from {self.label} raised {one_line(outcome.error)}"
        fact(recorder, False, Kind.VALUE, text, sample=self.index)
        return False

    def _equation_holds(self, equation: Equation, of_cpu: Equation | None) -> bool:
        bound = EXACT
        if not equation.exact:
            dtype, rule = self.call.dtype, self.reference.tolerance_rule
            bound = tolerance_for(
                self.target, rule, dtype, dtype, self.reference.elements, reference_has_same_precision=True
            )
        sensitivity = (
            torch.full(equation.expected.shape, equation.scale, dtype=torch.float64)
            if equation.scale
            else None
        )
        label = f"{equation.label} of {self.label}"
        on_cpu = None if of_cpu is None else (of_cpu.actual, of_cpu.expected)
        return self._agrees_as_far_as_on_cpu(
            equation.actual, equation.expected, on_cpu, bound, label, sensitivity
        )

    def _bools_are_0_or_1(self, number: int, value: Any) -> bool:
        """Check that each bool is stored as 0 or 1.

        A view as uint8 (torch.Tensor.view) shows the stored byte; a copy as bool may hide it.
        """
        if not isinstance(value, torch.Tensor) or value.dtype != torch.bool or not value.numel():
            return True
        stored = attempt(lambda: int(value.detach().view(torch.uint8).cpu().max()))
        if not stored.ok:
            return True
        text = f"{self.label_of(number)} has a bool that is stored as {stored.value}, expected 0 or 1."
        return fact(self.recorder, stored.value <= 1, Kind.VALUE, text, sample=self.index)

    def _keeps_subnormals(self, actual: torch.Tensor, expected: torch.Tensor, label: str) -> bool:
        lost = (actual == 0) & (expected != 0)
        text = f"{label} is zero in {int(lost.sum())} elements that must be subnormal."
        return fact(self.recorder, not bool(lost.any()), Kind.VALUE, text, sample=self.index)

    def _signs_of_zeros_agree(self, actual: torch.Tensor, expected: torch.Tensor, label: str) -> bool:
        if not (actual.is_floating_point() and expected.is_floating_point()):
            return True
        wrong = (actual == 0) & (expected == 0) & (actual.signbit() != expected.signbit())
        text = f"{label} has {int(wrong.sum())} zeros of the wrong sign."
        return fact(self.recorder, not bool(wrong.any()), Kind.VALUE, text, sample=self.index)

    def _keeps_special_values(self, actual: torch.Tensor, expected: torch.Tensor, label: str) -> bool:
        """Check that the result keeps the special values of the reference; more special values are allowed.

        Infinities must stay infinities or NaN. With ``Agreement.SPECIAL_VALUES``, NaN must stay NaN.
        """
        self.recorder.compared(actual.numel())
        if actual.shape != expected.shape or not (actual.is_floating_point() or actual.is_complex()):
            return True
        actual, expected = (t if t.is_complex() else t.double() for t in (actual, expected))
        lost = expected.isinf() & actual.isfinite()
        if self.reference.agreement is Agreement.SPECIAL_VALUES:
            lost |= expected.isnan() & ~actual.isnan()
        if not bool(lost.any()):
            return True
        position = tuple(lost.nonzero()[0].tolist())
        text = (
            f"{label} is {actual[position].item()!r} at {list(position)}, "
            f"expected {expected[position].item()!r}."
        )
        self.recorder.fail(Kind.VALUE, text, sample=self.index)
        return False


def _belongs_on_device(call: Call) -> bool:
    """Return whether the result must be on the device.

    A result must be on the device if the call has a device argument or a tensor argument. A factory without
    a device argument returns a tensor on the default device, even if its arguments contain a tensor.
    """
    if call.is_overload:
        return True
    leaves = trees.leaves(call.sample.arguments)
    if any(isinstance(leaf, torch.device) or (isinstance(leaf, str) and leaf == "cpu") for leaf in leaves):
        return True
    return not is_factory(call.subject) and bool(call.sample.tensors())


def is_factory(subject: Subject) -> bool:
    """Return whether the operator creates its result on the default device."""
    return getattr(subject.info, "is_factory_function", False) or subject.info.name in _FACTORIES


_FACTORIES = frozenset({"arange", "linspace", "logspace", "full", "eye", "scalar_tensor"})
