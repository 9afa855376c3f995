"""Profiles of the device: what `torch.profiler` documents of the rows of a device and their links.

https://docs.pytorch.org/docs/stable/profiler.html: a profile shows the kernels of the device with their
times, the operators that launched them, and the memory of tensors; it covers what runs between start and
stop. The exported file is in the Chrome trace event format.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable

import torch

from conformance.device import api as device_api
from conformance.device.api import DeviceApi
from conformance.framework.calls import attempt_on
from conformance.framework.compare import fact
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.model.profiler_trace import DeviceActivity, Operator, ProfilerTrace
from conformance.model.verdicts import Kind
from conformance.properties.device._device_checks import about, do, slow, uncollected, zeros
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

#: Microseconds by which the clocks of host and device may differ in one profile.
CLOCKS = 1000.0
#: Side of the square matrices: the work of an operator is short.
SIDE = 64


def _square(target: Target) -> torch.Tensor:
    x = torch.ones(SIDE, SIDE, device=target.device)
    target.synchronize()
    return x


def _profile(
    target: Target, api: DeviceApi, recorder: Recorder, what: str, work: Callable[[], object]
) -> ProfilerTrace | None:
    """Profile some work that has run before: a first call may compile, or move memory."""

    def both() -> ProfilerTrace:
        work()
        target.synchronize()
        return api.profile(work)

    outcome = do(target, recorder, f"profiling {what}", both)
    return outcome.value if outcome.ok else None


def _within(inner: Operator, outer: Operator) -> bool:
    return inner.thread == outer.thread and outer.start <= inner.start and inner.end <= outer.end


@register(
    "profiled_operators",
    subject_kind="device",
    statement=(
        "Each operator that computes on the device has rows of the device in a profile, which are linked to "
        "it or to an operator that it calls."
    ),
    documentation="profiler.html",
    level="full",
    applies=about("Profiler"),
    capabilities=("profiler",),
    modes=("eager",),
)
def operators(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    api = device_api.device_api(target)
    x = _square(target)
    calls: dict[str, Callable[[], object]] = {
        "aten::mm": lambda: torch.mm(x, x),
        "aten::exp": lambda: torch.exp(x),
        "aten::sum": lambda: torch.sum(x),
        "aten::cumsum": lambda: torch.cumsum(x, 0),
        "aten::sort": lambda: torch.sort(x),
        "aten::index_select": lambda: torch.index_select(
            x, 0, torch.zeros(3, dtype=torch.int64).to(x.device)
        ),
        "aten::add_": lambda: x.add_(0),
        "aten::copy_": lambda: torch.ones(SIDE).to(x.device, copy=True),
    }
    for name, call in calls.items():
        found = _profile(target, api, recorder, name, call)
        if found is None:
            continue
        callers = [operator for operator in found.operators if operator.name == name]
        hosts = {operator.id: operator for operator in found.operators}
        ours = [
            row
            for row in found.rows
            if row.operator in hosts and any(_within(hosts[row.operator], one) for one in callers)
        ]
        fact(
            recorder,
            bool(ours),
            Kind.STATE,
            f"no row of the device is linked to {name}: there are {_names(found.rows)}.",
        )


@register(
    "profiled_counts",
    subject_kind="device",
    statement="Rows of the device are as many as there were calls: ten times the calls, ten times the rows.",
    documentation="profiler.html",
    level="full",
    applies=about("Profiler"),
    capabilities=("profiler",),
    modes=("eager",),
)
def counts(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    api = device_api.device_api(target)
    x = _square(target)
    once = _profile(target, api, recorder, "one call", lambda: torch.exp(x))
    often = _profile(target, api, recorder, "ten calls", lambda: [torch.exp(x) for _ in range(10)])
    if once is None or often is None:
        return
    one, ten = len(_of(once, "aten::exp")), len(_of(often, "aten::exp"))
    fact(
        recorder,
        one > 0 and ten == 10 * one,
        Kind.STATE,
        f"one call of exp has {one} rows of the device, ten calls have {ten}.",
    )


@register(
    "profiled_streams",
    subject_kind="device",
    statement=(
        "Rows of one stream do not overlap, unless one holds the other; work of two streams has rows of two "
        "streams; work that waits for an event begins behind the work before the event."
    ),
    documentation="profiler.html",
    level="full",
    applies=about("Profiler"),
    capabilities=("profiler", "streams", "events"),
    modes=("eager",),
)
def streams(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    api = device_api.device_api(target)
    x, y = zeros(target), zeros(target)
    first, second = api.stream(), api.stream()

    def work() -> None:
        event = api.event()
        with api.on(first):
            for _ in range(5):
                slow(api, recorder, 0.001)
                x.add_(1)
            event.record(api.current())
        with api.on(second):
            event.wait(api.current())
            for _ in range(5):
                y.mul_(3)

    found = _profile(target, api, recorder, "two streams", work)
    if found is None:
        return
    for stream in {row.stream for row in found.rows}:
        clash = _overlap([row for row in found.rows if row.stream == stream])
        fact(
            recorder,
            clash is None,
            Kind.STATE,
            "two rows of one stream overlap: " + ("" if clash is None else " and ".join(map(_shown, clash))),
        )
    before, after = _of(found, "aten::add_"), _of(found, "aten::mul_")
    if not before or not after:
        recorder.fail(Kind.STATE, f"work of the streams has no rows: there are {_names(found.rows)}.")
        return
    fact(
        recorder,
        {row.stream for row in before}.isdisjoint(row.stream for row in after),
        Kind.STATE,
        "work of two streams has rows of one stream.",
    )
    fact(
        recorder,
        max(row.end for row in before) <= min(row.start for row in after) + 1,
        Kind.STATE,
        "a row begins before the end of the work that its stream waits for.",
    )


@register(
    "profiled_times",
    subject_kind="device",
    statement="Rows lie within the profile and end after they begin; those of one stream fit into its time.",
    documentation="profiler.html",
    level="full",
    applies=about("Profiler"),
    capabilities=("profiler",),
    modes=("eager",),
)
def times(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    api = device_api.device_api(target)
    x = _square(target)
    found = _profile(target, api, recorder, "fifty calls", lambda: [torch.mm(x, x) for _ in range(50)])
    if found is None:
        return
    if not found.rows:
        recorder.fail(Kind.STATE, "fifty products have no rows of the device.")
        return
    wrong = [row for row in found.rows if row.end < row.start]
    fact(recorder, not wrong, Kind.STATE, f"a row ends before it begins: {_names(wrong)}.")
    begin = min(operator.start for operator in found.operators)
    early = [row for row in found.rows if row.start < begin - CLOCKS]
    late = [row for row in found.rows if row.end > begin + found.elapsed + 2 * CLOCKS]
    fact(recorder, not early, Kind.STATE, f"rows lie before the profile: {_names(early)}.")
    fact(recorder, not late, Kind.STATE, f"rows lie behind the profile: {_names(late)}.")
    for stream in {row.stream for row in found.rows}:
        total = sum(row.end - row.start for row in _outermost(found.rows, stream))
        fact(
            recorder,
            total <= found.elapsed + CLOCKS,
            Kind.STATE,
            f"rows of a stream add up to {total:.0f} us in a profile of {found.elapsed:.0f} us.",
        )


@register(
    "profiled_memory",
    subject_kind="device",
    statement="With profile_memory the sizes in a profile add up to the change of the statistics of memory.",
    documentation="profiler.html",
    level="full",
    applies=about("Profiler"),
    capabilities=("profiler", "memory_statistics"),
    modes=("eager",),
)
def memory(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    api = device_api.device_api(target)
    x = _square(target)
    kept: list[torch.Tensor] = []

    def work() -> None:
        for size in (1, 1000, 70_000):
            kept.append(api.empty(size))
            kept.append(torch.exp(x))
            api.empty(size)  # freed at once

    def both() -> tuple[ProfilerTrace, int]:
        work()
        target.synchronize()
        with uncollected():
            before = api.allocated()
            found = api.profile(work)
            return found, api.allocated() - before

    outcome = do(target, recorder, "profiling memory", both)
    if outcome.ok:
        found, change = outcome.value
        fact(
            recorder,
            found.memory == change,
            Kind.VALUE,
            f"the profile's sizes add up to {found.memory} bytes, the statistics changed by {change}.",
        )


@register(
    "profiled_trace",
    subject_kind="device",
    statement=(
        "An exported trace is in the Chrome trace event format: complete events with a name, a time and a "
        "duration of at least 0, and the device's rows among them."
    ),
    documentation="profiler.html",
    level="full",
    applies=about("Profiler"),
    capabilities=("profiler",),
    modes=("eager",),
)
def trace(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    api = device_api.device_api(target)
    x = _square(target)
    found = _profile(target, api, recorder, "a few calls", lambda: torch.softmax(x @ x, 0))
    if found is None:
        return
    events = found.trace.get("traceEvents") if isinstance(found.trace, dict) else found.trace
    if not isinstance(events, list) or not events:
        recorder.fail(Kind.STATE, "the trace holds no list of events.")
        return
    wrong = [event for event in events if not _is_event(event)]
    fact(recorder, not wrong, Kind.STATE, f"an event of the trace is malformed: {wrong[:1]}")
    names = [event.get("name") for event in events if isinstance(event, dict) and event.get("ph") == "X"]
    missing = [row.name for row in found.rows if row.name not in names]
    fact(recorder, bool(found.rows), Kind.STATE, "the profile has no rows of the device.")
    fact(recorder, not missing, Kind.STATE, f"rows of the device are not in the trace: {missing[:3]}.")


@register(
    "profiled_end",
    subject_kind="device",
    statement="A profile has the rows of what was issued between its start and its end alone, errors or not.",
    documentation="profiler.html",
    level="full",
    applies=about("Profiler"),
    capabilities=("profiler",),
    modes=("eager",),
)
def end(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    api = device_api.device_api(target)
    x = _square(target)

    def alone() -> ProfilerTrace:
        api.profile(lambda: torch.sin(x))
        torch.cos(x)
        target.synchronize()
        found = api.profile(lambda: torch.exp(x))
        torch.cos(x)
        target.synchronize()
        return found

    outcome = do(target, recorder, "profiling twice", alone)
    if outcome.ok:
        _only_exp(recorder, outcome.value, "after work outside of profiles")

    def raising() -> None:
        torch.sin(x)
        raise ZeroDivisionError

    failed = attempt_on(target, lambda: api.profile(raising))
    fact(
        recorder,
        isinstance(failed.error, ZeroDivisionError),
        Kind.ERROR_TYPE,
        f"an error inside of a profile became {failed.error!r}.",
    )
    outcome = do(target, recorder, "profiling after an error", lambda: api.profile(lambda: torch.exp(x)))
    if outcome.ok:
        _only_exp(recorder, outcome.value, "after a profile that an error ended")


def _only_exp(recorder: Recorder, found: ProfilerTrace, when: str) -> None:
    ours = _of(found, "aten::exp")
    hosts = {operator.id: operator.name for operator in found.operators}
    others = [row for row in found.rows if hosts.get(row.operator, "") in ("aten::sin", "aten::cos")]
    strangers = [row for row in found.rows if row not in ours and row.operator not in hosts and row.operator]
    fact(recorder, bool(ours), Kind.STATE, f"exp has no row of the device {when}.")
    fact(recorder, not others, Kind.STATE, f"rows of earlier or later work are in a profile {when}.")
    fact(
        recorder,
        not strangers,
        Kind.STATE,
        f"rows are linked to operators that are not in the profile {when}: {_names(strangers)}.",
    )


@register(
    "profiled_fork",
    subject_kind="device",
    statement="A child that is forked inside of a profile ends as it would without, and the profile goes on.",
    documentation="profiler.html",
    level="full",
    applies=about("Profiler"),
    capabilities=("profiler", "fork"),
    modes=("eager",),
    runs=False,
)
def fork(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the registered statement for a subject in one dtype."""
    api = device_api.device_api(target)
    x = _square(target)
    codes: list[int] = []

    def work() -> None:
        torch.exp(x)
        target.synchronize()
        child = os.fork()
        if child == 0:
            os._exit(7)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        torch.exp(x)

    outcome = do(target, recorder, "a fork inside of a profile", lambda: api.profile(work))
    if not outcome.ok:
        return
    fact(recorder, codes == [7], Kind.STATE, f"the child ended with {codes}, expected 7.")
    once = _profile(target, api, recorder, "one call", lambda: torch.exp(x))
    if once is not None:
        rows, expected = len(_of(outcome.value, "aten::exp")), 2 * len(_of(once, "aten::exp"))
        fact(
            recorder,
            rows == expected > 0,
            Kind.STATE,
            f"two calls around a fork have {rows} rows, expected {expected}.",
        )


