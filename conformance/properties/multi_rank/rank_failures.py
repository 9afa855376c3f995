"""Check that the other ranks get an error in time if a rank does not take part, is killed, or makes an
impossible call.
"""

from __future__ import annotations

import datetime
import os
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from conformance.distributed import scale_time_limit
from conformance.distributed.rank_programs import Rank, program, sum_over_all_ranks, sum_over_ranks
from conformance.distributed.rank_replies import RankReply, ReplyKind
from conformance.model.verdicts import Basis, Kind
from conformance.properties.multi_rank._multi_rank_checks import MultiRankChecker, multi_rank_property
from conformance.properties.multi_rank.process_groups import expected_sum_over_ranks

#: ``_TIMEOUT`` is the timeout in seconds of the groups in these checks. ``_GRACE`` is the number of further
#: seconds in which torch must raise an error.
_TIMEOUT = 3.0
_GRACE = 20.0


def make_group_with_short_timeout(rank: Rank, folder: str) -> Any:
    """Return a new group of all ranks with a timeout of ``_TIMEOUT`` seconds.

    The ranks use the group once. If it works, this rank creates the file ``ready-RANK`` in ``folder``.
    """
    import torch.distributed as dist

    group = dist.new_group(
        list(range(rank.size)), timeout=datetime.timedelta(seconds=scale_time_limit(_TIMEOUT))
    )
    if sum_over_ranks(rank, group) == expected_sum_over_ranks(rank.size):
        (Path(folder) / f"ready-{rank.rank}").touch()
    return group


@program
def collective_without_last_rank(rank: Rank, folder: str, wait_limit: float) -> str | None:
    """Call a collective on all ranks except the last, and return its error message.

    The last rank waits until each of the other ranks has created a file ``done-RANK`` in ``folder``.
    """
    group = make_group_with_short_timeout(rank, folder)
    signal_folder = Path(folder)
    if rank.rank == rank.size - 1:
        end = time.monotonic() + wait_limit
        while len(list(signal_folder.glob("done-*"))) < rank.size - 1 and time.monotonic() < end:
            time.sleep(0.05)
        return None
    try:
        sum_over_ranks(rank, group)
        rank.synchronize()
    except RuntimeError as error:
        return str(error)
    finally:
        (signal_folder / f"done-{rank.rank}").touch()
    return ""


def check_errors_in_time(
    checker: MultiRankChecker, replies: list[Any], event: str, failing_ranks: range
) -> None:
    """Check that each of ``failing_ranks`` raised an error in time, or that its process ended in time.

    The end of the process is accepted, because the watchdogs of some backends terminate the process.
    """
    for number in failing_ranks:
        reply = replies[number]
        checker.check(
            reply.ending is not ReplyKind.LATE,
            f"rank {number} is still waiting {scale_time_limit(_TIMEOUT + _GRACE):.0f} s after {event} "
            f"(timeout {scale_time_limit(_TIMEOUT):.0f} s).",
            Kind.TIMEOUT,
        )
        checker.check(
            not (reply.ok and reply.value == ""),
            f"a sum on rank {number} ended without an error although {event}.",
        )
        if reply.ok and reply.value:
            checker.check(
                len(reply.value.split()) > 2, f"the error message on rank {number} is only {reply.value!r}."
            )


def run_and_check_errors_in_time(
    checker: MultiRankChecker, program: Any, event: str
) -> list[RankReply] | None:
    """Run a rank program in which all ranks except the last must fail in time, check that they do, and return
    the replies.

    If the group did not work before ``event``, record that as the failure and return None.
    """
    limit = _TIMEOUT + _GRACE
    with tempfile.TemporaryDirectory() as folder:
        replies = checker.run_expecting_failures(
            program, folder=folder, wait_limit=scale_time_limit(limit), limit=limit + 2, grace=limit
        )
        ready = len(list(Path(folder).glob("ready-*")))
    if replies is None:
        return None
    if not checker.check(
        ready == checker.size,
        f"a group with a short timeout did not work on {checker.size - ready} ranks before {event}: "
        + "; ".join(reply.describe() for reply in replies),
    ):
        return None
    check_errors_in_time(checker, replies, event, range(checker.size - 1))
    return replies


@multi_rank_property("failures", level="core")
def a_rank_stays_away(checker: MultiRankChecker) -> None:
    """If a rank does not take part, the remaining ranks get an error after the group's timeout."""
    replies = run_and_check_errors_in_time(checker, collective_without_last_rank, "the last rank stayed away")
    if replies is not None:
        last = replies[-1]
        checker.check(
            last.ok, f"the rank that stayed away had to end without an error, but {last.describe()}."
        )
        for reply in replies[:-1]:
            checker.check(
                reply.seconds >= scale_time_limit(_TIMEOUT) * 0.5 or reply.ending is ReplyKind.GONE,
                f"the sum on rank {reply.rank} failed after {reply.seconds:.1f} s, before its timeout.",
            )


