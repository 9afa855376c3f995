"""``process_control.child`` terminates a child process together with its descendants, reports how the child
ended, and never blocks the parent.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from conformance.process_control.channel import HEADER
from conformance.process_control.child import Child, ChildEnd, EndKind, stop
from conformance.process_control.supervisor import dump_stacks, wait_for_end
from tests.support import python_path

LINK = """
import ctypes, os, signal, subprocess, sys, time
from conformance.process_control.parent_link import ParentLink
link = ParentLink.connect()
"""
#: Code of a child process: fork a process that ignores SIGTERM, print its process id, and continue.
GRANDCHILD = """
import os, signal, sys, time
reading, writing = os.pipe()
pid = os.fork()
if pid == 0:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.write(writing, b"x")
    time.sleep(100)
os.read(reading, 1)
print(pid, flush=True)
"""


def python_child(folder: Path, code: str, *, channel: bool = False, stdout: bool = True) -> Child:
    variables = {**os.environ, "PYTHONPATH": python_path()}
    return Child.exec(
        [sys.executable, "-c", code], variables, log=folder / "log", channel=channel, stdout=stdout
    )


def is_running(pid: int) -> bool:
    """Return whether the process exists and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until_true(test: Callable[[], object], seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not test():
        assert time.monotonic() < end, f"{test} did not become true within {seconds:g} s"
        time.sleep(0.01)


SIGNALS = ["SIGKILL", "SIGTERM", "SIGSEGV", "SIGABRT", "SIGBUS", "SIGILL", "SIGFPE"]


@pytest.mark.parametrize("name", SIGNALS)
def test_a_signal_that_ends_a_process_is_a_crash(tmp_path: Path, name: str) -> None:
    code = f"import os, signal; print('words', flush=True); os.kill(os.getpid(), signal.{name})"
    with python_child(tmp_path, code) as child:
        end = wait_for_end(child, limit=60)
    assert end == ChildEnd(EndKind.CRASHED, -getattr(signal, name), "words\n")
    assert (end.signal, end.cause, end.last_line) == (name, f"signal {name}", "words")


@pytest.mark.parametrize("code", [0, 1, 3, 255])
def test_an_exit_code_is_not_a_crash(tmp_path: Path, code: int) -> None:
    with python_child(tmp_path, f"import os; os._exit({code})") as child:
        end = wait_for_end(child, limit=60)
    assert (end.how, end.code, end.signal, end.cause) == (EndKind.EXITED, code, None, f"exit code {code}")


def test_a_command_that_does_not_exist_is_an_error_of_the_caller(tmp_path: Path) -> None:
    before = os.listdir("/proc/self/fd")
    for command in (["/no/such/program"], ["python", "a\0b"]):
        with pytest.raises((OSError, ValueError)):
            Child.exec(command, log=tmp_path / "log", channel=True)
    assert os.listdir("/proc/self/fd") == before


def test_standard_output_can_be_dropped(tmp_path: Path) -> None:
    code = "import sys; print('out'); print('err', file=sys.stderr)"
    with python_child(tmp_path, code, stdout=False) as child:
        assert wait_for_end(child).log_tail == "err\n"
    with python_child(tmp_path, code) as child:
        assert sorted(wait_for_end(child).log_tail.split()) == ["err", "out"]
    assert sorted((tmp_path / "log").read_text().split()) == ["err", "err", "out"]


def test_megabytes_of_output_do_not_block_and_only_their_end_is_kept(tmp_path: Path) -> None:
    code = (
        "import os\nfor _ in range(40): os.write(1, b'o' * 250_000); os.write(2, b'e' * 250_000)\nprint('!')"
    )
    with python_child(tmp_path, code) as child:
        end = wait_for_end(child, limit=60)
    assert end.how is EndKind.EXITED and end.log_tail.endswith("e!\n") and len(end.log_tail) < 5000
    assert (tmp_path / "log").stat().st_size == 20_000_002


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.parametrize("last", ["os.kill(os.getpid(), signal.SIGSEGV)", "os._exit(0)", "time.sleep(100)"])
def test_descendants_end_with_the_process(tmp_path: Path, last: str) -> None:
    with python_child(tmp_path, GRANDCHILD + last) as child:
        wait_until_true(lambda: (tmp_path / "log").read_text().endswith("\n"))
        grandchild = int((tmp_path / "log").read_text())
        if "sleep" in last:
            assert is_running(grandchild)
            assert child.stop() == ChildEnd(EndKind.STOPPED, -signal.SIGTERM, f"{grandchild}\n")
        else:
            wait_for_end(child, limit=60)
        wait_until_true(lambda: not is_running(grandchild))


@pytest.mark.parametrize(
    ("before", "number"),
    [
        ("ctypes.PyDLL(None).sleep(100)", signal.SIGTERM),  # sleeps while it holds the GIL
        ("signal.signal(signal.SIGTERM, signal.SIG_IGN); link.send(b''); time.sleep(100)", signal.SIGKILL),
        ("os.kill(os.getpid(), signal.SIGSTOP)", signal.SIGKILL),
    ],
)
def test_a_process_that_hangs_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str, number: int
) -> None:
    monkeypatch.setattr("conformance.process_control.child.STOP", 0.2)
    with python_child(tmp_path, f"{LINK}link.send(b'')\n{before}", channel=True) as child:
        assert child.receive(60) == b""
        if "IGN" in before:
            assert child.receive(60) == b""
        start = time.monotonic()
        assert child.receive(0.1) is None and 0.1 <= time.monotonic() - start < 1.0
        end = wait_for_end(child, silence=0.2)
    assert (end.how, end.code) == (EndKind.STALLED, -number)
    assert not is_running(child.pid) and wait_for_end(child) is end and child.stop() is end


