"""``python -m conformance.distributed.rank_main``: one rank of a world, from start to end.

It brings the backend up, joins the process group, and runs the programs that the worker names, one by one.
The worker reads its answers from a channel; what programs print goes to the log.
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
    """Run until the worker closes its end."""
    parser = argparse.ArgumentParser(prog="python -m conformance.distributed.rank_main")
    parser.add_argument("target")
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--size", type=int, required=True)
    parser.add_argument("--meeting", required=True, help="path that the ranks share")
    parser.add_argument("--timeout", type=float, required=True, help="seconds for a collective")
    options = parser.parse_args()
    link = ParentLink.connect()
    from conformance.distributed.rank_replies import Ending, RankReply, unpacked

    try:
        me = join(options)
    except BaseException as error:
        say(link, described(options.rank, error, 0.0))
        raise
    say(link, RankReply(options.rank, Ending.VALUE))  # reports that it has joined
    while (message := link.receive()) is not None:
        name, arguments = unpacked(message)
        say(link, ran(me, name, arguments))
    leave()


def say(link: ParentLink, answer: Any) -> None:
    """Send an answer to the worker."""
    from conformance.distributed.rank_replies import packed

    link.send(packed(answer))


def join(options: argparse.Namespace) -> Any:
    """Bring the target up and join its process group."""
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
        count = torch.accelerator.device_count()
        if options.rank >= count:
            raise UsageError(
                f"rank {options.rank} needs a device of its own, and there are {count}; "
                "use fewer ranks with -n"
            )
        device = torch.device(target.device, options.rank)
        torch.accelerator.set_device_index(device.index)
    rank = Rank(options.rank, options.size, device, target, options.meeting, options.timeout)
    rank.join(options.meeting)
    return rank


def ran(me: Any, name: str, arguments: dict[str, Any]) -> Any:
    """Return the answer of a program, an error as an answer too."""
    from conformance.distributed.rank_programs import find
    from conformance.distributed.rank_replies import Ending, RankReply

    start = time.monotonic()
    try:
        value = find(name)(me, **arguments)
        me.synchronize()
    except Exception as error:
        return described(me.rank, error, time.monotonic() - start)
    return RankReply(me.rank, Ending.VALUE, value, seconds=time.monotonic() - start)


def described(rank: int, error: BaseException, seconds: float) -> Any:
    """Return an exception as an answer: its types by name, since the worker may not have them."""
    from conformance.distributed.rank_replies import Ending, RankReply

    names = tuple(kind.__name__ for kind in type(error).__mro__ if kind is not object)
    return RankReply(rank, Ending.ERROR, error=names, text=str(error), seconds=seconds)


def leave() -> None:
    """Leave the group as a program would, and end silently if the backend cannot."""
    import torch.distributed as dist

    if dist.is_initialized():
        dist.destroy_process_group()
    os._exit(0)  # what threads of a backend do at exit is not what is tested here


if __name__ == "__main__":
    main()
