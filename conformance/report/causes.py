"""Group unexpected results by cause, so that a broken allocator is not reported as four thousand bugs.

Results with equal failure kind and equal message pattern are candidates for one cause:

* A missing kernel is one cause, even if many operators call it. An undeclared capability is one cause too
  (``blocked_by``).
* If the message quotes an error of the target, or reports that an error is missing, the message pattern alone
  identifies the cause.
* Other messages, such as wrong values, are split by property family and operator family. A property family
  stays one cause if most of its subjects that ran fail in this way: a single operator then is not the cause.
* Wrong values of one operator family in one mode are one cause, even if different calls fail. Wrong shapes,
  and wrong devices, of one operator family in one mode are one cause too. Such a cause is split if its
  failing samples follow different patterns.
* If calls do not resize an ``out=`` tensor without elements, this is one cause, even for many operators.
"""

from __future__ import annotations

import collections
import dataclasses
import re
from collections.abc import Iterable, Sequence

from conformance.model.messages import (
    failed_prerequisite,
    identifies_cause,
    is_about_wrong_values,
    message_pattern,
    missing_kernel,
)
from conformance.model.records import Leg, ResultRow
from conformance.model.verdicts import Kind, ResultId, Verdict
from conformance.report.families import operator_family, property_family

_ORDER = list(Verdict)
#: Failure kinds whose messages have the same pattern for different causes.
_KINDS_WITH_UNIFORM_MESSAGES = frozenset(
    kind.value for kind in (Kind.VALUE, Kind.METADATA, Kind.ALIASING, Kind.DTYPE, Kind.MESSAGE, Kind.STATE)
)
_WRONG_VALUES = "wrong values"
_WRONG_DEVICE = "a result on a wrong device"
_WRONG_SHAPE = "a result of a wrong shape"
_NOT_RESIZED = "an out= without elements is not resized"
_MISSING_KERNEL = "missing kernel"
_CAPABILITY = "undeclared capability"
_ON_DEVICE = re.compile(r" is on device \S+, expected ")
_OF_SHAPE = re.compile(r" has shape \[[^]]*\], expected ")
_EMPTY_OUT = re.compile(r"\bout=.* has shape \[0\], expected ")
#: A property family is one cause if the same failure occurs in at least ``_MANY_FAMILIES`` operator families
#: and in at least the share ``_MIN_FAILING_SHARE`` of the subjects that ran.
_MANY_FAMILIES = 4
_MIN_FAILING_SHARE = 0.5


@dataclasses.dataclass
class Cause:
    """Unexpected results with one presumed cause. ``rows`` are pairs of leg index and result row."""

    kind: str
    shape: str
    rows: list[tuple[int, ResultRow]]

    @property
    def count(self) -> int:
        """The number of results."""
        return len(self.rows)

    @property
    def example(self) -> tuple[int, ResultRow]:
        """The result to inspect first: with the worst verdict and, if possible, not blocked by a basic
        result.
        """
        return min(self.rows, key=lambda pair: (severity_rank(pair[1]), is_blocked_by_result(pair[1])))

    @property
    def blocked_count(self) -> int:
        """The number of results that a more basic result blocks."""
        return sum(is_blocked_by_result(row) for _, row in self.rows)

    @property
    def subjects(self) -> list[str]:
        """The subjects, in the order of their rows."""
        return list(dict.fromkeys(ResultId.parse(row["id"]).case.subject for _, row in self.rows))

    @property
    def families(self) -> list[str]:
        """The operator families of the subjects."""
        return list(dict.fromkeys(map(operator_family, self.subjects)))

    @property
    def leg_indexes(self) -> list[int]:
        """The indexes of the legs that contain results of this cause."""
        return sorted({number for number, _ in self.rows})

    def verdict_counts_text(self) -> str:
        """Return the number of results by verdict, the worst first."""
        by_verdict = collections.Counter(row["verdict"] for _, row in self.rows)
        return ", ".join(
            f"{by_verdict[verdict.value]} {verdict.value}" for verdict in _ORDER if by_verdict[verdict.value]
        )

    def sample_pattern_sentence(self) -> str:
        """Return a sentence about the failing samples, or an empty text without a common pattern."""
        patterns = [row["pattern"] for _, row in self.rows if "pattern" in row]
        if not patterns or len({pattern["when"] for pattern in patterns}) > 1:
            return ""
        failed, matching_samples = (
            sum(pattern["failed"] for pattern in patterns),
            sum(pattern["such"] for pattern in patterns),
        )
        other_samples = sum(pattern["others"] for pattern in patterns)
        when = patterns[0]["when"]
        if when.startswith("not: "):
            return (
                f"fails in 0 of {other_samples:,} samples in which {when[5:]}, and in {failed:,} of "
                f"{matching_samples:,} others"
            )
        return (
            f"fails in {failed:,} of {matching_samples:,} samples in which {when}, and in 0 of "
            f"{other_samples:,} others"
        )

    def name(self) -> str:
        """Return a short name of the failing part: a prerequisite of the suite, or the subjects."""
        if named := failed_prerequisite(self.shape):
            return named
        if self.kind in (_MISSING_KERNEL, _CAPABILITY):
            return self.shape
        subjects = self.subjects
        if len(subjects) == 1:
            return subjects[0]
        if len(self.families) == 1:
            return f"{self.families[0]}, {len(subjects)} subjects"
        return f"{len(subjects)} subjects"


def severity_rank(row: ResultRow) -> int:
    """Return the rank of a row's verdict by severity. 0 is the worst."""
    return _ORDER.index(Verdict(row["verdict"]))


