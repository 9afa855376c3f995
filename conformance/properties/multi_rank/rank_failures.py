"""Ranks that stay away, die or make impossible calls: an error is due in time, and nothing may hang."""

from __future__ import annotations

import datetime
import os
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from conformance.distributed import patient
from conformance.distributed.rank_programs import Rank, agree, program, total
from conformance.distributed.rank_replies import Ending, RankReply
from conformance.model.verdicts import Kind
from conformance.properties.multi_rank._multi_rank_checks import Bench, together
from conformance.properties.multi_rank.process_groups import total_of

#: Seconds that a group of a test has for a collective, and that torch may take on top to report its timeout.
_TIMEOUT = 3.0
_MORE = 20.0


def impatient_group(rank: Rank, folder: str) -> Any:
    """Return a group of all ranks whose collectives give up after ``_TIMEOUT`` seconds, used once.

    A file ``ready-RANK`` in the folder says that it works.
    """
    import torch.distributed as dist

    group = dist.new_group(list(range(rank.size)), timeout=datetime.timedelta(seconds=patient(_TIMEOUT)))
    if total(rank, group) == total_of(rank.size):
        (Path(folder) / f"ready-{rank.rank}").touch()
    return group


@program
def all_but_the_last(rank: Rank, folder: str, away: float) -> str | None:
    """Return the message of the error of a collective without the last rank.

    The last rank waits until each of the others has put a file ``done-RANK`` into the folder.
    """
    group = impatient_group(rank, folder)
    signs = Path(folder)
    if rank.rank == rank.size - 1:
        end = time.monotonic() + away
        while len(list(signs.glob("done-*"))) < rank.size - 1 and time.monotonic() < end:
            time.sleep(0.05)
        return None
    try:
        total(rank, group)
        rank.synchronize()
    except RuntimeError as error:
        return str(error)
    finally:
        (signs / f"done-{rank.rank}").touch()
    return ""


def ended_in_time(bench: Bench, answers: list[Any], what: str, sufferers: range) -> None:
    """Check that each of these ranks has raised, or ended as the watchdogs of some backends do, and none is
    late.
    """
    for number in sufferers:
        answer = answers[number]
        bench.fact(
            answer.ending is not Ending.LATE,
            f"rank {number} still waits {patient(_TIMEOUT + _MORE):.0f} s after {what} "
            f"(timeout {patient(_TIMEOUT):.0f} s).",
            Kind.TIMEOUT,
        )
        bench.fact(
            not (answer.ok and answer.value == ""),
            f"a sum on rank {number} ended without an error although {what}.",
        )
        if answer.ok and answer.value:
            bench.fact(
                len(answer.value.split()) > 2, f"the error on rank {number} says only {answer.value!r}."
            )


def suffer(bench: Bench, program: Any, what: str) -> list[RankReply] | None:
    """Return the answers of a program in which all but the last rank must end with an error, and in time.

    Only ranks whose group had worked before count: what else goes wrong is a failure of its own.
    """
    limit = _TIMEOUT + _MORE
    with tempfile.TemporaryDirectory() as folder:
        answers = bench.answers(program, folder=folder, away=patient(limit), limit=limit + 2, grace=limit)
        ready = len(list(Path(folder).glob("ready-*")))
    if answers is None:
        return None
    if not bench.fact(
        ready == bench.size,
        f"a group with a short timeout did not work on {bench.size - ready} ranks before {what}: "
        + "; ".join(answer.words() for answer in answers),
    ):
        return None
    ended_in_time(bench, answers, what, range(bench.size - 1))
    return answers


@together("failures", level="core")
def a_rank_stays_away(bench: Bench) -> None:
    """If a rank does not take part the others get an error after the timeout of the group."""
    answers = suffer(bench, all_but_the_last, "the last rank stayed away")
    if answers is not None:
        last = answers[-1]
        bench.fact(last.ok, f"the rank that stayed away had to end without an error, but {last.words()}.")
        for answer in answers[:-1]:
            bench.fact(
                answer.seconds >= patient(_TIMEOUT) * 0.5 or answer.ending is Ending.GONE,
                f"the sum on rank {answer.rank} failed after {answer.seconds:.1f} s, before its timeout.",
            )