def test_a_heartbeat_extends_the_silence_limit_but_not_the_total_limit(tmp_path: Path) -> None:
    beats = []

    def heartbeat() -> bool:
        beats.append(time.monotonic())
        return True

    with python_child(tmp_path, "import time; time.sleep(100)") as child:
        end = wait_for_end(child, silence=0.05, limit=0.7, heartbeat=heartbeat)
    assert end.how is EndKind.TIMED_OUT and len(beats) > 3


def test_an_error_or_an_interrupt_while_it_is_watched_ends_the_process(tmp_path: Path) -> None:
    def interrupt() -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), python_child(tmp_path, "import time; time.sleep(100)") as child:
        wait_for_end(child, heartbeat=interrupt)
    assert not is_running(child.pid)


def test_messages_of_any_size_arrive_in_order_and_before_the_end(tmp_path: Path) -> None:
    code = "while (message := link.receive()) is not None: link.send(message)"
    sizes = [0, 1, 100_000, 5_000_000, 3]
    with python_child(tmp_path, LINK + code, channel=True) as child:
        for size in sizes:
            child.send(bytes([size % 251]) * size)
        assert [child.receive(60) for _ in sizes] == [bytes([size % 251]) * size for size in sizes]

    with python_child(tmp_path, f"{LINK}link.send(b'last'); os._exit(7)", channel=True) as child:
        wait_until_true(child.has_ended)
        child.send(b"nobody reads it")
        assert child.receive(60) == b"last"
        assert child.receive(60) == ChildEnd(EndKind.EXITED, 7)


def test_a_process_that_does_not_read_does_not_block_the_parent(tmp_path: Path) -> None:
    with python_child(tmp_path, f"{LINK}link.send(b'up'); time.sleep(100)", channel=True) as child:
        assert child.receive(60) == b"up"
        start = time.monotonic()
        for _ in range(20):
            child.send(b"x" * 1_000_000)
        assert child.receive(0.1) is None
        assert time.monotonic() - start < 1.0


def test_both_may_send_more_than_the_channel_holds_at_once(tmp_path: Path) -> None:
    code = "[link.send(b'c' * 1_000_000) for _ in range(5)]; link.send(str(len(link.receive())).encode())"
    with python_child(tmp_path, LINK + code, channel=True) as child:
        child.send(b"p" * 5_000_000)
        assert [len(child.receive(60) or b"") for _ in range(5)] == [1_000_000] * 5  # type: ignore[arg-type]
        assert child.receive(60) == b"5000000"


def test_messages_wait_in_the_channel_and_not_in_memory(tmp_path: Path) -> None:
    with python_child(tmp_path, LINK + "while True: link.send(b'x' * 100_000)", channel=True) as child:
        assert child.receive(60) == b"x" * 100_000
        time.sleep(0.3)
        for _ in range(50):
            assert child.receive(60) == b"x" * 100_000
        assert child.channel is not None and len(child.channel._incoming) < 3_000_000


def test_an_impossible_message_length_is_unreadable(tmp_path: Path) -> None:
    code = "os.write(link._channel.fileno(), b'\\xff' * 100); time.sleep(100)"
    with python_child(tmp_path, LINK + code, channel=True) as child:
        end = child.receive(60)
    assert isinstance(end, ChildEnd) and end.how is EndKind.BROKEN


