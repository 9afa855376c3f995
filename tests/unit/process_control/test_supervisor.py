"""``process_control.supervisor`` executes each unit of work exactly once, and a crash or hang
costs one unit.
"""

from __future__ import annotations

import collections
import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conformance.process_control.child import Child, ChildEnd, EndKind
from conformance.process_control.supervisor import ChildNotStarted, Supervisor, receive_all
from tests.support import python_path
from tests.unit.process_control.test_child import is_running, wait_until_true

#: Code of a worker: log each unit that begins, execute the unit if it is Python code, and reply with the unit
#: and the process id.
WORKER = """
import ctypes, os, signal, sys, time
from conformance.process_control.parent_link import ParentLink
link = ParentLink.connect()
BEFORE
for unit in link.requests():
    with open("began", "a") as log:
        log.write(str(unit) + "\\n")
    link.announce_step(f"step of {unit}")
    if isinstance(unit, str) and "(" in unit:
        exec(unit)
    link.reply([unit, os.getpid()])
    if "then" in str(unit):
        AFTER
"""


class WorkerSpawner:
    """A callable that starts a worker process and adds it to ``children``.

    The worker runs the code ``before`` before its first unit. It runs the code ``after`` after each unit
    whose text contains "then".
    """

    def __init__(self, folder: Path, before: str = "", after: str = "os._exit(0)") -> None:
        self.folder = folder
        self.children: list[Child] = []
        self.code = f"import os; os.chdir({str(folder)!r})\n" + WORKER.replace("BEFORE", before).replace(
            "AFTER", after
        )

    def __call__(self) -> Child:
        variables = {**os.environ, "PYTHONPATH": python_path(), "NUMBER": str(len(self.children))}
        log = self.folder / f"log-{len(self.children)}"
        child = Child.exec([sys.executable, "-c", self.code], variables, log=log, channel=True)
        self.children.append(child)
        return child

    def started_units(self) -> list[str]:
        return (self.folder / "began").read_text().splitlines()


@contextlib.contextmanager
def make_supervisor(spawn: WorkerSpawner, workers: int = 1) -> Iterator[Supervisor[Any]]:
    with Supervisor[Any](spawn, start=60.0, workers=workers) as supervisor:
        yield supervisor
    assert not [child for child in spawn.children if is_running(child.pid)]


HOW: dict[str, tuple[EndKind, int | None]] = {
    "os._exit(3)": (EndKind.EXITED, 3),
    "ctypes.PyDLL(None).sleep(100)": (EndKind.STALLED, None),
    "os.kill(os.getpid(), signal.SIGSEGV)": (EndKind.CRASHED, -11),
    "os.write(link._channel.fileno(), b'x' * 100)": (EndKind.BROKEN, None),
    "link.send(b'no JSON')": (EndKind.BROKEN, None),
    "link.send(b'3')": (EndKind.BROKEN, None),
}


@pytest.mark.parametrize("bad", HOW)
def test_a_crash_or_hang_costs_its_unit(tmp_path: Path, bad: str) -> None:
    spawn = WorkerSpawner(tmp_path)
    with make_supervisor(spawn) as supervisor:
        replies = dict(supervisor.run_units([1, bad, 2], silence=0.5))
    assert [replies[1][0], replies[2][0]] == [1, 2]
    how, code = HOW[bad]
    end = replies[bad]
    assert isinstance(end, ChildEnd) and end.how is how and code in (None, end.code)
    assert end.step == f"step of {bad}"
    assert spawn.started_units() == ["1", bad, "2"] and len(spawn.children) == 2


def test_the_number_of_units_is_exact_with_several_workers(tmp_path: Path) -> None:
    units = [f"os._exit({n})" if n % 7 == 3 else f"time.sleep({n % 3}e-3)" for n in range(40)]
    spawn = WorkerSpawner(tmp_path)
    with make_supervisor(spawn, workers=3) as supervisor:
        assert list(supervisor.run_units([], silence=60)) == []
        replies = list(supervisor.run_units(units, silence=60))
    counted = collections.Counter(unit for unit, _ in replies)
    assert counted == collections.Counter(units)
    assert sum(isinstance(reply, ChildEnd) for _, reply in replies) == 6
    assert all(isinstance(reply, ChildEnd) == unit.startswith("os") for unit, reply in replies)
    assert collections.Counter(spawn.started_units()) == counted


def test_a_process_that_ends_between_two_units_costs_none(tmp_path: Path) -> None:
    units = ["then 1", "then 2", 3, "then 4", 5]
    spawn = WorkerSpawner(tmp_path)
    with make_supervisor(spawn) as supervisor:
        replies = list(supervisor.run_units(units, silence=60))
        assert [(unit, reply[0]) for unit, reply in replies] == [(unit, unit) for unit in units]
        later_replies = list(supervisor.run_units(["then", "then"], silence=60))
        assert [reply[0] for _, reply in later_replies] == ["then", "then"]
    assert spawn.started_units() == [str(unit) for unit in [*units, "then", "then"]]


