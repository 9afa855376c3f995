"""The types of results: ids, verdicts, failure kinds and placements."""

from __future__ import annotations

import dataclasses
import enum

from conformance.model import seeds
from conformance.model.records import AttemptDetails, AttemptRow, FailureRow, SamplePattern


class Verdict(str, enum.Enum):
    """The verdict of one result. The verdict of a case is the first verdict in this list that occurs among
    the results of the case.
    """

    CRASH = "crash"
    TIMEOUT = "timeout"
    ERROR = "error"
    FAIL = "fail"
    VACUOUS = "vacuous"
    XPASS = "xpass"
    FLAKY = "flaky"
    XFAIL = "xfail"
    PARITY = "parity"
    UNSUPPORTED = "unsupported"
    SKIP = "skip"
    PASS = "pass"

    @property
    def unexpected(self) -> bool:
        """Return True if this verdict makes a run exit with 1."""
        return self in _UNEXPECTED

    @staticmethod
    def worst(verdicts: list[Verdict]) -> Verdict:
        """Return the verdict of a case from the verdicts of its results. A case without results is
        vacuous.
        """
        order = list(Verdict)
        return min(verdicts, key=order.index) if verdicts else Verdict.VACUOUS


_UNEXPECTED = frozenset(
    {
        Verdict.CRASH,
        Verdict.TIMEOUT,
        Verdict.ERROR,
        Verdict.FAIL,
        Verdict.VACUOUS,
        Verdict.XPASS,
        Verdict.FLAKY,
    }
)


class Basis(str, enum.Enum):
    """The ground on which a check demands something of a device.

    ``DOCUMENTED``: a page of PyTorch's documentation states the requirement. ``CONSISTENCY``: two answers of
    the device must agree with each other. ``PARITY``: the device differs from the CPU, and no page states
    which of the two is right.
    """

    DOCUMENTED = "documented"
    CONSISTENCY = "consistency"
    PARITY = "parity"


class Kind(str, enum.Enum):
    """The kind of a failure. An expectation declares a result id and a failure kind."""

    VALUE = "value"
    METADATA = "metadata"
    ALIASING = "aliasing"
    DTYPE = "dtype"
    ERROR_TYPE = "error-type"
    MESSAGE = "message"
    REFUSED = "refused"
    EXCEPTION = "exception"
    PLACEMENT = "placement"
    STATE = "state"
    CRASH = "crash"
    TIMEOUT = "timeout"
    VACUOUS = "vacuous"
    HARNESS = "harness"


class Placement(str, enum.Enum):
    """The processor and kernel that ran an operator."""

    NATIVE = "native"
    COMPOSITE = "composite"
    FALLBACK = "fallback"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclasses.dataclass(frozen=True, order=True)
class CaseId:
    """The id of a case: ``property/subject``. Each case is one pytest item."""

    property: str
    subject: str

    def __str__(self) -> str:
        return f"{self.property}/{self.subject}"

    @staticmethod
    def parse(text: str) -> CaseId:
        """Parse ``property/subject``; raise ValueError for any other text."""
        name, slash, subject = text.partition("/")
        if not slash or not name or not subject:
            raise ValueError(f"case id {text!r} is not of the form property/subject, e.g. value/add")
        return CaseId(name, subject)


@dataclasses.dataclass(frozen=True, order=True)
class ResultId:
    """The id of a result: ``property/subject[.variant]@dtype``.

    The dtype is ``any`` if the property does not depend on the dtype.
    """

    case: CaseId
    dtype: str

    def __str__(self) -> str:
        return f"{self.case}@{self.dtype}"

    @staticmethod
    def parse(text: str) -> ResultId:
        """Parse ``property/subject@dtype``; raise ValueError for any other text."""
        case, at, dtype = text.rpartition("@")
        if not at or not dtype:
            raise ValueError(
                f"result id {text!r} is not of the form property/subject@dtype, e.g. value/add@float32"
            )
        return ResultId(CaseId.parse(case), dtype)


def printable(text: str) -> str:
    """Return a text that every terminal and file can display, with control characters and lone surrogates
    escaped.
    """
    if text.isprintable():
        return text
    escaped = "".join(
        c if c in "\n\t" or ord(c) >= 0xA0 or " " <= c <= "~" else f"\\x{ord(c):02x}" for c in text
    )
    return escaped.encode("utf-8", "backslashreplace").decode()


