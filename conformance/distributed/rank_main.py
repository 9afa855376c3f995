"""``python -m conformance.distributed.rank_main``: the process of one rank.

The process brings the backend up, joins the process group, and runs the rank programs that the worker names.
It sends its replies through a channel. The output of the programs goes to a log file.
"""

from __future__ import annotations

import argparse
import importlib
import os
import time
from typing import Any

from conformance.distributed import PREPARE
from conformance.process_control.parent_link import ParentLink


def main() -> None:
    """Join the process group, and run rank programs until the worker closes the channel."""
    parser = argparse.ArgumentParser(prog="python -m conformance.distributed.rank_main")
    parser.add_argument("target")
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--size", type=int, required=True)
    parser.add_argument("--meeting", required=True, help="path of a file that all ranks use to meet")
    parser.add_argument("--timeout", type=float, required=True, help="time limit of a collective in seconds")
    options = parser.parse_args()
    link = ParentLink.connect()
    from conformance.distributed.rank_replies import RankReply, ReplyKind, from_bytes

    try:
        rank = join_process_group(options)
    except BaseException as error:
        send_reply(link, error_reply(options.rank, error, 0.0))
        raise
    send_reply(link, RankReply(options.rank, ReplyKind.VALUE))  # reports that this rank has joined the group
    while (message := link.receive()) is not None:
        name, arguments = from_bytes(message)
        send_reply(link, run_program(rank, name, arguments))
    leave_process_group_and_exit()


def send_reply(link: ParentLink, reply: Any) -> None:
    """Send a reply to the worker."""
    from conformance.distributed.rank_replies import to_bytes

    link.send(to_bytes(reply))


def join_process_group(options: argparse.Namespace) -> Any:
    """Bring the target up, join its process group, and return this process's rank."""
    import torch

    from conformance.device.bring_up import bring_up_in_this_process
    from conformance.distributed.rank_programs import Rank
    from conformance.errors import UsageError
    from conformance.target import file as target_file

    prepare = os.environ.get(PREPARE)
    if prepare:
        importlib.import_module(prepare).prepare()
    target = target_file.load(options.target).target("distributed")
    bring_up_in_this_process(target)
    device = torch.device(target.device)
    if target.device_per_rank:
        count = target.device_count()
        if options.rank >= count:
            raise UsageError(
                f"rank {options.rank} needs a device of its own, but the number of devices is {count}; "
                "use fewer ranks with -n"
            )
        device = torch.device(target.device, options.rank)
        if target.is_known_to_torch_accelerator:
            torch.accelerator.set_device_index(device.index)
    rank = Rank(options.rank, options.size, device, target, options.meeting, options.timeout)
    rank.join_process_group(options.meeting)
    return rank


def run_program(rank: Any, name: str, arguments: dict[str, Any]) -> Any:
    """Run a rank program and return its reply. An exception of the program is returned as a reply too."""
    from conformance.distributed.rank_programs import find_program
    from conformance.distributed.rank_replies import RankReply, ReplyKind

    start = time.monotonic()
    try:
        value = find_program(name)(rank, **arguments)
        rank.synchronize()
    except Exception as error:
        return error_reply(rank.rank, error, time.monotonic() - start)
    return RankReply(rank.rank, ReplyKind.VALUE, value, seconds=time.monotonic() - start)


def error_reply(rank: int, error: BaseException, seconds: float) -> Any:
    """Return the reply for an exception. The reply contains the names of the exception's type and its base
    classes, because the worker may be unable to import these types.
    """
    from conformance.distributed.rank_replies import RankReply, ReplyKind

    names = tuple(kind.__name__ for kind in type(error).__mro__ if kind is not object)
    return RankReply(rank, ReplyKind.ERROR, error=names, text=str(error), seconds=seconds)


def leave_process_group_and_exit() -> None:
    """Destroy the process group and exit this process."""
    import torch.distributed as dist

    if dist.is_initialized():
        dist.destroy_process_group()
    os._exit(0)  # skip the exit handlers and threads of a backend, which are not tested here


if __name__ == "__main__":
    main()