def test_a_message_of_a_process_that_dies_while_sending_is_dropped(tmp_path: Path) -> None:
    code = f"os.write(link._channel.fileno(), {HEADER.pack(10)!r} + b'half'); os._exit(0)"
    with python_child(tmp_path, LINK + code, channel=True) as child:
        assert child.receive(60) == ChildEnd(EndKind.EXITED, 0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_messages_of_a_left_behind_descendant_are_ignored(tmp_path: Path) -> None:
    code = "link.send(b'up')\nif os.fork(): time.sleep(0.3); os._exit(0)\n"
    code += "while True: link._channel.sendall(bytes(8) * 10_000)"
    with python_child(tmp_path, LINK + code, channel=True) as child:
        wait_until_true(child.has_ended)
        limit = time.monotonic() + 10
        while not isinstance(child.receive(1), ChildEnd):
            assert time.monotonic() < limit


def test_sending_to_a_process_that_dies_is_not_an_error(tmp_path: Path) -> None:
    code = "link.send(b'up'); link._channel.recv(1000); os.kill(os.getpid(), signal.SIGKILL)"
    with python_child(tmp_path, LINK + code, channel=True) as child:
        assert child.receive(60) == b"up"
        for _ in range(10):
            child.send(b"x" * 1_000_000)
        assert child.receive(60) == ChildEnd(EndKind.CRASHED, -signal.SIGKILL)
        child.send(b"x")
        assert child.receive(0) == ChildEnd(EndKind.CRASHED, -signal.SIGKILL)


def test_a_process_that_closes_its_channel_and_hangs_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("conformance.process_control.child.LEAVE", 0.2)
    with python_child(tmp_path, LINK + "os.closerange(3, 100); time.sleep(100)", channel=True) as child:
        end = child.receive(60)
    assert isinstance(end, ChildEnd) and end.how is EndKind.BROKEN


def test_a_process_that_closes_its_channel_may_end_by_itself(tmp_path: Path) -> None:
    code = "os.closerange(3, 100); time.sleep(0.5); raise OSError('no driver')"
    with python_child(tmp_path, LINK + code, channel=True) as child:
        end = child.receive(60)
    assert isinstance(end, ChildEnd) and (end.how, end.code) == (EndKind.EXITED, 1)
    assert end.last_line == "OSError: no driver"


def test_a_process_may_exit_by_itself_after_its_channel_is_closed(tmp_path: Path) -> None:
    code = "link.send(b'')\nassert link.receive() is None\nprint('left')"
    children = []
    for name in ("first", "second"):  # separate logs, because both print at the same time
        (tmp_path / name).mkdir()
        children.append(python_child(tmp_path / name, LINK + code, channel=True))
    stubborn = python_child(tmp_path, LINK + "link.send(b''); time.sleep(100)", channel=True)
    for child in (*children, stubborn):
        assert child.receive(60) == b""
    ends = stop([*children, stubborn], grace_seconds=1.0)
    assert [end.how for end in ends] == [EndKind.EXITED, EndKind.EXITED, EndKind.STOPPED]
    assert ends[0].last_line == "left"


def test_stacks_are_dumped_also_with_the_gil_held(tmp_path: Path) -> None:
    text = LINK + "def inner():\n    link.send(b''); ctypes.PyDLL(None).sleep(100)\ninner()"
    children = [python_child(tmp_path, text, channel=True), python_child(tmp_path, "print()")]
    assert children[0].receive(60) == b""
    wait_until_true(children[1].has_ended)
    first, _ = dump_stacks(children)
    stop(children)
    assert "in inner" in first and "most recent call first" in first


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_a_forked_process(capfd: pytest.CaptureFixture[str]) -> None:
    def work(code: int) -> Callable[[object], int]:
        def run(link: object) -> int:
            print("printed", flush=True)
            link.send(b"hello")  # type: ignore[attr-defined]
            return os.kill(os.getpid(), -code) or 0 if code < 0 else code

        return run

    for code in (0, 4, -signal.SIGKILL):
        with Child.fork(work(code)) as child:
            assert child.receive(60) == b"hello"
            end = wait_for_end(child, limit=60)
        assert end.code == code and end.how is (EndKind.CRASHED if code < 0 else EndKind.EXITED)
    assert capfd.readouterr().out == "printed\n" * 3
    with Child.fork(lambda link: time.sleep(100) or 0) as child:
        pass
    assert child.end is not None and child.end.how is EndKind.STOPPED and not is_running(child.pid)


PARENT = """
import os, sys, time
from pathlib import Path
from conformance.process_control.child import Child
child = Child.exec([sys.executable, "-c", CODE], log=Path("log"), channel=True)
fork = Child.fork(lambda link: (link.send(b"x"), __import__("ctypes").PyDLL(None).sleep(100)))
assert child.receive(60) and fork.receive(60)
print(child.pid, fork.pid, flush=True)
time.sleep(100)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_children_end_if_their_parent_is_killed(tmp_path: Path) -> None:
    hangs = LINK + "link.send(b'x'); ctypes.PyDLL(None).sleep(100)"
    variables = {**os.environ, "PYTHONPATH": python_path()}
    with subprocess.Popen(
        [sys.executable, "-c", f"CODE = {hangs!r}\n{PARENT}"],
        cwd=tmp_path,
        env=variables,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        pids = [int(number) for number in parent.stdout.readline().split()]
        assert len(pids) == 2 and all(map(is_running, pids))
        parent.send_signal(signal.SIGKILL)
    wait_until_true(lambda: not any(map(is_running, pids)))
