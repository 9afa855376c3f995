"""The types of the JSON objects of a run: journal events, result rows, legs, the results document.

The types are TypedDicts, because :mod:`conformance.results.document` validates a results file of 30,000 rows
against its schema once and then uses the parsed JSON without a conversion. A base class with ``total=False``
declares the keys that may be absent. The schema ``results.json`` declares the same types for readers in other
languages.
"""

from __future__ import annotations

from typing import Literal, TypedDict

#: Digests by name (``suite``, ``target``, …). A leg that did not start has only some of the digests.
Digests = dict[str, str | None]
#: Numbers of results by verdict, the worst verdict first; verdicts without a result are omitted.
Totals = dict[str, int]


# Result rows


class _FailureOptional(TypedDict, total=False):
    sample: int
    basis: str


class FailureRow(_FailureOptional):
    """One recorded deviation: the failure kind, the message and, if a sample showed the deviation, the index
    of the sample. ``basis`` is a value of ``conformance.model.verdicts.Basis``; a deviation without ``basis``
    contradicts a page of the documentation.
    """

    kind: str
    message: str


class SamplePattern(TypedDict):
    """A condition that the failing samples have in common.

    ``when`` is the condition. ``such`` is the number of samples that meet it, and ``failed`` is the number of
    failing samples among them. ``others`` is the number of samples that do not meet it; all of these pass.
    """

    when: str
    failed: int
    such: int
    others: int


class ResultDetails(TypedDict, total=False):
    """The keys of a result that the JSON object omits if their values are empty or zero.

    ``blocked_by`` names what must be fixed first: a prerequisite, a kernel, an undeclared capability, or
    another result.
    """

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
    blocked_by: str


class AttemptDetails(ResultDetails, total=False):
    """The keys of an attempt that the JSON object omits if their values are empty or zero."""

    attempt: int


class _ResultCore(TypedDict):
    id: str
    verdict: str
    seconds: float


class AttemptRow(_ResultCore, AttemptDetails):
    """One attempt at a result, as the journal records it."""


class _AttemptSummaryOptional(TypedDict, total=False):
    kinds: list[str]
    bases: list[str]
    message: str


class AttemptSummary(_AttemptSummaryOptional):
    """One of several attempts in a result row. Only a failed attempt has ``kinds``, ``bases`` and
    ``message``.
    """

    verdict: str
    attempt: int
    seconds: float


class ResultRow(_ResultCore, ResultDetails, total=False):
    """One result in a leg, with its final verdict. Only a result with several attempts has ``attempts``."""

    attempts: list[AttemptSummary]


# Parts of a leg


class TargetDeclarations(TypedDict):
    """The declarations of the target file about what the device supports."""

    dtypes: list[str]
    capabilities: dict[str, bool]
    unsupported: dict[str, str]
    operators: dict[str, list[str]]
    hooks: list[str]


class _TargetOptional(TypedDict, total=False):
    simulated: bool
    untested: bool
    declared: TargetDeclarations


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
    """The backend's package. If the backend was not imported, all values except ``module`` are None."""

    module: str | None
    version: str | None
    digest: str | None
    abi: str | None


class Facts(TypedDict, total=False):
    """The environment of a run. The schema does not require any of these keys, so a results file that a
    different program wrote may not have all of them.
    """

    python: str
    platform: str
    torch: TorchFacts
    backend: BackendFacts
    environment: dict[str, str]
    extra: list[str]


class ExpectationRecord(TypedDict):
    """One expectation, and the numbers of matching results in each state.

    Matching results fail as declared (``fails``), pass (``passes``), have a different verdict or failure kind
    (``other``), or are inconclusive (``unclear``). ``named`` is true if the expectation lists its modes.
    ``passing`` lists the first ids that pass.
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
    """The expectations that apply to a leg. ``judged`` is true only if the leg is unrestricted and complete;
    otherwise the suite does not report stale expectations.
    """

    judged: bool
    problems: list[str]
    entries: list[ExpectationRecord]


class MissingResults(TypedDict):
    """Planned results that are missing in a leg: their number and the first ids."""

    count: int
    first: list[str]


class OracleCheck(TypedDict):
    """The check of reference values in processes without the backend: the number of recomputed values, and a
    sentence for each value that differs.
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
    parity: str
    seed: int


class Leg(_LegHead, _LegOptional):
    """One mode of one target on one build of torch. Version 2 of the schema had no ``expectations``.

    ``parity`` is one of :data:`conformance.model.vocabulary.PARITY`. ``seed`` is the seed of the run. Legs
    that an earlier version of the suite wrote have neither key.
    """

    build: str
    torch: str
    seconds: float
    exit: int
    complete: bool
    problems: list[str]
    missing: MissingResults
    planned: int
    totals: Totals
    case_totals: Totals
    cases: dict[str, str]
    oracle: OracleCheck
    results: list[ResultRow]


class Document(TypedDict):
    """``results.json``: the legs of a run, with the exit code and the totals of all legs."""

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
    """A plan as JSON: lists of dtypes, and cases. A case refers to its list of dtypes by index."""

    dtypes: list[list[str]]
    cases: list[PlannedCase]