def is_blocked_by_result(row: ResultRow) -> bool:
    """Return True if a more basic result of the same subject blocks a result."""
    return "/" in row.get("blocked_by", "")


def kind_and_message(row: ResultRow) -> tuple[str, str]:
    """Return the kind and the message of a row's first failure.

    If the row has no failures, return its verdict and its last note.
    """
    if row.get("failures"):
        return row["failures"][0]["kind"], row["failures"][0]["message"]
    return row["verdict"], (row.get("notes") or [""])[-1]


def causes_of(legs: Sequence[Leg]) -> list[Cause]:
    """Return the causes of all unexpected results of the legs, the largest first."""
    unexpected = (
        (number, row)
        for number, leg in enumerate(legs)
        for row in leg["results"]
        if Verdict(row["verdict"]).unexpected
    )
    return group_by_cause(unexpected, legs)


def group_by_cause(rows: Iterable[tuple[int, ResultRow]], legs: Sequence[Leg]) -> list[Cause]:
    """Group rows by cause, the largest cause first.

    Args:
        rows: pairs of leg index and result row.
        legs: all legs, to count the subjects that ran.
    """
    by_shape: dict[tuple[str, str], list[tuple[int, ResultRow]]] = {}
    keys_to_split: set[tuple[str, str]] = set()
    for number, row in rows:
        kind, message = kind_and_message(row)
        if (blocked_by := row.get("blocked_by", "")).startswith("capability "):
            by_shape.setdefault((_CAPABILITY, blocked_by), []).append((number, row))
            continue
        if kernel := missing_kernel(message):
            by_shape.setdefault((_MISSING_KERNEL, f"kernel {kernel}"), []).append((number, row))
            continue
        shape = _message_pattern(kind, message, ResultId.parse(row["id"]).case.subject)
        # An error of the target is one cause, whether a check treated it as a refusal or as an exception.
        same = kind == Kind.REFUSED.value and identifies_cause(message)
        key = Kind.EXCEPTION.value if same else kind, shape
        by_shape.setdefault(key, []).append((number, row))
        if (
            kind in _KINDS_WITH_UNIFORM_MESSAGES
            and not identifies_cause(message)
            and shape != _NOT_RESIZED
            and row["verdict"] != Verdict.XPASS.value
        ):
            keys_to_split.add(key)
    ran = _subjects_that_ran(legs)
    groups = []
    for (kind, shape), members in by_shape.items():
        parts = _split_by_family(members, ran) if (kind, shape) in keys_to_split else [members]
        if shape in (_WRONG_VALUES, _WRONG_DEVICE, _WRONG_SHAPE):
            parts = _merge_by_operator_family(parts)
        groups += [Cause(kind, shape, part) for part in parts]
    return sorted(groups, key=lambda group: (-group.count, severity_rank(group.example[1])))


def _message_pattern(kind: str, message: str, subject: str) -> str:
    if kind == Kind.VALUE.value and is_about_wrong_values(message):
        return _WRONG_VALUES
    if kind == Kind.METADATA.value and _ON_DEVICE.search(message):
        return _WRONG_DEVICE
    if kind == Kind.METADATA.value and _EMPTY_OUT.search(message):
        return _NOT_RESIZED
    if kind == Kind.METADATA.value and _OF_SHAPE.search(message):
        return _WRONG_SHAPE
    return message_pattern(message, subject)


def _merge_by_operator_family(
    parts: Iterable[list[tuple[int, ResultRow]]],
) -> list[list[tuple[int, ResultRow]]]:
    """Merge groups with equal operator family, mode and sample pattern.

    A group with several operator families stays unchanged.
    """
    merged: dict[object, list[tuple[int, ResultRow]]] = {}
    for part in parts:
        families = {operator_family(ResultId.parse(row["id"]).case.subject) for _, row in part}
        if len(families) > 1:
            merged[id(part)] = part
            continue
        (family,) = families
        for number, row in part:
            mode, line, _ = ResultId.parse(row["id"]).case.property.partition("_")
            pattern = row["pattern"]["when"] if "pattern" in row else ""
            merged.setdefault((family, mode if line else "", pattern), []).append((number, row))
    return list(merged.values())


def _split_by_family(
    members: list[tuple[int, ResultRow]], ran: dict[tuple[int, str], set[str]]
) -> list[list[tuple[int, ResultRow]]]:
    """Split rows with one message pattern by family.

    Property families in which most subjects fail stay together as one group.
    """
    by_property: dict[str, dict[str, list[tuple[int, ResultRow]]]] = {}
    for number, row in members:
        case = ResultId.parse(row["id"]).case
        families = by_property.setdefault(property_family(case.property), {})
        families.setdefault(operator_family(case.subject), []).append((number, row))
    common: list[tuple[int, ResultRow]] = []
    parts = []
    for name, families in by_property.items():
        inside = [pair for family in families.values() for pair in family]
        failing = {(number, ResultId.parse(row["id"]).case.subject) for number, row in inside}
        ran_count = sum(len(ran[(number, name)]) for number in {number for number, _ in inside})
        if len(families) >= _MANY_FAMILIES and len(failing) >= _MIN_FAILING_SHARE * ran_count:
            common += inside
        else:
            parts += list(families.values())
    return [common, *parts] if common else parts


def _subjects_that_ran(legs: Sequence[Leg]) -> dict[tuple[int, str], set[str]]:
    """Return the subjects that ran, by leg index and property family."""
    subjects: dict[tuple[int, str], set[str]] = collections.defaultdict(set)
    for number, leg in enumerate(legs):
        for case in leg["cases"]:
            name, _, subject = case.partition("/")
            subjects[(number, property_family(name))].add(subject)
    return subjects
