"""The recorder, which collects the comparisons and deviations of one result. A check that does not compare
anything does not pass.
"""

from __future__ import annotations

import collections
import contextlib
import re
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Set
from typing import Any

from conformance.model.messages import message_pattern
from conformance.model.verdicts import Basis, Failure, Kind, Placement, Result, ResultId, Verdict, printable

MAX_FAILURES_KEPT = 5
MAX_SHAPES_KEPT = 20
MAX_MESSAGE = 4000
MAX_NOTES = 20
#: The first words of the note of a result that passes without a comparison.
CHECKED_NOTHING = "checked nothing: "


#: Kinds whose messages contain the deviating value. Two deviations of these kinds are the same only if their
#: messages are equal; for any other kind, if their message patterns are equal.
_COMPARED_BY_MESSAGE = frozenset({Kind.VALUE, Kind.METADATA, Kind.DTYPE})
#: Kind, basis, sample and message or message pattern of a deviation.
_Key = tuple[Kind, Basis, "int | None", str]


class StopAtFirstFailure(BaseException):
    """Raised to end a check at its first deviation, if ``Recorder.first_only`` is set."""


def _difference_in_message(message: str) -> float:
    """Return the difference that a message about a wrong value names; infinity if the message does not name a
    difference.
    """
    match = re.search(r"\bfound ([0-9.e+-]+|inf|nan)[;)]", message)
    return float(match.group(1)) if match and match.group(1) != "nan" else float("inf")