class BringUpOutput(TypedDict):
    """The output of the process that brings a target up.

    ``facts`` describes the environment, ``plan`` is the plan of the level, and ``full`` is the plan of level
    full in all modes. ``here`` lists the properties of the mode as pairs of subject kind and name.
    """

    facts: Facts
    plan: PlanTable
    full: PlanTable
    here: list[tuple[str, str]]


class ResultNames(TypedDict):
    """The plan of level full for each mode. The plan can be built without bringing the target up."""

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
    parity: str
    seed: int


class Header(_LegHead, _HeaderOptional):
    """The fields of a journal's first event: the options of the run, the target, and digests.

    ``reach`` maps each expectation pattern with a wildcard to the number of results in the mode that match.
    """

    options: RunOptions


class RunEvent(Header):
    """A run started."""

    event: Literal["run"]


class PlanEvent(PlanTable):
    """The planned results."""

    event: Literal["plan"]


class RoundFields(TypedDict):
    """The fields of the journal event ``round``."""

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
    """The fields of the journal event ``resume``."""

    failed: bool


class ResumeEvent(ResumeFields):
    """A run was resumed; ``failed`` means that its failures are rerun."""

    event: Literal["resume"]


class WorkerFields(TypedDict):
    """The fields of the journal event ``worker``."""

    worker: str
    pid: int


class WorkerEvent(WorkerFields):
    """A worker started."""

    event: Literal["worker"]


class WorkerEndFields(TypedDict):
    """The fields of the journal event ``worker-end``."""

    worker: str
    reason: str


class WorkerEndEvent(WorkerEndFields):
    """A worker reported that it ends."""

    event: Literal["worker-end"]


class DtypeFields(TypedDict):
    """The fields of the journal event ``dtype``."""

    worker: str
    id: str
    attempt: int


class DtypeEvent(DtypeFields):
    """A worker started a result."""

    event: Literal["dtype"]


class ResultFields(TypedDict):
    """The fields of the journal event ``result``."""

    worker: str
    result: AttemptRow


class ResultEvent(ResultFields):
    """A worker finished a result, or the runner recorded the result of a lost worker."""

    event: Literal["result"]


class TimeFields(TypedDict):
    """The fields of the journal event ``time``: the start of a result in seconds since 1970, its duration,
    and its duration by phase.
    """

    worker: str
    id: str
    kind: str
    began: float
    seconds: float
    phases: dict[str, float]


class TimeEvent(TimeFields):
    """A worker measured the duration of a result. This event is written only with ``--profile``."""

    event: Literal["time"]


class _ProbeOptional(TypedDict, total=False):
    message: str


class ProbeFields(_ProbeOptional):
    """The fields of the journal event ``probe``."""

    worker: str
    id: str
    state: Literal["start", "ok", "failed"]
    attempt: int


class ProbeEvent(ProbeFields):
    """A worker started or finished the known-answer probe after a result that did not pass."""

    event: Literal["probe"]


class OracleFields(TypedDict):
    """The fields of the journal event ``oracle``."""

    op: str
    dtype: str
    index: int
    digest: str


class _OracleOptional(TypedDict, total=False):
    operator: str  # the name of ``op`` in journals of earlier versions


class OracleEvent(OracleFields, _OracleOptional):
    """A worker computed the reference values of a sample."""

    event: Literal["oracle"]


class OracleCheckEvent(OracleCheck):
    """Reference values were recomputed without the backend."""

    event: Literal["oracle-check"]


class ProblemFields(TypedDict):
    """The fields of the journal event ``problem``."""

    message: str


class ProblemEvent(ProblemFields):
    """The runner or a worker reported a problem that does not belong to a result."""

    event: Literal["problem"]


class InterruptedEvent(TypedDict):
    """The user stopped the run."""

    event: Literal["interrupted"]


class _EndOptional(TypedDict, total=False):
    complete: bool


class EndFields(_EndOptional):
    """The fields of the journal event ``end``."""

    seconds: float


class EndEvent(EndFields):
    """A run ended."""

    event: Literal["end"]


class LostWorkerFields(TypedDict):
    """The fields of the journal event ``lost``."""

    worker: str


class LostWorkerEvent(LostWorkerFields):
    """The runner recorded a worker that ended without the event ``worker-end``."""

    event: Literal["lost"]


class IndependentLossFields(TypedDict):
    """The fields of the journal event ``independent``."""

    worker: str


class IndependentLossEvent(IndependentLossFields):
    """A worker was lost while no other result blocked the device: meanwhile other workers began and finished
    results, or no other worker ran a result.
    """

    event: Literal["independent"]


class SampleFields(TypedDict):
    """The fields of the journal event ``sample``."""

    kind: str
    subject: str
    property: str
    dtype: str
    results: list[str]


class SampleEvent(SampleFields):
    """The results of a property in one dtype were lost for several subjects in a row. The runner therefore
    runs a sample of the property's other results in this dtype first.
    """

    event: Literal["sample"]


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
    | LostWorkerEvent
    | IndependentLossEvent
    | SampleEvent
)
