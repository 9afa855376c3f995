"""Rank pools reply to rank programs, are replaced after an error, and leave no process and no file behind."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from conformance.distributed import worker_ranks
from conformance.distributed.collective_results import elementwise_reduction
from conformance.distributed.collectives import input_tensor_of_rank
from conformance.distributed.rank_pool import RankPool
from conformance.distributed.rank_programs import sum_over_all_ranks
from conformance.distributed.rank_replies import RankReply, ReplyKind, from_bytes, to_bytes
from conformance.framework.recorder import Recorder
from conformance.model.verdicts import Kind, ResultId, Verdict
from conformance.target import file as target_file
from tests.support import python_path
from tests.support import rank_programs as programs


@pytest.fixture()
def pool(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[RankPool]:
    monkeypatch.setenv("PYTHONPATH", python_path())
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    pool = RankPool("cpu", 2, timeout=20.0)
    yield pool
    pool.kill()


def pids_of_ranks(pool: RankPool) -> list[int]:
    return [answer.value[1] for answer in pool.run(programs.rank_and_pid)]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def have_exited(pids: list[int], within: float = 10.0) -> bool:
    end = time.monotonic() + within
    while any(map(is_alive, pids)) and time.monotonic() < end:
        time.sleep(0.05)
    return not any(map(is_alive, pids))


def test_replies_are_in_rank_order_and_processes_are_reused(pool: RankPool, tmp_path: Path) -> None:
    first = pool.run(programs.rank_and_pid)
    assert [answer.value[0] for answer in first] == [0, 1]
    assert pids_of_ranks(pool) == [answer.value[1] for answer in first]
    for answer in pool.run(programs.various_tensors):
        wide = torch.arange(12).reshape(3, 4)
        expected_tensors = [
            wide.t(),
            wide[:, ::2],
            torch.ones(2, 0),
            torch.tensor(1 + 2j),
            torch.ones(2).bfloat16(),
        ]
        for actual, expected in zip(answer.value, expected_tensors, strict=True):
            assert actual.dtype == expected.dtype and torch.equal(actual, expected)
    ranks = pids_of_ranks(pool)
    pool.close()
    assert have_exited(ranks) and not list(tmp_path.iterdir())


def test_an_error_on_one_rank_ends_the_pool(pool: RankPool) -> None:
    before = pids_of_ranks(pool)
    first, second = pool.run(programs.raise_on_ranks, ranks=[1], grace=0.5)
    assert first.ending is ReplyKind.LATE
    assert (second.ending, second.error[0], second.text) == (ReplyKind.ERROR, "ValueError", "no 1")
    assert isinstance(second.exception(), ValueError)
    assert have_exited(before) and set(pids_of_ranks(pool)).isdisjoint(before)


def test_the_same_error_on_all_ranks_keeps_the_pool(pool: RankPool) -> None:
    before = pids_of_ranks(pool)
    answers = pool.run(programs.raise_on_ranks, ranks=[0, 1])
    assert [answer.text for answer in answers] == ["no 0", "no 1"]
    assert pids_of_ranks(pool) == before


def test_the_same_error_after_an_unfinished_collective_ends_the_pool(
    pool: RankPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("conformance.distributed.rank_pool.AGREE", 2.0)
    before = pids_of_ranks(pool)
    assert all(answer.ending is ReplyKind.ERROR for answer in pool.run(programs.raise_out_of_step))
    assert set(pids_of_ranks(pool)).isdisjoint(before)


def test_a_dead_rank_is_reported_with_its_last_output(pool: RankPool, tmp_path: Path) -> None:
    before = pids_of_ranks(pool)
    first, second = pool.run(programs.kill_rank_one, grace=0.5)
    assert first.ending is ReplyKind.LATE and second.ending is ReplyKind.GONE
    assert second.text == "signal SIGKILL: my last words"
    assert have_exited(before) and not list(tmp_path.iterdir())


def test_ranks_that_hang_have_the_ending_late(pool: RankPool) -> None:
    before = pids_of_ranks(pool)
    start = time.monotonic()
    assert [answer.ending for answer in pool.run(programs.sleep_for_long, limit=1.0)] == [ReplyKind.LATE] * 2
    assert time.monotonic() - start < 5.0 and have_exited(before)


def test_a_backend_that_cannot_be_imported_is_an_error_of_its_ranks(tmp_path: Path, pool: RankPool) -> None:
    file = tmp_path / "nothing.toml"
    file.write_text('schema = 1\nname = "n"\ndevice = "cpu"\nmodule = "not_there"\nmodes = ["distributed"]\n')
    failing_pool = RankPool(str(file), 2)
    answers = failing_pool.run(programs.rank_and_pid)
    assert {answer.ending for answer in answers} <= {ReplyKind.ERROR, ReplyKind.LATE}
    assert any("not_there" in answer.text for answer in answers)


def test_ranks_end_with_a_worker_that_is_killed(pool: RankPool, tmp_path: Path) -> None:
    code = (
        "import time\nfrom tests.support import rank_programs as p\n"
        "from conformance.distributed.rank_pool import RankPool\n"
        "w = RankPool('cpu', 2)\n"
        "print(*(a.value[1] for a in w.run(p.rank_and_pid)), flush=True)\n"
        "time.sleep(1000)\n"
    )
    command, variables = [sys.executable, "-c", code], os.environ | {"PYTHONPATH": python_path()}
    with subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        ranks = [int(pid) for pid in worker.stdout.readline().split()]
        assert len(ranks) == 2 and all(map(is_alive, ranks))
        worker.send_signal(signal.SIGKILL)
    assert have_exited(ranks)


@pytest.mark.parametrize(
    ("answers", "kind", "message"),
    [
        (
            [RankReply(0, ReplyKind.LATE), RankReply(1, ReplyKind.GONE, text="exit code 3")],
            Kind.CRASH,
            "rank 1 ended",
        ),
        (
            [RankReply(0, ReplyKind.VALUE), RankReply(1, ReplyKind.LATE)],
            Kind.TIMEOUT,
            "no answer in time from rank 1",
        ),
        (
            [RankReply(0, ReplyKind.LATE), RankReply(1, ReplyKind.ERROR, error=("KeyError",), text="'a'")],
            Kind.EXCEPTION,
            "on rank 1 raised KeyError",
        ),
        (
            [RankReply(0, ReplyKind.ERROR, error=("NotImplementedError",), text="no")] * 2,
            Kind.REFUSED,
            "on rank 0 was refused",
        ),
    ],
)
def test_the_first_cause_is_the_failure(answers: list[RankReply], kind: Kind, message: str) -> None:
    recorder = Recorder(ResultId.parse("a/b@any"), seed=0)
    target = target_file.load("cpu").target("distributed")
    assert not worker_ranks.require_values_from_all_ranks(target, recorder, answers, "it")
    (failure,) = recorder.result().failures
    assert failure.kind is kind and message in failure.message


def test_a_declared_refusal_is_unsupported() -> None:
    recorder = Recorder(ResultId.parse("collective-value/all_reduce@int16"), seed=0)
    target = target_file.load("cpu").target("distributed")
    answers = [RankReply(rank, ReplyKind.ERROR, error=("ValueError",), text="no") for rank in (0, 1)]
    assert not worker_ranks.require_values_from_all_ranks(target, recorder, answers, "it")
    assert recorder.result().verdict is Verdict.UNSUPPORTED


def test_encoded_messages_decode_to_equal_values() -> None:
    message = {"a": [1, None, "é"], "t": (torch.zeros(0, 3), torch.tensor(True))}
    decoded = from_bytes(to_bytes(message))
    assert decoded["a"] == message["a"]
    assert [(t.dtype, t.shape) for t in decoded["t"]] == [(t.dtype, t.shape) for t in message["t"]]


def remaining_files(folder: Path) -> tuple[list[str], list[str], int]:
    """Return the file names in the temporary folder, the file names in shared memory, and the number of open
    files of this process.
    """
    shared = Path("/dev/shm")
    return (
        sorted(path.name for path in folder.iterdir()),
        sorted(path.name for path in shared.iterdir()) if shared.is_dir() else [],
        len(list(Path("/proc/self/fd").iterdir())) if Path("/proc/self/fd").is_dir() else 0,
    )


@pytest.mark.nightly("each case starts ranks; the nightly run has all devices", every=2)
@pytest.mark.parametrize("device", ["cpu", "hpu-reference"])
def test_rank_pools_leave_nothing_behind(device: str, pool: RankPool, tmp_path: Path) -> None:
    """A rank pool leaves no process, no temporary file, no shared memory and no open file behind.

    CONFORMANCE_CYCLES is the number of rank pools that the test starts and ends, one after another. The
    default number suffices to detect a leak.
    """
    if device != "cpu":
        pytest.importorskip("habana_frameworks.torch", reason="the reference device is not built")
    before = remaining_files(tmp_path)
    for cycle in range(int(os.environ.get("CONFORMANCE_CYCLES", "3"))):
        short_lived = RankPool(device, 2)
        replies = short_lived.run(programs.rank_and_pid)
        assert all(answer.ok for answer in short_lived.run(sum_over_all_ranks)), replies
        (short_lived.kill if cycle % 4 == 3 else short_lived.close)()
        assert have_exited([answer.value[1] for answer in replies])
    assert remaining_files(tmp_path) == before


@pytest.mark.parametrize("size", range(2, 9))
def test_inputs_of_ranks_and_reduced_values_differ(size: int) -> None:
    """Inputs differ between ranks, and the elements of a reduced tensor differ from each other. Otherwise the
    tests of collectives would not detect exchanged ranks or constant results.
    """
    inputs = [input_tensor_of_rank(rank, (35,), torch.float32) for rank in range(size)]
    assert all(not torch.equal(a, b) for a, b in itertools.combinations(inputs, 2))
    for reduction in ("sum", "min", "max", "avg"):
        assert len(elementwise_reduction(inputs, reduction).unique()) > 1, reduction
    factors = [input_tensor_of_rank(rank, (35,), torch.int64, reduction="product") for rank in range(size)]
    assert len(elementwise_reduction(factors, "product").unique()) > 1
