"""Check the rows that ``torch.profiler`` records for the device, and their links to operators.

The requirements come from https://docs.pytorch.org/docs/stable/profiler.html. A profile contains the device's
kernels with their times, the operators that launched them, and the memory of tensors. It contains the work
between start and stop. The exported file has the Chrome trace event format.
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
from conformance.properties.device._device_checks import (
    delay_stream,
    device_zeros,
    dtypes_function_for_part,
    run_and_record_error,
    without_garbage_collection,
)
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

#: The largest allowed difference in microseconds between the clocks of the host and the device in a profile.
CLOCKS = 1000.0
#: The side of the square matrices. It is small, so that operators are short.
SIDE = 64


def _square_matrix(target: Target) -> torch.Tensor:
    x = torch.ones(SIDE, SIDE, device=target.device)
    target.synchronize()
    return x


def _profile_and_record_error(
    target: Target, api: DeviceApi, recorder: Recorder, label: str, work: Callable[[], object]
) -> ProfilerTrace | None:
    """Run ``work`` twice and return the profile of the second run, or None after recording an error.

    The first run is not profiled, because it may compile or allocate.
    """

    def warm_up_and_profile() -> ProfilerTrace:
        work()
        target.synchronize()
        return api.profile_work(work)

    outcome = run_and_record_error(target, recorder, f"profiling {label}", warm_up_and_profile)
    return outcome.value if outcome.ok else None


def _is_within(inner: Operator, outer: Operator) -> bool:
    return inner.thread == outer.thread and outer.start <= inner.start and inner.end <= outer.end


@register(
    "profiled_operators",
    subject_kind="device",
    statement=(
        "Each operator that computes on the device has device rows in a profile. The rows are linked to "
        "the operator or to an operator that it calls."
    ),
    documentation="accelerator/profiler.html",
    level="full",
    applies=dtypes_function_for_part("Profiler"),
    capabilities=("profiler",),
    modes=("eager",),
)
def check_rows_of_operators(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Profile one call of each operator and find the device rows that are linked to it."""
    api = device_api.device_api(target)
    x = _square_matrix(target)
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
        profile = _profile_and_record_error(target, api, recorder, name, call)
        if profile is None:
            continue
        callers = [operator for operator in profile.operators if operator.name == name]
        hosts = {operator.id: operator for operator in profile.operators}
        linked = [
            row
            for row in profile.rows
            if row.operator in hosts and any(_is_within(hosts[row.operator], caller) for caller in callers)
        ]
        fact(
            recorder,
            bool(linked),
            Kind.STATE,
            f"no row of the device is linked to {name}; the profile has {_row_names(profile.rows)}.",
        )


