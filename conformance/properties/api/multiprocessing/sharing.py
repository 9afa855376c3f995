"""Behaviours of tensors and processes: shared host memory, pickling between processes, and forks while a
device is in use.
"""

from __future__ import annotations

import contextlib
import multiprocessing.reduction
import os
import pickle
import select
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.multiprocessing as mp
from torch import nn

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab, lab_work

#: Seconds after which a child process is treated as hung.
CHILD_TIMEOUT = 30.0


def _reply_of_forked_child(work: Callable[[], bytes]) -> bytes:
    """Run ``work`` in a forked child and return the bytes that ``work`` returned. Return b"" if the child
    dies, and b"late" if the child hangs.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            os.close(reading)
            try:
                reply = work()
            except BaseException as error:
                kind = RuntimeError if isinstance(error, RuntimeError) else type(error)
                reply = f"{kind.__name__}: {error}".encode()[:200]
            os.write(writing, reply)
        os._exit(0)
    os.close(writing)
    try:
        ready, _, _ = select.select([reading], [], [], CHILD_TIMEOUT)
        if not ready:
            return b"late"
        return os.read(reading, 1000)
    finally:
        os.close(reading)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


@contextlib.contextmanager
def _set_sharing_strategy(name: str) -> Iterator[None]:
    """Set the sharing strategy of ``torch.multiprocessing`` inside the block."""
    before = mp.get_sharing_strategy()
    mp.set_sharing_strategy(name)
    try:
        yield
    finally:
        mp.set_sharing_strategy(before)


def _all_sharing_strategies() -> list[str]:
    return sorted(mp.get_all_sharing_strategies())


def _add_three_in_place(tensor: torch.Tensor) -> bytes:
    tensor.add_(3)
    return b"done"


@behaviour("multiprocessing", must_detect=(), page="generated/torch.Tensor.share_memory_.html")
def host_memory_is_shared(lab: Lab) -> None:
    """While a device is in use, writes of a forked child to shared host tensors are visible in its parent.
    Writes of the child to other host tensors are not visible.
    """
    used = lab.integers(10)
    for name in _all_sharing_strategies():
        with _set_sharing_strategy(name):
            shared, private = torch.zeros(5, 5), torch.zeros(5, 5)
            lab.holds(f"a new tensor is not shared, {name}", not shared.is_shared())
            shared.share_memory_()
            lab.holds(f"share_memory_ shares a tensor, {name}", shared.is_shared() and shared[1].is_shared())
            lab.holds(
                f"the child writes to the shared tensor, {name}",
                _reply_of_forked_child(lambda: _add_three_in_place(shared)) == b"done",
            )
            lab.holds(
                f"the child writes to its copy of the private tensor, {name}",
                _reply_of_forked_child(lambda: _add_three_in_place(private)) == b"done",
            )
            lab.same(f"tensors in the parent after the child's writes, {name}", (shared, private), host=True)
            empty = torch.empty(0).share_memory_()
            lab.holds(f"a tensor without elements can be shared, {name}", empty.is_shared())
    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    lab.holds("share_memory returns the module", net.share_memory() is net)
    lab.holds(
        "all tensors of the module are shared", all(entry.is_shared() for entry in net.state_dict().values())
    )
    weight = nn.Parameter(torch.zeros(3)).share_memory_()
    lab.holds(
        "a shared parameter is still a Parameter", isinstance(weight, nn.Parameter) and weight.requires_grad
    )
    lab.same("the device's own tensor", used + 1)


def _pickle_round_trip(value: Any) -> Any:
    """Return the value after pickling and unpickling with the pickler of multiprocessing queues, without
    another process.
    """
    return pickle.loads(bytes(multiprocessing.reduction.ForkingPickler.dumps(value)))


@behaviour("multiprocessing", must_detect=(), page="notes/multiprocessing.html")
def tensors_through_queues(lab: Lab) -> None:
    """Host tensors pass through a queue in shared memory. Views still share memory, and parameters and
    ``requires_grad`` are preserved. A tensor that is not a leaf and requires grad raises an error.
    """
    for name in _all_sharing_strategies():
        with _set_sharing_strategy(name):
            base = torch.arange(25.0).view(5, 5)
            received_tensors = _pickle_round_trip([base, base[2], base[:, 1]])
            lab.same(f"values, {name}", received_tensors, host=True)
            received_tensors[1].fill_(9)
            lab.same(f"memory is shared, {name}", (base, received_tensors[0]), host=True)
            for dtype in (torch.float32, torch.int64):
                lab.same(
                    f"empty, {name}, {dtype}", _pickle_round_trip(torch.empty(0, dtype=dtype)), host=True
                )
            for needs in (True, False):
                received = _pickle_round_trip(torch.ones(2).requires_grad_(needs))
                with lab.consistent("A received tensor must need gradients like the tensor that was sent"):
                    lab.holds(
                        f"a received leaf has requires_grad={needs}, {name}",
                        received.requires_grad is needs and received.is_leaf,
                    )
            weight = _pickle_round_trip(nn.Parameter(torch.ones(2)))
            with lab.consistent("A received parameter must be a parameter like the one that was sent"):
                lab.holds(f"a received parameter is a Parameter, {name}", type(weight) is nn.Parameter)
            count = _pickle_round_trip(nn.Parameter(torch.tensor(3), requires_grad=False))
            with lab.consistent("A received parameter must be a parameter like the one that was sent"):
                lab.holds(
                    f"a received integer parameter has its value, {name}",
                    type(count) is nn.Parameter and int(count) == 3,
                )
    result = torch.ones(2, requires_grad=True) * 2
    with lab.parity("No page says that a tensor with a graph cannot be sent"):
        lab.raises(
            "a tensor with a graph", lambda: _pickle_round_trip(result), match="(?i)requires_grad|leaf"
        )
    meta = _pickle_round_trip(torch.empty(3, 4, device="meta"))
    with lab.consistent("A received meta tensor must have the shape of the one that was sent"):
        lab.holds("meta tensors keep their shape", meta.is_meta and list(meta.shape) == [3, 4])
    lab.same("the device", lab.integers(3) * 2)


def _use_device(device: torch.device) -> bytes:
    torch.ones(3, device=device).sum().item()
    return b"worked"


def _compute_on_host() -> bytes:
    x = torch.arange(10.0)
    return b"done" if float((x * x).sum()) == 285.0 else b"wrong"


@behaviour(
    "multiprocessing",
    level="core",
    capabilities=("fork",),
    must_detect=(),
    page="notes/multiprocessing.html",
    ground="The note expects runtime errors in the child if the runtime is not fork safe",
)
def forks_beside_a_device(lab: Lab) -> None:
    """If the parent process has used the device, a forked child can use the device or gets a RuntimeError.
    The child's work on the host succeeds, and the parent can continue to use the device.
    """
    x = lab.integers(1000)
    total = x.sum()
    with lab_work():
        before = x.cpu().clone()
    reply = _reply_of_forked_child(lambda: _use_device(lab.device))
    lab.holds("the child neither hangs nor dies", reply not in (b"late", b""))
    as_documented = reply == b"worked" or reply.startswith(b"RuntimeError")
    lab.holds("the child uses the device or gets a RuntimeError", as_documented)
    with lab.consistent("work on the host must give the same result in the child as in the parent"):
        lab.holds("the child computes on the host", _reply_of_forked_child(_compute_on_host) == b"done")

    def delete_inherited_tensor() -> bytes:
        nonlocal x
        del x
        return b"freed"

    with lab.parity("No page says that a forked child may delete an inherited tensor"):
        lab.holds(
            "a child can delete an inherited tensor",
            _reply_of_forked_child(delete_inherited_tensor) == b"freed",
        )
    time.sleep(0)
    with lab.consistent("A tensor of the parent must have the same values before and after a fork"):
        lab.holds("the parent's values are untouched", torch.equal(x.cpu(), before))
    with lab.consistent("work of the parent must give the same results before and after a fork"):
        lab.same("the parent goes on", (x + 1, total))
