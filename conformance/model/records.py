"""The JSON objects of a run as types: journal events, result rows, legs, the results document.

They are TypedDicts and not dataclasses: a results file of 30,000 rows is checked against its schema once
(:mod:`conformance.results.document`) and then used as parsed. A base class with ``total=False`` declares the
keys that may be absent. The schema ``results.json`` declares the same types for readers in other languages.
"""

from __future__ import annotations

from typing import Literal, TypedDict

#: Digests by name (``suite``, ``target``, …). A leg that did not start lacks some of them.
Digests = dict[str, str | None]
#: Numbers of results by verdict, the worst verdict first; verdicts without a result are omitted.
Totals = dict[str, int]


# Result rows


class _FailureOptional(TypedDict, total=False):
    sample: int


class FailureRow(_FailureOptional):
    """One observed deviation: its kind, its message and, if a sample showed it, the index of that sample."""

    kind: str
    message: str


class SamplePattern(TypedDict):
    """A condition that the failing samples have in common.

    ``such`` samples meet the condition, and ``failed`` of them fail. None of the ``others``, which do not
    meet it, fails.
    """

    when: str
    failed: int
    such: int
    others: int


class ResultDetails(TypedDict, total=False):
    """The keys of a result that are omitted if they are empty or zero."""

    comparisons: int
    failure_count: int
    samples_used: int
    samples_available: int
    seed: int
    placement: str
    notes: list[str]
    failures: list[FailureRow]
    failed_samples: list[int]
    pattern: SamplePattern
    intermittent: bool
    undeclared: list[str]


class AttemptDetails(ResultDetails, total=False):
    """The details of one attempt."""

    attempt: int


class _ResultCore(TypedDict):
    id: str
    verdict: str
    seconds: float


class AttemptRow(_ResultCore, AttemptDetails):
    """One attempt at a result, as the journal records it."""


class _AttemptSummaryOptional(TypedDict, total=False):
    kinds: list[str]
    message: str


class AttemptSummary(_AttemptSummaryOptional):
    """One attempt of several in a result row; ``kinds`` and ``message`` only if it failed."""

    verdict: str
    attempt: int
    seconds: float


class ResultRow(_ResultCore, ResultDetails, total=False):
    """One result in a leg, with its final verdict; ``attempts`` only if it had several."""

    attempts: list[AttemptSummary]


# Parts of a leg


class Declared(TypedDict):
    """The declarations of the target file about what the device supports."""

    dtypes: list[str]
    capabilities: dict[str, bool]
    unsupported: dict[str, str]
    operators: dict[str, list[str]]
    hooks: list[str]


class _TargetOptional(TypedDict, total=False):
    simulated: bool
    untested: bool
    declared: Declared


class TargetRecord(_TargetOptional):
    """The target of a leg. Earlier versions of the suite did not write ``declared``."""

    name: str
    file: str
    device: str
    precision: str


class TorchFacts(TypedDict, total=False):
    """The build of torch that a leg ran on. A leg that did not start may have only part of these keys."""

    version: str
    revision: str | None
    kind: str
    evidence: list[str]
    abi: str
    wheel: str | None
    debug: bool


class BackendFacts(TypedDict):
    """The backend's package; each value but the module's name is None if the backend was not imported."""

    module: str | None
    version: str | None
    digest: str | None
    abi: str | None


class Facts(TypedDict, total=False):
    """The environment of a run. The schema leaves its contents open: a file from elsewhere may lack a key."""

    python: str
    platform: str
    torch: TorchFacts
    backend: BackendFacts
    environment: dict[str, str]
    extra: list[str]


class ExpectationRecord(TypedDict):
    """One expectation, and the numbers of matching results in each state.

    The results fail as declared (``fails``), pass (``passes``), end differently (``other``) or prove nothing
    (``unclear``). ``named`` is true if the entry names its modes; ``passing`` are the first ids that pass.
    """

    id: str
    kind: str
    source: str
    until: str
    reason: str
    link: str
    expired: bool
    named: bool
    fails: int
    passes: int
    other: int
    unclear: int
    passing: list[str]


class ExpectationReport(TypedDict):
    """The expectations that apply to a leg; they are ``judged`` only if the leg is unrestricted and
    complete.
    """

    judged: bool
    problems: list[str]
    entries: list[ExpectationRecord]


class Missing(TypedDict):
    """Planned results that a leg does not have: their number and the first ids."""

    count: int
    first: list[str]


class OracleCheck(TypedDict):
    """Reference values that were recomputed without the backend: their number, and a sentence for each
    difference.
    """

    checked: int
    differences: list[str]


class OracleValue(TypedDict):
    """One reference value: the operator, the index of its sample, and the digest of the value."""

    operator: str
    dtype: str
    index: int
    digest: str


# Legs and documents


class _LegHead(TypedDict):
    """The keys that a leg copies from the header of its journal."""

    name: str
    mode: str
    target: TargetRecord
    level: str
    shard: str
    selection: str | None
    samples: str
    started: str
    workers: int
    facts: Facts
    digests: Digests
    left_out: int


class _LegOptional(TypedDict, total=False):
    expectations: ExpectationReport


class Leg(_LegHead, _LegOptional):
    """One mode of one target on one build of torch. Version 2 of the schema had no ``expectations``."""

    build: str
    torch: str
    seconds: float
    exit: int
    complete: bool
    problems: list[str]
    missing: Missing
    planned: int
    totals: Totals
    case_totals: Totals
    cases: dict[str, str]
    oracle: OracleCheck
    results: list[ResultRow]