@register(
    "profiled_counts",
    subject_kind="device",
    statement=(
        "The number of device rows is proportional to the number of calls: ten calls have ten times the "
        "rows of one call."
    ),
    documentation="profiler.html",
    basis="consistency",
    ground="Ten calls must have ten times the rows of one call",
    level="full",
    applies=dtypes_function_for_part("Profiler"),
    capabilities=("profiler",),
    modes=("eager",),
)
def check_row_counts(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Count the device rows of one call and of ten calls."""
    api = device_api.device_api(target)
    x = _square_matrix(target)
    once = _profile_and_record_error(target, api, recorder, "one call", lambda: torch.exp(x))
    often = _profile_and_record_error(
        target, api, recorder, "ten calls", lambda: [torch.exp(x) for _ in range(10)]
    )
    if once is None or often is None:
        return
    rows_of_one, rows_of_ten = (
        len(_rows_of_operator(once, "aten::exp")),
        len(_rows_of_operator(often, "aten::exp")),
    )
    fact(
        recorder,
        rows_of_one > 0 and rows_of_ten == 10 * rows_of_one,
        Kind.STATE,
        f"one call of exp has {rows_of_one} rows of the device, ten calls have {rows_of_ten}.",
    )


@register(
    "profiled_streams",
    subject_kind="device",
    statement=(
        "Rows of one stream do not overlap unless one row contains the other. Work on two streams has "
        "rows on two streams. Work that waits for an event begins after the work before the event."
    ),
    documentation="profiler.html",
    basis="consistency",
    ground="The rows of the profile must follow the order that streams and events demand",
    level="full",
    applies=dtypes_function_for_part("Profiler"),
    capabilities=("profiler", "streams", "events"),
    modes=("eager",),
)
def check_rows_of_streams(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Profile work on two streams, ordered by an event, and compare the times of their rows."""
    api = device_api.device_api(target)
    x, y = device_zeros(target), device_zeros(target)
    first, second = api.new_stream(), api.new_stream()

    def run_on_two_streams() -> None:
        event = api.new_event()
        with api.use_stream(first):
            for _ in range(5):
                delay_stream(api, recorder, 0.001)
                x.add_(1)
            event.record(api.current_stream())
        with api.use_stream(second):
            event.wait(api.current_stream())
            for _ in range(5):
                y.mul_(3)

    profile = _profile_and_record_error(target, api, recorder, "two streams", run_on_two_streams)
    if profile is None:
        return
    for stream in {row.stream for row in profile.rows}:
        clash = _overlapping_rows([row for row in profile.rows if row.stream == stream])
        fact(
            recorder,
            clash is None,
            Kind.STATE,
            "two rows of one stream overlap: "
            + ("" if clash is None else " and ".join(map(_describe_row, clash))),
        )
    before, after = _rows_of_operator(profile, "aten::add_"), _rows_of_operator(profile, "aten::mul_")
    if not before or not after:
        recorder.fail(
            Kind.STATE, f"the work on the streams has no rows; the profile has {_row_names(profile.rows)}."
        )
        return
    fact(
        recorder,
        {row.stream for row in before}.isdisjoint(row.stream for row in after),
        Kind.STATE,
        "work on two streams has rows on the same stream.",
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
    statement=(
        "Rows lie within the time of the profile and do not end before they begin. The durations of the "
        "rows of one stream add up to no more than the profile's time."
    ),
    documentation="profiler.html",
    basis="consistency",
    ground="Rows must lie within the time of the profile, and must not end before they begin",
    level="full",
    applies=dtypes_function_for_part("Profiler"),
    capabilities=("profiler",),
    modes=("eager",),
)
def check_row_times(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check that the device rows lie inside the time of a profile, and that the durations of the rows of one
    stream add up to no more than this time.
    """
    api = device_api.device_api(target)
    x = _square_matrix(target)
    profile = _profile_and_record_error(
        target, api, recorder, "fifty calls", lambda: [torch.mm(x, x) for _ in range(50)]
    )
    if profile is None:
        return
    if not profile.rows:
        recorder.fail(Kind.STATE, "fifty products have no rows of the device.")
        return
    wrong = [row for row in profile.rows if row.end < row.start]
    fact(recorder, not wrong, Kind.STATE, f"a row ends before it begins: {_row_names(wrong)}.")
    profile_start = min(operator.start for operator in profile.operators)
    too_early = [row for row in profile.rows if row.start < profile_start - CLOCKS]
    too_late = [row for row in profile.rows if row.end > profile_start + profile.elapsed + 2 * CLOCKS]
    fact(recorder, not too_early, Kind.STATE, f"rows begin before the profile: {_row_names(too_early)}.")
    fact(recorder, not too_late, Kind.STATE, f"rows end after the profile: {_row_names(too_late)}.")
    for stream in {row.stream for row in profile.rows}:
        total = sum(row.end - row.start for row in _outermost_rows(profile.rows, stream))
        fact(
            recorder,
            total <= profile.elapsed + CLOCKS,
            Kind.STATE,
            f"rows of a stream add up to {total:.0f} us in a profile of {profile.elapsed:.0f} us.",
        )


@register(
    "profiled_memory",
    subject_kind="device",
    statement=("With profile_memory, the sizes in a profile add up to the change of the memory statistics."),
    documentation="profiler.html",
    basis="consistency",
    ground="The profile's sizes and the device's memory statistics must agree",
    level="full",
    applies=dtypes_function_for_part("Profiler"),
    capabilities=("profiler", "memory_statistics"),
    modes=("eager",),
)
def check_memory_sizes(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Compare the sum of the memory sizes in a profile with the change of the memory statistics."""
    api = device_api.device_api(target)
    x = _square_matrix(target)
    retained: list[torch.Tensor] = []

    def allocate_and_free() -> None:
        for size in (1, 1000, 70_000):
            retained.append(api.allocate_elements(size))
            retained.append(torch.exp(x))
            api.allocate_elements(size)  # the result is freed immediately

    def profile_and_read_statistics() -> tuple[ProfilerTrace, int]:
        allocate_and_free()
        target.synchronize()
        with without_garbage_collection():
            before = api.allocated_bytes()
            profile = api.profile_work(allocate_and_free)
            return profile, api.allocated_bytes() - before

    outcome = run_and_record_error(target, recorder, "profiling memory", profile_and_read_statistics)
    if outcome.ok:
        profile, change = outcome.value
        fact(
            recorder,
            profile.memory == change,
            Kind.VALUE,
            f"the profile's sizes add up to {profile.memory} bytes, the statistics changed by {change}.",
        )


@register(
    "profiled_trace",
    subject_kind="device",
    statement=(
        "An exported trace has the Chrome trace event format. It has complete events with a name, a time "
        "and a duration of at least 0, and the device's rows are among them."
    ),
    documentation="profiler.html",
    level="full",
    applies=dtypes_function_for_part("Profiler"),
    capabilities=("profiler",),
    modes=("eager",),
)
def check_exported_trace(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check the events of an exported trace."""
    api = device_api.device_api(target)
    x = _square_matrix(target)
    profile = _profile_and_record_error(target, api, recorder, "a few calls", lambda: torch.softmax(x @ x, 0))
    if profile is None:
        return
    events = profile.trace.get("traceEvents") if isinstance(profile.trace, dict) else profile.trace
    if not isinstance(events, list) or not events:
        recorder.fail(Kind.STATE, "the trace contains no list of events.")
        return
    wrong = [event for event in events if not _is_trace_event(event)]
    fact(recorder, not wrong, Kind.STATE, f"an event of the trace is malformed: {wrong[:1]}")
    names = [event.get("name") for event in events if isinstance(event, dict) and event.get("ph") == "X"]
    missing = [row.name for row in profile.rows if row.name not in names]
    fact(recorder, bool(profile.rows), Kind.STATE, "the profile has no rows of the device.")
    fact(recorder, not missing, Kind.STATE, f"rows of the device are not in the trace: {missing[:3]}.")


@register(
    "profiled_end",
    subject_kind="device",
    statement=(
        "A profile has only the rows of work that was issued between its start and its end, also if an "
        "error ends the profile."
    ),
    documentation="profiler.html",
    level="full",
    applies=dtypes_function_for_part("Profiler"),
    capabilities=("profiler",),
    modes=("eager",),
)
def check_profile_boundaries(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Check that a profile contains no work from before its start or after its end."""
    api = device_api.device_api(target)
    x = _square_matrix(target)

    def profile_between_other_work() -> ProfilerTrace:
        api.profile_work(lambda: torch.sin(x))
        torch.cos(x)
        target.synchronize()
        profile = api.profile_work(lambda: torch.exp(x))
        torch.cos(x)
        target.synchronize()
        return profile

    outcome = run_and_record_error(target, recorder, "profiling twice", profile_between_other_work)
    if outcome.ok:
        _check_only_exp(recorder, outcome.value, "after work outside of profiles")

    def compute_and_raise() -> None:
        torch.sin(x)
        raise ZeroDivisionError

    failed = attempt_on(target, lambda: api.profile_work(compute_and_raise))
    fact(
        recorder,
        isinstance(failed.error, ZeroDivisionError),
        Kind.ERROR_TYPE,
        f"a ZeroDivisionError during a profile became {failed.error!r}.",
    )
    outcome = run_and_record_error(
        target, recorder, "profiling after an error", lambda: api.profile_work(lambda: torch.exp(x))
    )
    if outcome.ok:
        _check_only_exp(recorder, outcome.value, "after a profile that an error ended")


def _check_only_exp(recorder: Recorder, profile: ProfilerTrace, when: str) -> None:
    exp_rows = _rows_of_operator(profile, "aten::exp")
    hosts = {operator.id: operator.name for operator in profile.operators}
    other_work = [row for row in profile.rows if hosts.get(row.operator, "") in ("aten::sin", "aten::cos")]
    unlinked = [
        row for row in profile.rows if row not in exp_rows and row.operator not in hosts and row.operator
    ]
    fact(recorder, bool(exp_rows), Kind.STATE, f"exp has no row of the device {when}.")
    fact(recorder, not other_work, Kind.STATE, f"rows of earlier or later work are in a profile {when}.")
    fact(
        recorder,
        not unlinked,
        Kind.STATE,
        f"rows are linked to operators that are not in the profile {when}: {_row_names(unlinked)}.",
    )


@register(
    "profiled_fork",
    subject_kind="device",
    statement=("A child process that is forked during a profile exits normally, and the profile continues."),
    documentation="notes/multiprocessing.html",
    basis="parity",
    ground="No page allows a fork after the device is in use; the note advises against it",
    level="full",
    applies=dtypes_function_for_part("Profiler"),
    capabilities=("profiler", "fork"),
    modes=("eager",),
    runs=False,
)
def check_fork_inside_profile(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Fork a child in a profile; check its exit code and the rows of the parent."""
    api = device_api.device_api(target)
    x = _square_matrix(target)
    codes: list[int] = []

    def compute_around_fork() -> None:
        torch.exp(x)
        target.synchronize()
        child = os.fork()
        if child == 0:
            os._exit(7)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        torch.exp(x)

    outcome = run_and_record_error(
        target, recorder, "a fork inside of a profile", lambda: api.profile_work(compute_around_fork)
    )
    if not outcome.ok:
        return
    fact(recorder, codes == [7], Kind.STATE, f"the child ended with {codes}, expected 7.")
    once = _profile_and_record_error(target, api, recorder, "one call", lambda: torch.exp(x))
    if once is not None:
        rows, expected = (
            len(_rows_of_operator(outcome.value, "aten::exp")),
            2 * len(_rows_of_operator(once, "aten::exp")),
        )
        fact(
            recorder,
            rows == expected > 0,
            Kind.STATE,
            f"two calls around a fork have {rows} rows, expected {expected}.",
        )


def _rows_of_operator(profile: ProfilerTrace, name: str) -> list[DeviceActivity]:
    """Return the device rows that are linked to calls of an operator, or to operators inside these calls."""
    callers = [operator for operator in profile.operators if operator.name == name]
    inner = {
        operator.id
        for operator in profile.operators
        if any(_is_within(operator, caller) for caller in callers)
    }
    return [row for row in profile.rows if row.operator in inner]


def _overlapping_rows(rows: list[DeviceActivity]) -> tuple[DeviceActivity, DeviceActivity] | None:
    """Return two rows that overlap by more than 0.1 us, neither inside the other; None if no rows do."""
    ordered = sorted(rows, key=lambda row: (row.start, -row.end))
    for earlier, later in itertools.pairwise(ordered):
        if earlier.end - 0.1 > later.start and later.end > earlier.end + 0.1:
            return earlier, later
    return None


def _outermost_rows(rows: list[DeviceActivity], stream: int) -> list[DeviceActivity]:
    """Return the rows of a stream that lie inside no other row of the stream."""
    outermost: list[DeviceActivity] = []
    for row in sorted((row for row in rows if row.stream == stream), key=lambda row: (row.start, -row.end)):
        if not outermost or row.end > outermost[-1].end:
            outermost.append(row)
    return outermost


def _is_trace_event(event: object) -> bool:
    """Return whether an event has a phase and a name and, if it is a complete event (phase ``X``), a time and
    a duration.
    """
    if not isinstance(event, dict) or not isinstance(event.get("ph"), str) or "name" not in event:
        return False
    if event["ph"] != "X":
        return True
    numbers = [event.get("ts"), event.get("dur")]
    return all(isinstance(number, int | float) for number in numbers) and event["dur"] >= 0


def _row_names(rows: list[DeviceActivity]) -> str:
    return ", ".join(row.name for row in rows[:5]) or "none"


def _describe_row(row: DeviceActivity) -> str:
    return f"{row.name} from {row.start:.1f} to {row.end:.1f} us"