@program
def the_last_dies(rank: Rank, folder: str, away: float) -> str | None:
    """Return the message of the error of a collective while the last rank kills itself."""
    group = impatient_group(rank, folder)
    if rank.rank == rank.size - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        total(rank, group)
        rank.synchronize()
    except RuntimeError as error:
        return str(error)
    return ""


@together("failures", level="core")
def a_rank_dies(bench: Bench) -> None:
    """If the process of a rank is killed the others get an error within the timeout of the group."""
    answers = suffer(bench, the_last_dies, "the last rank was killed")
    if answers is not None and answers[-1].ending is not Ending.GONE:
        raise AssertionError(f"a rank had to be killed, but {answers[-1].words()}")


def wrong_calls(rank: Rank) -> dict[str, Any]:
    """Return calls with impossible arguments, by what is wrong with them; the same on all ranks."""
    import torch.distributed as dist

    def tensor(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.ones(shape, dtype=dtype, device=rank.device)

    size = rank.size
    return {
        "all_gather into too few tensors": lambda: dist.all_gather([tensor(3)] * (size - 1), tensor(3)),
        "all_gather into tensors of another dtype": lambda: dist.all_gather(
            [tensor(3, dtype=torch.float64) for _ in range(size)], tensor(3)
        ),
        "all_gather_into_tensor of another size": lambda: dist.all_gather_into_tensor(
            tensor(3 * size + 1), tensor(3)
        ),
        "reduce_scatter_tensor of another size": lambda: dist.reduce_scatter_tensor(
            tensor(3), tensor(3 * size + 1)
        ),
        "all_to_all of too few tensors": lambda: dist.all_to_all(
            [tensor(3) for _ in range(size + 1)], [tensor(3) for _ in range(size + 1)]
        ),
        "all_to_all_single with sizes that do not add up": lambda: dist.all_to_all_single(
            tensor(size), tensor(size), [2] * size, [2] * size
        ),
        "broadcast from a rank that is not there": lambda: dist.broadcast(tensor(3), src=size),
        "a list in place of a tensor": lambda: dist.all_reduce([tensor(3)]),
        "a sparse tensor": lambda: dist.broadcast(torch.eye(3).to_sparse().to(rank.device), src=0),
    }


@program
def wrongly_called(rank: Rank, name: str) -> bool:
    """Return whether a wrong call was accepted as if it were a right one."""
    try:
        wrong_calls(rank)[name]()
        rank.synchronize()
    except (RuntimeError, ValueError, TypeError, NotImplementedError):
        return False
    return True


@program
def names_of_wrong_calls(rank: Rank) -> list[str]:
    """Return the names of :func:`wrong_calls`."""
    return list(wrong_calls(rank))


@together("failures", level="core")
def wrong_calls_are_refused(bench: Bench) -> None:
    """Calls whose arguments cannot fit are refused on every rank, and the group is as good as before."""
    for name in (bench.values(names_of_wrong_calls) or [[]])[0]:
        # Each by itself: ranks that disagree, or wait for each other, lose their world.
        answers = bench.values(wrongly_called, name=name)
        if answers is None:
            continue
        for number, accepted in enumerate(answers):
            bench.fact(not accepted, f"{name} was accepted on rank {number}.", Kind.REFUSED)
        for number, after in enumerate(bench.values(agree) or ()):
            bench.same(f"the sum on rank {number} after {name}", after, total_of(bench.size))


@program
def without_a_group(rank: Rank) -> list[str]:
    """Call a collective of a group that only rank 0 is in; return the tensor as text on the other ranks."""
    import torch.distributed as dist

    alone = dist.new_group([0])
    texts = []
    if rank.rank != 0:
        tensor = torch.ones(3, device=rank.device)
        dist.all_reduce(tensor, group=alone)  # a warning, and nothing else
        texts.append(str(tensor.cpu().tolist()))
    return texts


@together("failures")
def calls_outside_of_a_group(bench: Bench) -> None:
    """A collective that is called by a rank outside the group does nothing on that rank."""
    for number, texts in enumerate(bench.values(without_a_group) or ()):
        if number:
            bench.same(f"the tensor on rank {number}", texts, ["[1.0, 1.0, 1.0]"])