@program
def collective_while_last_rank_dies(rank: Rank, folder: str, wait_limit: float) -> str | None:
    """Kill the process of the last rank. Call a collective on the other ranks. Return the error message."""
    group = make_group_with_short_timeout(rank, folder)
    if rank.rank == rank.size - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        sum_over_ranks(rank, group)
        rank.synchronize()
    except RuntimeError as error:
        return str(error)
    return ""


@multi_rank_property("failures", level="core")
def a_rank_dies(checker: MultiRankChecker) -> None:
    """If the process of a rank is killed, the remaining ranks get an error within the group's timeout."""
    replies = run_and_check_errors_in_time(
        checker, collective_while_last_rank_dies, "the last rank was killed"
    )
    if replies is not None and replies[-1].ending is not ReplyKind.GONE:
        raise AssertionError(f"the last rank should have been killed, but {replies[-1].describe()}")


def wrong_calls(rank: Rank) -> dict[str, Any]:
    """Return calls with impossible arguments, by description. The calls are the same on all ranks."""
    import torch.distributed as dist

    def ones_on_device(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.ones(shape, dtype=dtype, device=rank.device)

    size = rank.size
    return {
        "all_gather into too few tensors": lambda: dist.all_gather(
            [ones_on_device(3)] * (size - 1), ones_on_device(3)
        ),
        "all_gather into tensors of another dtype": lambda: dist.all_gather(
            [ones_on_device(3, dtype=torch.float64) for _ in range(size)], ones_on_device(3)
        ),
        "all_gather_into_tensor of another size": lambda: dist.all_gather_into_tensor(
            ones_on_device(3 * size + 1), ones_on_device(3)
        ),
        "reduce_scatter_tensor of another size": lambda: dist.reduce_scatter_tensor(
            ones_on_device(3), ones_on_device(3 * size + 1)
        ),
        "all_to_all of too many tensors": lambda: dist.all_to_all(
            [ones_on_device(3) for _ in range(size + 1)], [ones_on_device(3) for _ in range(size + 1)]
        ),
        "all_to_all_single with sizes that do not add up": lambda: dist.all_to_all_single(
            ones_on_device(size), ones_on_device(size), [2] * size, [2] * size
        ),
        "broadcast from a rank that does not exist": lambda: dist.broadcast(ones_on_device(3), src=size),
        "a list in place of a tensor": lambda: dist.all_reduce([ones_on_device(3)]),
        "a sparse tensor": lambda: dist.broadcast(torch.eye(3).to_sparse().to(rank.device), src=0),
    }


@program
def accepts_wrong_call(rank: Rank, name: str) -> bool:
    """Make the call that :func:`wrong_calls` returns under a name. Return True if no error was raised."""
    try:
        wrong_calls(rank)[name]()
        rank.synchronize()
    except (RuntimeError, ValueError, TypeError, NotImplementedError):
        return False
    return True


@program
def names_of_wrong_calls(rank: Rank) -> list[str]:
    """Return the names of the calls that :func:`wrong_calls` returns."""
    return list(wrong_calls(rank))


@multi_rank_property(
    "failures",
    level="core",
    basis="parity",
    ground="No page says that these calls raise, except for wrong sizes on the pages of a few functions",
)
def wrong_calls_are_refused(checker: MultiRankChecker) -> None:
    """Calls with impossible arguments are refused on every rank, and the group still works afterwards."""
    for name in (checker.run(names_of_wrong_calls) or [[]])[0]:
        # Run one rank program per call, because the rank pool is lost if ranks disagree or wait for each
        # other.
        replies = checker.run(accepts_wrong_call, name=name)
        if replies is None:
            continue
        for number, accepted in enumerate(replies):
            checker.check(not accepted, f"{name} was accepted on rank {number}.", Kind.REFUSED)
        with checker.recorder.with_basis(Basis.CONSISTENCY):  # a refused call must not break the group
            for number, sum_after in enumerate(checker.run(sum_over_all_ranks) or ()):
                expected = expected_sum_over_ranks(checker.size)
                checker.check_equal(f"the sum on rank {number} after {name}", sum_after, expected)


@program
def collective_outside_group(rank: Rank) -> list[str]:
    """Call a collective of a group that contains only rank 0. The other ranks return their tensor as text."""
    import torch.distributed as dist

    first_rank_group = dist.new_group([0])
    texts = []
    if rank.rank != 0:
        tensor = torch.ones(3, device=rank.device)
        dist.all_reduce(tensor, group=first_rank_group)  # outside the group, torch only warns
        texts.append(str(tensor.cpu().tolist()))
    return texts


@multi_rank_property("failures")
def calls_outside_of_a_group(checker: MultiRankChecker) -> None:
    """A collective that is called by a rank outside the group does not change the tensor of that rank."""
    for number, texts in enumerate(checker.run(collective_outside_group) or ()):
        if number:
            checker.check_equal(f"the tensor on rank {number}", texts, ["[1.0, 1.0, 1.0]"])