def _of(found: ProfilerTrace, name: str) -> list[DeviceActivity]:
    """The rows that are linked to calls of an operator, or to operators within those calls."""
    callers = [operator for operator in found.operators if operator.name == name]
    inner = {one.id for one in found.operators if any(_within(one, caller) for caller in callers)}
    return [row for row in found.rows if row.operator in inner]


def _overlap(rows: list[DeviceActivity]) -> tuple[DeviceActivity, DeviceActivity] | None:
    """Two rows of which neither holds the other, and which share more than a tick of a clock."""
    ordered = sorted(rows, key=lambda row: (row.start, -row.end))
    for one, other in itertools.pairwise(ordered):
        if one.end - 0.1 > other.start and other.end > one.end + 0.1:
            return one, other
    return None


def _outermost(rows: list[DeviceActivity], stream: int) -> list[DeviceActivity]:
    """The rows of a stream that no other one holds."""
    found: list[DeviceActivity] = []
    for row in sorted((row for row in rows if row.stream == stream), key=lambda row: (row.start, -row.end)):
        if not found or row.end > found[-1].end:
            found.append(row)
    return found


def _is_event(event: object) -> bool:
    """True for an event of the format: it has a phase and a name, and a complete one has its numbers."""
    if not isinstance(event, dict) or not isinstance(event.get("ph"), str) or "name" not in event:
        return False
    if event["ph"] != "X":
        return True
    numbers = [event.get("ts"), event.get("dur")]
    return all(isinstance(number, int | float) for number in numbers) and event["dur"] >= 0


def _names(rows: list[DeviceActivity]) -> str:
    return ", ".join(row.name for row in rows[:5]) or "none"


def _shown(row: DeviceActivity) -> str:
    return f"{row.name} from {row.start:.1f} to {row.end:.1f} us"
