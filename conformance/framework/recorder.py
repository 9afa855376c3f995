"""The recorder: the counted observations of a property about a subject, so that silence can never pass."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Set
from typing import Any

from conformance.model.messages import message_shape
from conformance.model.verdicts import Failure, Kind, Placement, Result, ResultId, Verdict, plain

MAX_FAILURES_KEPT = 5
MAX_SHAPES_KEPT = 20
MAX_MESSAGE = 4000
MAX_NOTES = 20
#: The note of a result that passes without a comparison begins so.
CHECKED_NOTHING = "checked nothing: "


class StopAtFirstFailure(BaseException):
    """Ends a property at the first deviation, if that is all that is asked."""


class Recorder:
    """Collects the observations of one property about one subject in one dtype.

    A property reports; it never asserts and never raises for a deviation of the target. An exception that
    leaves a property is a fault of the suite and becomes the verdict ``error``.
    """

    def __init__(self, result_id: ResultId, *, seed: int, about_emptiness: bool = False) -> None:
        self.id = result_id
        self.seed = seed
        self.about_emptiness = about_emptiness
        #: Capabilities that the property needs and the target does not declare.
        self.lacking: tuple[str, ...] = ()
        #: Whether the first deviation raises :class:`Enough`; those of trials do when they are absorbed.
        self.first_only = False
        #: Called with each sample that goes to the device, if anyone asks.
        self.watch: Callable[[Any], object] | None = None
        self._started = time.perf_counter()
        self._comparisons = 0
        self._empty_comparisons = 0
        self._failure_count = 0
        self._failures: list[Failure] = []
        self._shapes: set[tuple[Kind, str]] = set()
        self._failed_samples: set[int] = set()
        self._notes: list[str] = []
        self._samples_used = 0
        self._samples_available = 0
        self._unsupported: str | None = None
        self._vacuous: str | None = None
        self._idle: str | None = None
        self._unclaimed: set[str] = set()
        self._cut_off = False
        self._placement: Placement | None = None

    @property
    def failed(self) -> bool:
        """True if at least one deviation was recorded."""
        return self._failure_count > 0

    @property
    def failure_count(self) -> int:
        """Number of deviations so far, also of those whose messages were not kept."""
        return self._failure_count

    def compared(self, count: int) -> None:
        """Count compared elements or facts. Zero counts as nothing unless the property is about emptiness."""
        if count:
            self._comparisons += int(count)
        else:
            self._empty_comparisons += 1

    def fail(self, kind: Kind, message: str, *, sample: int | None = None) -> None:
        """Record a deviation of the target; all are counted, the first few and the first of each sort kept.

        Every kind is kept because an expectation excuses only the kinds that it names, and every shape of
        message, up to a limit, because a second defect must not hide behind the first.
        """
        self._failure_count += 1
        if sample is not None:
            self._failed_samples.add(int(sample))
        sort = (kind, message_shape(message, self.id.case.subject))
        few = len(self._failures) < MAX_FAILURES_KEPT
        new_kind = all(kind is not kept.kind for kept in self._failures)
        new_shape = sort not in self._shapes and len(self._shapes) < MAX_SHAPES_KEPT
        if few or new_kind or new_shape:
            self._shapes.add(sort)
            self._failures.append(
                Failure(kind, message[:MAX_MESSAGE], None if sample is None else int(sample))
            )
        if self.first_only:
            raise StopAtFirstFailure

    def note(self, text: str) -> None:
        """Record something worth reading that is not a deviation (e.g. a dtype that works although
        undeclared).
        """
        text = plain(text[:MAX_MESSAGE])
        if len(self._notes) < MAX_NOTES and text not in self._notes:
            self._notes.append(text)

    def unsupported(self, reason: str) -> None:
        """Record that the subject is declared unsupported and was refused with a clean error."""
        self._unsupported = reason
        self.note(reason)

    def vacuous(self, reason: str) -> None:
        """Record that the subject did not run in its mode, so that no comparison says anything about it."""
        self._vacuous = reason

    def idle(self, reason: str) -> None:
        """Record that nothing may be due for the result: if nothing is compared after all, it passes with a
        note that begins with :data:`CHECKED_NOTHING`.

        For subjects whose inputs decide what can be checked. Results that are idle on the CPU are not planned
        (``tools.generate.overload_table --idle``).
        """
        self._idle = self._idle or reason

    def left_out(self, dtypes: Iterable[str]) -> None:
        """Record that something was left out since it needs dtypes that the target does not declare.

        It is a note. If nothing at all is compared, the result is ``unsupported``, unless other samples are
        vacuous.
        """
        self._unclaimed.update(dtypes)

    def cut_off(self) -> None:
        """Record that the check ended at what was left out: the result is ``unsupported``."""
        self._cut_off = True

    @property
    def first_failure(self) -> str:
        """The message of the first deviation, empty if there is none."""
        return self._failures[0].message if self._failures else ""

    def trial(self) -> Recorder:
        """Return an empty recorder of the same result, for observations that may not count."""
        other = Recorder(self.id, seed=self.seed, about_emptiness=self.about_emptiness)
        other.lacking = self.lacking
        other.watch = self.watch
        return other

    @property
    def kinds(self) -> frozenset[Kind]:
        """The kinds of the deviations so far."""
        return frozenset(failure.kind for failure in self._failures)

    def only(self, kinds: Set[Kind]) -> Recorder:
        """Return a trial with this one's deviations of some kinds alone, and none of its comparisons."""
        other = self.trial()
        for failure in self._failures:
            if failure.kind in kinds:
                other.fail(failure.kind, failure.message, sample=failure.sample)
        return other

    def absorb(self, other: Recorder) -> None:
        """Count the observations of a trial."""
        self._comparisons += other._comparisons
        self._empty_comparisons += other._empty_comparisons
        for failure in other._failures:
            self.fail(failure.kind, failure.message, sample=failure.sample)
        self._failure_count += other._failure_count - len(other._failures)
        self._failed_samples |= other._failed_samples
        for note in other._notes:
            self.note(note)
        self._unsupported = self._unsupported or other._unsupported
        self._idle = self._idle or other._idle
        self._unclaimed |= other._unclaimed
        self._cut_off |= other._cut_off

    @property
    def samples_used(self) -> int:
        """Number of samples tried so far."""
        return self._samples_used

    def samples(self, used: int, available: int) -> None:
        """Add to the numbers of samples that were used and that exist."""
        self._samples_used += int(used)
        self._samples_available += int(available)

    def placement(self, placement: Placement) -> None:
        """Record the observed placement of the operator."""
        self._placement = placement

    def result(self) -> Result:
        """Return the result so far. It is ``vacuous`` if nothing was compared and nothing failed."""
        comparisons = self._comparisons + (self._empty_comparisons if self.about_emptiness else 0)
        failures = list(self._failures)
        count = self._failure_count
        if self._unclaimed:
            names = ", ".join(sorted(self._unclaimed))
            text = f"left out what needs {names}, which the target does not declare"
            if text not in self._notes:
                self._notes.insert(0, text)
        tried_in_vain = self._vacuous is not None and self._samples_used > 0
        nothing_left = comparisons == 0 and bool(self._unclaimed) and not tried_in_vain
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
            # A refusal that the target file declares has another reason.
            undeclared=sorted(self._unclaimed) if self._unsupported is None else [],
        )
