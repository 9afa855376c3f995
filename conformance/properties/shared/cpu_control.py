"""The CPU control: a check that fails on the device runs on the CPU too before the failure counts.

A failure that the CPU has too becomes a note. A device may run composite kernels of torch for operators that
have separate kernels on the CPU. The check therefore runs on the CPU with these composite kernels too. A
failure of torch's composite kernels also becomes a note.

If the CPU is the device under test, :func:`controlled_by_cpu` has no control, so every failure counts.
:func:`with_cpu_control` has the control even then, because the CPU defines which results of an overload are
correct.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable
from typing import Any

from conformance import torch_testing_internals
from conformance.device import process_state
from conformance.framework.calls import attempt, report_error
from conformance.framework.property import Check
from conformance.framework.recorder import Recorder, StopAtFirstFailure
from conformance.model.verdicts import Kind
from conformance.model.vocabulary import CALLS
from conformance.oracle.reference import Reference
from conformance.properties.shared.dtypes import unmodified_info
from conformance.properties.shared.execution import copy_sample_to_device
from conformance.properties.shared.kernel_origin import CompositeKernelsMode
from conformance.subjects.torch_databases import Subject, find
from conformance.target.target import Target

#: First words of the notes on a check that the CPU fails too: with its own kernels, or with the composite
#: kernels that the device runs.
CPU_FAILS_TOO = "the CPU fails the same check"
COMPOSITE_FAILS_TOO = "the CPU fails the same check with torch's composite kernels, which the device runs"

#: On a device, the kernels that a composite kernel calls round differently. The error of the composite kernel
#: on the device may be larger than its error on the CPU by this factor.
_ROUNDING_FACTOR = 4.0
#: Kinds of failures that do not depend on values.
_INDEPENDENT_OF_VALUES = frozenset({Kind.ALIASING, Kind.STATE})
#: Kinds of failures after which nothing else was checked.
_ENDS_THE_CHECK = frozenset({Kind.EXCEPTION, Kind.REFUSED, Kind.ERROR_TYPE})


class Conclusion(enum.Enum):
    """The conclusion of a check of one call, after the CPU control."""

    PASSED = "passed"
    FAILED = "failed"
    #: The CPU rejects the call in the checked form or layout.
    CPU_REJECTS = "the CPU rejects the call"
    #: The CPU fails the same check.
    CPU_FAILS_TOO = "the CPU fails too"
    #: The CPU's result depends on the previous contents of its memory.
    NOT_REPRODUCIBLE = "not reproducible"
    #: The device refuses a call that devices may refuse.
    DEVICE_REFUSED = "the device refused"

    @property
    def is_conclusive(self) -> bool:
        """True if the requirement was checked: it holds, or the device alone violates it."""
        return self in (Conclusion.PASSED, Conclusion.FAILED)


def with_cpu_control(
    target: Target,
    recorder: Recorder,
    reference: Reference,
    check: Callable[[Target, Recorder, Any], object],
    cpu_accepts: Callable[[], bool] = lambda: True,
) -> Conclusion:
    """Run ``check(target, recorder, info)`` of one call on the target; if it fails, run it on the CPU too.

    Return the conclusion of both runs. ``info`` is the subject's attribute of this name, such as an OpInfo.
    The run on the CPU gets torch's own ``info``, even if a test passes a broken subject. ``cpu_accepts()``
    returns whether the CPU accepts the call in the checked form.
    """
    trial = recorder.scratch()
    ran = attempt(lambda: check(target, trial, reference.subject.info))
    if ran.error is not None:
        report_error(
            target, trial, ran.error, label="preparing or reading a call", sample=reference.sample.index
        )
    if not trial.failed:
        recorder.merge(trial)
        return Conclusion.PASSED
    copied = recorder.scratch()
    if copy_sample_to_device(target, copied, reference.sample) is None:
        recorder.merge(copied)  # the copy to the device failed, so a control of the call is not needed
        return Conclusion.FAILED
    if not cpu_accepts():
        recorder.allow_nothing_compared("the CPU refuses the call in that form")
        return Conclusion.CPU_REJECTS
    control = recorder.scratch()
    check(target.on_cpu(), control, unmodified_info(reference.subject))
    if control.failed:
        recorder.allow_nothing_compared("not checked: the CPU fails the same check")
        recorder.note(f"{CPU_FAILS_TOO}: {control.first_failure[:200]}")
        independent = trial.only(_INDEPENDENT_OF_VALUES - control.kinds)
        if independent.failed and control.kinds.isdisjoint(_ENDS_THE_CHECK) and reference.reproducible:
            recorder.merge(independent)
        return Conclusion.CPU_FAILS_TOO
    # Before a failure counts, the CPU repeats the call: its result may depend on uninitialised memory.
    if not reference.is_reproducible():
        recorder.allow_nothing_compared("the CPU's result depends on what its memory held before")
        recorder.note("the CPU's result depends on what its memory held before")
        return Conclusion.NOT_REPRODUCIBLE
    composite_control = _run_with_composite_kernels(
        target, recorder, lambda on_cpu, scratch: check(on_cpu, scratch, unmodified_info(reference.subject))
    )
    if composite_control is not None:
        trial.excuse_failures_shared_with(
            composite_control, COMPOSITE_FAILS_TOO, tolerates_larger_errors=_ROUNDING_FACTOR
        )
    recorder.merge(trial)
    return Conclusion.FAILED if trial.failed else Conclusion.CPU_FAILS_TOO


def _run_with_composite_kernels(
    target: Target, recorder: Recorder, check: Callable[[Target, Recorder], object]
) -> Recorder | None:
    """Run a check on the CPU with the composite kernels that the target runs, and return its deviations.

    Return None if the CPU runs the same kernels as the target.
    """
    key = torch_testing_internals.dispatch_key(target.device)
    # The properties of composite kernels run them on CPU tensors anyway, with a dispatch mode of their own.
    if target.is_cpu or not key or recorder.id.case.property.startswith("composite"):
        return None
    control = recorder.scratch()
    control.watch = None
    process_state.seed(recorder.seed, target)
    with CompositeKernelsMode(key) as composites:
        attempt(lambda: check(target.on_cpu(), control))
    return control if composites.has_replaced else None


def controlled_by_cpu(check: Check) -> Check:
    """Return ``check`` with a CPU control of each of its failures.

    If the check fails on a device in a mode of single calls (eager or lazy), it runs on the CPU in mode
    eager. Each failure that the CPU has too, with the same kind, sample and message, becomes a note
    (:meth:`Recorder.excuse_failures_shared_with`).
    Modes ``compile`` and ``graph`` have no control: the CPU has no graphs, and the CPU and the device use
    different compilers.
    """

    @functools.wraps(check)
    def check_with_control(target: Target, subject: Subject, recorder: Recorder) -> None:
        try:
            check(target, subject, recorder)
        except StopAtFirstFailure:
            if (
                target.is_cpu
                or target.mode not in CALLS
                or not _all_failures_excused_by_cpu(check, target, subject, recorder)
            ):
                raise
            recorder.first_only = False  # the first failure does not count, so search for more failures
            process_state.seed(recorder.seed, target)
            check_with_control(target, subject, recorder)
            return
        if recorder.failed and not target.is_cpu and target.mode in CALLS:
            _all_failures_excused_by_cpu(check, target, subject, recorder)

    return check_with_control


def _all_failures_excused_by_cpu(check: Check, target: Target, subject: Subject, recorder: Recorder) -> bool:
    """Turn each failure that the CPU has too into a note. Return True if no failure remains."""
    control = recorder.scratch()
    control.watch = None
    process_state.seed(recorder.seed, target)
    attempt(lambda: check(target.on_cpu(), find(subject.kind, subject.name), control))
    recorder.excuse_failures_shared_with(control, CPU_FAILS_TOO)
    if recorder.failed:
        composite_control = _run_with_composite_kernels(
            target, recorder, lambda on_cpu, scratch: check(on_cpu, find(subject.kind, subject.name), scratch)
        )
        if composite_control is not None:
            recorder.excuse_failures_shared_with(
                composite_control, COMPOSITE_FAILS_TOO, tolerates_larger_errors=_ROUNDING_FACTOR
            )
    return not recorder.failed