class Recorder:
    """Collects the observations of one property of one subject in one dtype.

    A check reports deviations to the recorder. It never asserts and never raises for a deviation of the
    target. An exception that leaves a check is a fault of the suite and becomes the verdict ``error``.
    """

    def __init__(self, result_id: ResultId, *, seed: int, about_emptiness: bool = False) -> None:
        self.id = result_id
        self.seed = seed
        self.about_emptiness = about_emptiness
        #: Capabilities that the property needs and the target does not declare.
        self.lacking: tuple[str, ...] = ()
        #: The basis of deviations that are recorded without a basis: the basis of the property, or the
        #: argument of :meth:`with_basis` inside its context.
        self.basis = Basis.DOCUMENTED
        #: Indices of the samples whose deviations always have basis parity, because the call that was copied
        #: last under this index goes beyond the documentation.
        self.parity_sample_indices: set[int] = set()
        #: False if the target does not declare strides: :func:`compare_metadata` then ignores them.
        self.compares_strides = True
        #: If true, recording the first deviation raises :class:`StopAtFirstFailure`. A scratch recorder does
        #: not raise. Merging its deviations into this recorder raises.
        self.first_only = False
        #: If not None, this function is called with each sample that is copied to the device.
        self.watch: Callable[[Any], object] | None = None
        self._started = time.perf_counter()
        self._comparisons = 0
        self._empty_comparisons = 0
        self._failure_count = 0
        self._failures: list[Failure] = []
        #: For each kind, sample and message pattern: the number of deviations, and the first deviation.
        #: Deviations that ``_failures`` does not keep are counted too.
        self._deviations: dict[_Key, tuple[int, Failure]] = {}
        self._shapes: set[tuple[Kind, Basis, str]] = set()
        self._failed_samples: set[int] = set()
        self._notes: list[str] = []
        self._samples_used = 0
        self._samples_available = 0
        self._unsupported: str | None = None
        self._vacuous: str | None = None
        self._idle: str | None = None
        self._undeclared_dtypes: set[str] = set()
        self._cut_off = False
        self._placement: Placement | None = None

    @property
    def failed(self) -> bool:
        """True if at least one deviation was recorded."""
        return self._failure_count > 0

    @property
    def failure_count(self) -> int:
        """Number of deviations so far, including deviations whose messages were dropped."""
        return self._failure_count

    def compared(self, count: int) -> None:
        """Count compared elements or facts. Ignore 0 unless the property is about empty tensors."""
        if count:
            self._comparisons += int(count)
        else:
            self._empty_comparisons += 1

    @contextlib.contextmanager
    def with_basis(self, basis: Basis) -> Iterator[None]:
        """Give the deviations that are recorded inside this context a different basis."""
        before = self.basis
        self.basis = basis
        try:
            yield
        finally:
            self.basis = before

    def fail(
        self, kind: Kind, message: str, *, sample: int | None = None, basis: Basis | None = None
    ) -> None:
        """Record a deviation of the target.

        ``basis`` defaults to :attr:`basis`. A deviation of a sample in ``parity_sample_indices`` always has
        basis parity.

        All deviations are counted. The recorder keeps the first few messages. It also keeps the first message
        of every failure kind and basis, because expectations and runs excuse deviations by kind and basis.
        Up to a limit, it keeps the first message of every message pattern, because different patterns may
        have different causes.
        """
        basis = (
            Basis.PARITY if sample in self.parity_sample_indices else self.basis if basis is None else basis
        )
        self._failure_count += 1
        if sample is not None:
            self._failed_samples.add(int(sample))
        message_key = (kind, basis, message_pattern(message, self.id.case.subject))
        failure = Failure(kind, message[:MAX_MESSAGE], None if sample is None else int(sample), basis)
        self._count(*self._deviation_key(failure), 1, failure)
        below_limit = len(self._failures) < MAX_FAILURES_KEPT
        new_kind = all((kind, basis) != (failure.kind, failure.basis) for failure in self._failures)
        new_shape = message_key not in self._shapes and len(self._shapes) < MAX_SHAPES_KEPT
        if below_limit or new_kind or new_shape:
            self._shapes.add(message_key)
            self._failures.append(failure)
        if self.first_only:
            raise StopAtFirstFailure

    def note(self, text: str) -> None:
        """Record a remark that is not a deviation, such as an undeclared dtype that works."""
        text = printable(text[:MAX_MESSAGE])
        if len(self._notes) < MAX_NOTES and text not in self._notes:
            self._notes.append(text)

    def unsupported(self, reason: str) -> None:
        """Record that the target refused the subject cleanly, as the target file declares. ``reason`` is the
        declared reason.
        """
        self._unsupported = reason
        self.note(reason)

    def vacuous(self, reason: str) -> None:
        """Record that the subject did not run in its mode. The verdict is ``vacuous``, because the
        comparisons prove nothing about the mode.
        """
        self._vacuous = reason

    def allow_nothing_compared(self, reason: str) -> None:
        """Allow this result to pass without a comparison.

        If nothing is compared, the verdict is ``pass`` with a note that starts with :data:`CHECKED_NOTHING`.
        A check calls this method if the inputs of a subject may leave nothing to compare. Results that
        compare nothing on the CPU are not planned (``tools.generate.overload_table --idle``).
        """
        self._idle = self._idle or reason

    def idle(self, reason: str) -> None:
        """Call :meth:`allow_nothing_compared`. This old name issues a DeprecationWarning."""
        warnings.warn("Recorder.idle is now called allow_nothing_compared", DeprecationWarning, stacklevel=2)
        self.allow_nothing_compared(reason)

    def omit_for_dtypes(self, dtypes: Iterable[str]) -> None:
        """Record that part of the check was omitted because it needs undeclared dtypes.

        The result gets a note. If nothing was compared and no sample was vacuous, the verdict is
        ``unsupported``.
        """
        self._undeclared_dtypes.update(dtypes)

    def cut_off(self) -> None:
        """Record that the check ended early, at a call that was omitted. The verdict is ``unsupported``."""
        self._cut_off = True

    @property
    def first_failure(self) -> str:
        """The message of the first deviation; empty if no deviation was recorded."""
        return self._failures[0].message if self._failures else ""

    def scratch(self) -> Recorder:
        """Return an empty recorder of the same result for provisional observations. :meth:`merge` adds the
        observations to this recorder.
        """
        scratch = Recorder(self.id, seed=self.seed, about_emptiness=self.about_emptiness)
        scratch.lacking = self.lacking
        scratch.basis = self.basis
        scratch.parity_sample_indices = self.parity_sample_indices
        scratch.compares_strides = self.compares_strides
        scratch.watch = self.watch
        return scratch

    @property
    def kinds(self) -> frozenset[Kind]:
        """The kinds of the deviations so far."""
        return frozenset(failure.kind for failure in self._failures)

    def only(self, kinds: Set[Kind]) -> Recorder:
        """Return a scratch recorder that has this recorder's deviations of the given kinds, and no
        comparisons.
        """
        scratch = self.scratch()
        for failure in self._failures:
            if failure.kind in kinds:
                scratch.fail(failure.kind, failure.message, sample=failure.sample, basis=failure.basis)
        return scratch

    def merge(self, scratch: Recorder) -> None:
        """Add the observations of a scratch recorder to this recorder."""
        self._comparisons += scratch._comparisons
        self._empty_comparisons += scratch._empty_comparisons
        for failure in scratch._failures:
            self.fail(failure.kind, failure.message, sample=failure.sample, basis=failure.basis)
        for failure in scratch._failures:  # undo the count of ``fail``: the next loop counts all deviations
            self._count(*self._deviation_key(failure), -1, failure)
        for key, (count, failure) in scratch._deviations.items():
            self._count(*key, count, failure)
        self._failure_count += scratch._failure_count - len(scratch._failures)
        self._failed_samples |= scratch._failed_samples
        for note in scratch._notes:
            self.note(note)
        self._unsupported = self._unsupported or scratch._unsupported
        self._idle = self._idle or scratch._idle
        self._undeclared_dtypes |= scratch._undeclared_dtypes
        self._cut_off |= scratch._cut_off

    def _count(
        self, kind: Kind, basis: Basis, sample: int | None, pattern: str, count: int, failure: Failure
    ) -> None:
        key = (kind, basis, sample, pattern)
        before, first = self._deviations.get(key, (0, failure))
        self._deviations[key] = before + count, first

    def excuse_failures_shared_with(
        self, control: Recorder, reason: str, *, tolerates_larger_errors: float = 0.0
    ) -> None:
        """Turn each deviation that ``control`` has too into a note that begins with ``reason``.

        Two deviations are the same if their kind, sample and message are equal. Messages about errors,
        aliasing and state are compared by their pattern. If ``tolerates_larger_errors`` is not 0, messages
        about wrong values are compared by their pattern too, and the error may be at most this factor times
        the error of ``control``. Deviations without a sample are excused only if ``control`` has at least as
        many deviations of this kind and message as this recorder.
        """

        def comparable(key: _Key) -> _Key:
            kind, basis, sample, text = key
            by_pattern = tolerates_larger_errors and kind is Kind.VALUE
            return (kind, basis, sample, self._message_pattern(text)) if by_pattern else key

        counts: collections.Counter[_Key] = collections.Counter()
        control_counts: collections.Counter[_Key] = collections.Counter()
        control_errors: dict[_Key, float] = collections.defaultdict(float)
        for key, (count, _) in self._deviations.items():
            counts[comparable(key)] += count
        for key, (count, _) in control._deviations.items():
            control_counts[comparable(key)] += count
            control_errors[comparable(key)] = max(
                control_errors[comparable(key)], _difference_in_message(key[3])
            )

        def is_excused(key: _Key) -> bool:
            same = comparable(key)
            if control_counts[same] < (counts[same] if key[2] is None else 1):
                return False
            return (
                same == key
                or _difference_in_message(key[3]) <= tolerates_larger_errors * control_errors[same]
            )

        excused = {key: first for key, (_, first) in self._deviations.items() if is_excused(key)}
        if not excused:
            return
        for failure in excused.values():
            self.note(f"{reason}: {failure.message[:200]}")
        for key in excused:
            self._failure_count -= self._deviations.pop(key)[0]
        remaining = [first for _, first in self._deviations.values()]
        still_listed = [failure for failure in self._failures if self._deviation_key(failure) not in excused]
        # If every stored failure is excused, the first deviations that are not excused replace them.
        self._failures = still_listed or remaining[:MAX_FAILURES_KEPT]
        self._failed_samples = {failure.sample for failure in remaining if failure.sample is not None}
        self.allow_nothing_compared(reason)

    def _deviation_key(self, failure: Failure) -> _Key:
        """Return the key of a deviation. Deviations with equal keys are the same.

        The keys of two deviations of values or metadata differ if their numbers differ, because a small error
        of the CPU must not excuse a large error. Messages of errors may differ in numbers and addresses.
        """
        text = failure.message
        if failure.kind not in _COMPARED_BY_MESSAGE:
            text = self._message_pattern(text)
        return failure.kind, failure.basis, failure.sample, text

    def _message_pattern(self, message: str) -> str:
        return message_pattern(message, self.id.case.subject)

    @property
    def samples_used(self) -> int:
        """Number of samples tried so far."""
        return self._samples_used

    def samples(self, used: int, available: int) -> None:
        """Add to the numbers of used and available samples."""
        self._samples_used += int(used)
        self._samples_available += int(available)

    def placement(self, placement: Placement) -> None:
        """Record the observed placement of the operator."""
        self._placement = placement

    def result(self) -> Result:
        """Return the result so far. It is ``vacuous`` if nothing was compared and no deviation was
        recorded.
        """
        comparisons = self._comparisons + (self._empty_comparisons if self.about_emptiness else 0)
        # A reader sees the first failure first, so deviations of basis parity come last.
        failures = sorted(self._failures, key=lambda failure: failure.basis is Basis.PARITY)
        count = self._failure_count
        if self._undeclared_dtypes:
            names = ", ".join(sorted(self._undeclared_dtypes))
            text = f"omitted calls that need {names}, which the target does not declare"
            if text not in self._notes:
                self._notes.insert(0, text)
        vacuous_samples = self._vacuous is not None and self._samples_used > 0
        nothing_left = comparisons == 0 and bool(self._undeclared_dtypes) and not vacuous_samples
        if count:
            verdict = Verdict.FAIL
        elif self._unsupported is not None or self._cut_off or nothing_left:
            verdict = Verdict.UNSUPPORTED
        elif comparisons == 0 and self._idle is not None and self._vacuous is None:
            verdict = Verdict.PASS
            self.note(CHECKED_NOTHING + self._idle)
        elif comparisons == 0 or self._vacuous is not None:
            verdict = Verdict.VACUOUS
            failures = [Failure(Kind.VACUOUS, (self._vacuous or "nothing was compared")[:MAX_MESSAGE])]
            count = 1
        else:
            verdict = Verdict.PASS
        return Result(
            id=self.id,
            verdict=verdict,
            comparisons=comparisons,
            failure_count=count,
            failures=failures,
            failed_samples=sorted(self._failed_samples),
            notes=list(self._notes),
            samples_used=self._samples_used,
            samples_available=self._samples_available,
            placement=self._placement,
            seconds=time.perf_counter() - self._started,
            seed=self.seed,
            # If the result was refused as declared, the undeclared dtypes are not the reason.
            undeclared=sorted(self._undeclared_dtypes) if self._unsupported is None else [],
        )