class Document(TypedDict):
    """``results.json``: the legs of a run, with the exit code and totals of all of them."""

    schema: int
    suite: str
    exit: int
    complete: bool
    totals: Totals
    legs: list[Leg]


# Plans, and the output of the process that brings a target up

#: Kind, property, subject, and the index of the case's dtype list in the plan.
PlannedCase = tuple[str, str, str, int]


class PlanTable(TypedDict):
    """A plan as JSON: lists of dtypes, and cases that name them by number."""

    dtypes: list[list[str]]
    cases: list[PlannedCase]


class Prepared(TypedDict):
    """A target that was brought up: its facts, the plan of the level, and the plan of level full in all
    modes.

    ``here`` are pairs of kind and name: the properties of the mode.
    """

    facts: Facts
    plan: PlanTable
    full: PlanTable
    here: list[tuple[str, str]]


class ResultNames(TypedDict):
    """The plan of level full by mode. The target need not be brought up."""

    names: dict[str, PlanTable]


# Journal events


class _RunOptionsOptional(TypedDict, total=False):
    profile: bool


class RunOptions(_RunOptionsOptional):
    """The options of a run that its journal keeps, so that the run can be resumed."""

    target: str
    modes: list[str]
    extra: list[str]
    timeout: float
    part: bool
    ranks: int


class _HeaderOptional(TypedDict, total=False):
    reach: dict[str, int]


class Header(_LegHead, _HeaderOptional):
    """The first event of a journal: the options of the run, the target, and digests of both.

    ``reach`` is the number of results in the mode that each expectation with a wildcard matches.
    """

    options: RunOptions


class RunEvent(Header):
    """A run started."""

    event: Literal["run"]


class PlanEvent(PlanTable):
    """The planned results."""

    event: Literal["plan"]


class RoundFields(TypedDict):
    """The fields of ``round``."""

    number: int
    attempt: int
    workers: int
    results: int


class RoundEvent(RoundFields):
    """A round of worker processes started."""

    event: Literal["round"]


class _ResumeOptional(TypedDict, total=False):
    started: str


class ResumeFields(_ResumeOptional):
    """The fields of ``resume``."""

    failed: bool


class ResumeEvent(ResumeFields):
    """A run was resumed; ``failed`` means that its failures are rerun."""

    event: Literal["resume"]


class WorkerFields(TypedDict):
    """The fields of ``worker``."""

    worker: str
    pid: int


class WorkerEvent(WorkerFields):
    """A worker started."""

    event: Literal["worker"]


class WorkerEndFields(TypedDict):
    """The fields of ``worker-end``."""

    worker: str
    reason: str


class WorkerEndEvent(WorkerEndFields):
    """A worker reported that it ends."""

    event: Literal["worker-end"]


class DtypeFields(TypedDict):
    """The fields of ``dtype``."""

    worker: str
    id: str
    attempt: int


class DtypeEvent(DtypeFields):
    """A worker started a result."""

    event: Literal["dtype"]


class ResultFields(TypedDict):
    """The fields of ``result``."""

    worker: str
    result: AttemptRow


class ResultEvent(ResultFields):
    """A worker finished a result, or the runner recorded the result of a lost worker."""

    event: Literal["result"]


class TimeFields(TypedDict):
    """The fields of ``time``: the start of a result in seconds since 1970, its duration, and the duration by
    phase.
    """

    worker: str
    id: str
    kind: str
    began: float
    seconds: float
    phases: dict[str, float]


class TimeEvent(TimeFields):
    """The duration of a result; written with ``--profile``."""

    event: Literal["time"]


class _ProbeOptional(TypedDict, total=False):
    message: str


class ProbeFields(_ProbeOptional):
    """The fields of ``probe``."""

    worker: str
    id: str
    state: Literal["start", "ok", "failed"]
    attempt: int


class ProbeEvent(ProbeFields):
    """A worker started the known-answer probe after a result that did not pass, or finished it."""

    event: Literal["probe"]


class OracleFields(TypedDict):
    """The fields of ``oracle``."""

    op: str
    dtype: str
    index: int
    digest: str


class _OracleOptional(TypedDict, total=False):
    operator: str  # the name of ``op`` in journals of earlier versions


class OracleEvent(OracleFields, _OracleOptional):
    """The reference of a sample was computed."""

    event: Literal["oracle"]


class OracleCheckEvent(OracleCheck):
    """Reference values were recomputed without the backend."""

    event: Literal["oracle-check"]


class ProblemFields(TypedDict):
    """The fields of ``problem``."""

    message: str


class ProblemEvent(ProblemFields):
    """A problem that does not belong to any result."""

    event: Literal["problem"]


class InterruptedEvent(TypedDict):
    """The user stopped the run."""

    event: Literal["interrupted"]


class _EndOptional(TypedDict, total=False):
    complete: bool


class EndFields(_EndOptional):
    """The fields of ``end``."""

    seconds: float


class EndEvent(EndFields):
    """A run ended."""

    event: Literal["end"]


class LostFields(TypedDict):
    """The fields of ``lost``."""

    worker: str


class LostEvent(LostFields):
    """The runner recorded a worker that ended without an event."""

    event: Literal["lost"]


Event = (
    RunEvent
    | PlanEvent
    | RoundEvent
    | ResumeEvent
    | WorkerEvent
    | WorkerEndEvent
    | DtypeEvent
    | ResultEvent
    | TimeEvent
    | ProbeEvent
    | OracleEvent
    | OracleCheckEvent
    | ProblemEvent
    | InterruptedEvent
    | EndEvent
    | LostEvent
)