def test_a_process_that_ends_while_it_is_sent_a_unit_costs_none(tmp_path: Path) -> None:
    """If a worker exits after it has read only a part of a unit, another worker executes the unit."""
    large = "x" * 1_000_000
    spawn = WorkerSpawner(tmp_path, after="link._channel.recv(1000); os.kill(os.getpid(), signal.SIGKILL)")
    with make_supervisor(spawn) as supervisor:
        replies = list(supervisor.run_units(["then", large], silence=60))
    assert [(unit, reply[0]) for unit, reply in replies] == [("then", "then"), (large, large)]
    assert len(spawn.children) == 2


def test_a_process_that_ends_during_start_up_costs_no_unit(tmp_path: Path) -> None:
    spawn = WorkerSpawner(tmp_path, before="os.environ['NUMBER'] == '1' and os._exit(1)")
    with make_supervisor(spawn) as supervisor:
        replies = list(supervisor.run_units(["os._exit(0)", 1, 2], silence=60))
    assert [unit for unit, _ in replies] == ["os._exit(0)", 1, 2]
    assert isinstance(replies[0][1], ChildEnd) and replies[1][1][0] == 1 and replies[2][1][0] == 2
    assert len(spawn.children) == 3


@pytest.mark.parametrize(
    ("before", "processes", "how"),
    [
        ("raise OSError('no driver')", 1, EndKind.EXITED),
        ("ctypes.PyDLL(None).sleep(100)", 1, EndKind.STALLED),
        ("int(os.environ['NUMBER']) and os._exit(1)", 3, EndKind.EXITED),
    ],
)
def test_processes_that_do_not_start_are_an_error(
    tmp_path: Path, before: str, processes: int, how: EndKind
) -> None:
    spawn = WorkerSpawner(tmp_path, before)
    supervisor = Supervisor[Any](spawn, start=0.5 if how is EndKind.STALLED else 60.0)
    replies = []
    with pytest.raises(ChildNotStarted) as caught, supervisor:
        for pair in supervisor.run_units(["os._exit(0)", 1], silence=60):
            replies.append(pair)
    assert caught.value.end.how is how and len(spawn.children) == processes
    assert len(replies) == (processes == 3)
    if "driver" in before:
        assert caught.value.end.last_line == "OSError: no driver"


def test_a_unit_that_two_processes_do_not_begin_is_a_failure(tmp_path: Path) -> None:
    spawn = WorkerSpawner(
        tmp_path, before="link.requests = lambda: [link._send_json('ready'), link.receive(), os._exit(5)]"
    )
    with make_supervisor(spawn) as supervisor:
        replies = list(supervisor.run_units([1, 2], silence=60))
    assert [(unit, end.code) for unit, end in replies] == [(1, 5), (2, 5)]
    assert len(spawn.children) == 4


def test_a_second_reply_is_not_the_reply_of_the_next_unit(tmp_path: Path) -> None:
    spawn = WorkerSpawner(tmp_path)
    with make_supervisor(spawn) as supervisor:
        replies = list(supervisor.run_units(["link.reply(['twice'])", 1, 2], silence=60))
    assert [(unit, reply[0]) for unit, reply in replies] == [
        ("link.reply(['twice'])", "twice"),
        (1, 1),
        (2, 2),
    ]


def test_processes_are_kept_from_one_call_to_the_next(tmp_path: Path) -> None:
    spawn = WorkerSpawner(tmp_path)
    with make_supervisor(spawn, workers=2) as supervisor:
        list(supervisor.run_units(range(4), silence=60))
        list(supervisor.run_units(range(4), silence=60))
    assert len(spawn.children) <= 2


def test_the_next_unit_is_requested_after_earlier_replies(tmp_path: Path) -> None:
    begun_units: list[int] = []

    def units() -> Iterator[int]:
        while len(begun_units) < 4:
            yield len(begun_units)

    with make_supervisor(WorkerSpawner(tmp_path)) as supervisor:
        for _, reply in supervisor.run_units(units(), silence=60):
            begun_units.append(reply[0])
    assert begun_units == [0, 1, 2, 3]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_error_of_the_caller_ends_the_processes_that_work(
    tmp_path: Path, error: type[BaseException]
) -> None:
    spawn = WorkerSpawner(tmp_path)
    with pytest.raises(error), make_supervisor(spawn, workers=2) as supervisor:
        units = supervisor.run_units([1, "time.sleep(100)", "time.sleep(101)", 2], silence=60)
        assert next(units)[0] == 1
        raise error
    assert not [child for child in spawn.children if is_running(child.pid)]


