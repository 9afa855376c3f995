"""The words of the suite as types: verdicts, kinds of failure, results and their ids."""

from __future__ import annotations

import dataclasses
import enum
import zlib

from conformance.model.records import AttemptDetails, AttemptRow, FailureRow, SamplePattern


class Verdict(str, enum.Enum):
    """Verdict of one result. The order of declaration is the order in which a case shows its worst."""

    CRASH = "crash"
    TIMEOUT = "timeout"
    ERROR = "error"
    FAIL = "fail"
    VACUOUS = "vacuous"
    XPASS = "xpass"
    FLAKY = "flaky"
    XFAIL = "xfail"
    UNSUPPORTED = "unsupported"
    SKIP = "skip"
    PASS = "pass"

    @property
    def unexpected(self) -> bool:
        """Return True if this verdict makes a run exit with 1."""
        return self in _UNEXPECTED

    @staticmethod
    def worst(verdicts: list[Verdict]) -> Verdict:
        """The verdict that a case shows for its results; an empty case is vacuous."""
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


class Kind(str, enum.Enum):
    """Kind of a failure: what an expectation must name besides the result."""

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
    """The place in which an operator ran."""

    NATIVE = "native"
    COMPOSITE = "composite"
    FALLBACK = "fallback"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclasses.dataclass(frozen=True, order=True)
class CaseId:
    """``property/subject``: one pytest item."""

    property: str
    subject: str

    def __str__(self) -> str:
        return f"{self.property}/{self.subject}"

    @staticmethod
    def parse(text: str) -> CaseId:
        """Read ``property/subject``; ValueError for anything else."""
        name, slash, subject = text.partition("/")
        if not slash or not name or not subject:
            raise ValueError(f"case id {text!r} is not of the form property/subject, e.g. value/add")
        return CaseId(name, subject)


@dataclasses.dataclass(frozen=True, order=True)
class ResultId:
    """``property/subject[.variant]@dtype``: the unit of verdicts, expectations, levels, diffs and totals.

    A property that does not vary with the dtype uses the dtype word ``any``.
    """

    case: CaseId
    dtype: str

    def __str__(self) -> str:
        return f"{self.case}@{self.dtype}"

    @staticmethod
    def parse(text: str) -> ResultId:
        """Read ``property/subject@dtype``; ValueError for anything else."""
        case, at, dtype = text.rpartition("@")
        if not at or not dtype:
            raise ValueError(
                f"result id {text!r} is not of the form property/subject@dtype, e.g. value/add@float32"
            )
        return ResultId(CaseId.parse(case), dtype)


def plain(text: str) -> str:
    """Text that any terminal and file can take: control characters and half characters as escapes."""
    if text.isprintable():
        return text
    kept = "".join(
        c if c in "\n\t" or ord(c) >= 0xA0 or " " <= c <= "~" else f"\\x{ord(c):02x}" for c in text
    )
    return kept.encode("utf-8", "backslashreplace").decode()


@dataclasses.dataclass
class Failure:
    """One observed deviation. ``sample`` is the index of the sample that showed it."""

    kind: Kind
    message: str
    sample: int | None = None

    def __post_init__(self) -> None:
        self.message = plain(self.message)

    def to_json(self) -> FailureRow:
        """A JSON object; without ``sample`` if no sample showed it."""
        row: FailureRow = {"kind": self.kind.value, "message": self.message}
        if self.sample is not None:
            row["sample"] = self.sample
        return row


@dataclasses.dataclass
class Result:
    """The findings of one property about one subject in one dtype.

    ``comparisons`` counts compared elements or facts; ``failures`` keeps the first few of ``failure_count``;
    ``failed_samples`` are the indices of all samples that showed one, ascending.
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
    #: What the samples that fail have in common, if that is known.
    pattern: SamplePattern | None = None
    #: It failed, and ended in another way when it ran once more at once.
    intermittent: bool = False
    #: Dtypes that the target does not declare and for which something was left out.
    undeclared: list[str] = dataclasses.field(default_factory=list)

    def to_json(self) -> AttemptRow:
        """A JSON object with plain strings and numbers only; empty fields are left out."""
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
        # The order of the keys is that of the file.
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
        return row

    @staticmethod
    def from_json(data: AttemptRow) -> Result:
        """The inverse of :meth:`to_json`; raises KeyError or ValueError on anything else."""
        return Result(
            id=ResultId.parse(data["id"]),
            verdict=Verdict(data["verdict"]),
            comparisons=data.get("comparisons", 0),
            failure_count=data.get("failure_count", 0),
            failures=[
                Failure(Kind(f["kind"]), f["message"], f.get("sample")) for f in data.get("failures", [])
            ],
            failed_samples=list(data.get("failed_samples", [])),
            pattern=data.get("pattern"),
            intermittent=data.get("intermittent", False),
            undeclared=list(data.get("undeclared", [])),
            notes=list(data.get("notes", [])),
            samples_used=data.get("samples_used", 0),
            samples_available=data.get("samples_available", 0),
            placement=Placement(data["placement"]) if "placement" in data else None,
            seconds=data.get("seconds", 0.0),
            seed=data.get("seed", 0),
            attempt=data.get("attempt", 1),
        )


def seed_of(subject: str, dtype: str) -> int:
    """The seed of everything random about a subject in a dtype: the same on every worker, shard and retry."""
    return zlib.crc32(f"{subject}@{dtype}".encode())