@dataclasses.dataclass
class Failure:
    """One recorded deviation. ``sample`` is the index of the sample that showed the deviation, and ``basis``
    is the ground of the check that recorded it.
    """

    kind: Kind
    message: str
    sample: int | None = None
    basis: Basis = Basis.DOCUMENTED

    def __post_init__(self) -> None:
        self.message = printable(self.message)

    def to_json(self) -> FailureRow:
        """Return a JSON object, without ``sample`` if no sample showed the deviation, and without ``basis``
        if it is ``documented``.
        """
        row: FailureRow = {"kind": self.kind.value, "message": self.message}
        if self.basis is not Basis.DOCUMENTED:
            row["basis"] = self.basis.value
        if self.sample is not None:
            row["sample"] = self.sample
        return row


@dataclasses.dataclass
class Result:
    """The result of one property for one subject in one dtype.

    ``comparisons`` is the number of compared elements and facts. ``failure_count`` is the number of
    deviations, of which ``failures`` keeps the first few. ``failed_samples`` lists the indices of all samples
    that showed a deviation, in ascending order.
    """

    id: ResultId
    verdict: Verdict
    comparisons: int = 0
    failure_count: int = 0
    failures: list[Failure] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)
    samples_used: int = 0
    samples_available: int = 0
    placement: Placement | None = None
    seconds: float = 0.0
    seed: int = 0
    attempt: int = 1
    failed_samples: list[int] = dataclasses.field(default_factory=list)
    #: A condition that the failing samples have in common, if one was found.
    pattern: SamplePattern | None = None
    #: True if the result failed and an immediate rerun ended differently.
    intermittent: bool = False
    #: Undeclared dtypes for which a part of the check was omitted.
    undeclared: list[str] = dataclasses.field(default_factory=list)
    #: The id of the result because of which this result did not run.
    blocked_by: str = ""

    def to_json(self) -> AttemptRow:
        """Return a JSON object of strings and numbers; empty fields are omitted."""
        numbers: AttemptDetails = {}
        if self.comparisons:
            numbers["comparisons"] = self.comparisons
        if self.failure_count:
            numbers["failure_count"] = self.failure_count
        if self.notes:
            numbers["notes"] = self.notes
        if self.samples_used:
            numbers["samples_used"] = self.samples_used
        if self.samples_available:
            numbers["samples_available"] = self.samples_available
        if self.seed:
            numbers["seed"] = self.seed
        if self.attempt:
            numbers["attempt"] = self.attempt
        # The keys are in the order of the results file.
        row: AttemptRow = {
            "id": str(self.id),
            "verdict": self.verdict.value,
            **numbers,
            "seconds": round(self.seconds, 4),
        }
        if self.placement is not None:
            row["placement"] = self.placement.value
        if self.failures:
            row["failures"] = [failure.to_json() for failure in self.failures]
        if self.failed_samples:
            row["failed_samples"] = self.failed_samples
        if self.pattern is not None:
            row["pattern"] = self.pattern
        if self.intermittent:
            row["intermittent"] = True
        if self.undeclared:
            row["undeclared"] = self.undeclared
        if self.blocked_by:
            row["blocked_by"] = self.blocked_by
        return row

    @staticmethod
    def from_json(data: AttemptRow) -> Result:
        """Return a result from its JSON object; raise KeyError or ValueError for any other object."""
        return Result(
            id=ResultId.parse(data["id"]),
            verdict=Verdict(data["verdict"]),
            comparisons=data.get("comparisons", 0),
            failure_count=data.get("failure_count", 0),
            failures=[
                Failure(Kind(f["kind"]), f["message"], f.get("sample"), Basis(f.get("basis", "documented")))
                for f in data.get("failures", [])
            ],
            failed_samples=list(data.get("failed_samples", [])),
            pattern=data.get("pattern"),
            intermittent=data.get("intermittent", False),
            undeclared=list(data.get("undeclared", [])),
            blocked_by=data.get("blocked_by", ""),
            notes=list(data.get("notes", [])),
            samples_used=data.get("samples_used", 0),
            samples_available=data.get("samples_available", 0),
            placement=Placement(data["placement"]) if "placement" in data else None,
            seconds=data.get("seconds", 0.0),
            seed=data.get("seed", 0),
            attempt=data.get("attempt", 1),
        )


def seed_of(subject: str, dtype: str, run: int | None = None) -> int:
    """Return the seed for a subject in a dtype, the same in every worker, shard and retry of a run."""
    return seeds.seed_for(f"{subject}@{dtype}", run)