def test_an_error_of_the_units_ends_the_processes_that_work(tmp_path: Path) -> None:
    def units() -> Iterator[Any]:
        yield 1
        yield "time.sleep(100)"
        raise ValueError("unfit")

    spawn = WorkerSpawner(tmp_path)
    with pytest.raises(ValueError, match="unfit"), make_supervisor(spawn, workers=2) as supervisor:
        list(supervisor.run_units(units(), silence=60))
    assert not [child for child in spawn.children if is_running(child.pid)]


def test_a_slow_caller_makes_no_process_time_out(tmp_path: Path) -> None:
    with make_supervisor(WorkerSpawner(tmp_path), workers=2) as supervisor:
        for _, reply in supervisor.run_units([1, 2, 3, 4], silence=0.5):
            assert not isinstance(reply, ChildEnd)
            time.sleep(0.3)


def test_much_output_and_many_steps_do_not_block(tmp_path: Path) -> None:
    flood = "[(os.write(1, b'o' * 100_000), os.write(2, b'e' * 100_000)) for _ in range(50)]"
    steps = "[link.announce_step('s' * 10_000) for _ in range(300)]"
    with make_supervisor(WorkerSpawner(tmp_path), workers=2) as supervisor:
        replies = dict(supervisor.run_units([flood, steps, 1], silence=60))
    assert {unit: reply[0] for unit, reply in replies.items()} == {flood: flood, steps: steps, 1: 1}
    assert max(path.stat().st_size for path in tmp_path.glob("log-*")) == 10_000_000


def test_several_threads_may_use_one_supervisor(tmp_path: Path) -> None:
    replies: list[Any] = []

    def use(name: str) -> None:
        units = [f"'{name}', str({n})" if n % 4 else f"os._exit({name!r} and {n})" for n in range(8)]
        replies.extend(supervisor.run_units(units, silence=60))

    spawn = WorkerSpawner(tmp_path)
    with make_supervisor(spawn) as supervisor:
        threads = [threading.Thread(target=use, args=(name,)) for name in "ab"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(replies) == len({unit for unit, _ in replies}) == len(spawn.started_units()) == 16
    assert all(isinstance(reply, ChildEnd) == unit.startswith("os") for unit, reply in replies)


TOGETHER = """
import ctypes, os, sys, time
from conformance.process_control.parent_link import ParentLink
link = ParentLink.connect()
def inner():
    exec(CODE)
inner()
time.sleep(100)
"""


@pytest.mark.parametrize(
    ("first", "second", "due"),
    [
        ("link.send(b'1')", "link.send(b'2')", [1, 2]),
        ("link.send(b'-1')", "link.send(b'2')", [-1, 2]),
        (
            "ctypes.PyDLL(None).sleep(100)",
            "time.sleep(0.5); os._exit(4)",
            [EndKind.TIMED_OUT, EndKind.EXITED],
        ),
        ("link.send(b'x')", "link.send(b'2')", [EndKind.BROKEN, 2]),
        ("time.sleep(0.5); link.send(b'-1')", "time.sleep(100)", [-1, EndKind.TIMED_OUT]),
    ],
)
def test_a_reply_or_end_is_collected_from_all_processes(
    tmp_path: Path, first: str, second: str, due: list[Any]
) -> None:
    """After one process has failed, the other process must reply within the grace period instead of the full
    limit.
    """
    variables = {**os.environ, "PYTHONPATH": python_path()}
    children = [
        Child.exec(
            [sys.executable, "-c", f"CODE = {code!r}\n{TOGETHER}"],
            variables,
            log=tmp_path / str(number),
            channel=True,
        )
        for number, code in enumerate((first, second))
    ]
    start = time.monotonic()
    with children[0], children[1]:
        replies = receive_all(children, json.loads, limit=60, grace=0.5, ok=lambda reply: reply > 0)
        ends = [reply.how if isinstance(reply, ChildEnd) else reply for reply in replies]
    assert ends == due and time.monotonic() - start < 10
    timed_out = [reply for reply in replies if isinstance(reply, ChildEnd) and reply.how is EndKind.TIMED_OUT]
    assert all("in inner" in end.stacks for end in timed_out)


def test_a_closed_iterator_ends_the_processes_that_work(tmp_path: Path) -> None:
    spawn = WorkerSpawner(tmp_path)
    with make_supervisor(spawn, workers=2) as supervisor:
        units = supervisor.run_units([1, "time.sleep(100)"], silence=60)
        next(units)
        units.close()  # type: ignore[attr-defined]
        wait_until_true(lambda: len([child for child in spawn.children if is_running(child.pid)]) <= 1)
