"""The reference device with one injected fault, which the variable FAULT names: a backend for tests of
snippets.

Every fault is on the device side of torch itself, so that both the suite and a snippet, which share nothing
else, meet the fault. Without FAULT the device is correct.
"""

from __future__ import annotations

import contextlib
import os
import signal
import warnings
from collections.abc import Callable
from typing import Any

import habana_frameworks.torch  # noqa: F401  (makes the device)
import torch
from habana_frameworks.torch.hpu import HPUGraph
from torch._dynamo import register_backend
from torch.nn.modules.module import register_module_forward_hook
from torch.optim.optimizer import register_optimizer_step_post_hook

DEVICE = "hpu"
FAULTS: dict[str, Callable[[], None]] = {}
#: Python kernels that replace the device's kernels. The list keeps them alive.
_library = torch.library.Library("aten", "IMPL")
_named = os.environ.get("FAULT", "")
fallbacks = 0


def fault(plant: Callable[[], None]) -> Callable[[], None]:
    FAULTS[plant.__name__] = plant
    return plant


def there(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == DEVICE


def kernel(name: str, change: Callable[..., Any]) -> None:
    """Replace a kernel by ``change(call, *args)``. ``call`` runs the CPU's kernel on copies."""
    packet, _, overload = name.partition(".")
    operator = getattr(getattr(torch.ops.aten, packet), overload or "default")

    def move(value: Any, device: str) -> Any:
        if isinstance(value, torch.Tensor):
            return value.to(device)
        return (
            type(value)(move(item, device) for item in value) if isinstance(value, (tuple, list)) else value
        )

    def call(*args: Any, **kwargs: Any) -> Any:
        with torch._C._AutoDispatchBelowAutograd():
            host = {
                key: torch.device("cpu") if key == "device" else move(v, "cpu") for key, v in kwargs.items()
            }
            return move(operator(*[move(argument, "cpu") for argument in args], **host), DEVICE)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _library.impl(name, lambda *args, **kwargs: change(call, *args, **kwargs), "HPU")


def wrong(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Make the result one hundredth too large."""
    return call(*args, **kwargs) * 1.01


@fault
def values() -> None:
    kernel("sin", wrong)
    kernel("cos", wrong)


@fault
def dtype() -> None:
    kernel("add.Tensor", lambda call, *args, **kwargs: call(*args, **kwargs).double())


@fault
def integers() -> None:
    def change(call: Any, x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if x.dtype == torch.int64:
            raise NotImplementedError('"add" not implemented for Long')
        return call(x, *args, **kwargs)

    kernel("add.Tensor", change)


@fault
def empty() -> None:
    kernel("sum", lambda call, x, **kwargs: call(x, **kwargs) if x.numel() else x)
    kernel("sum.dim_IntList", lambda call, x, dim, keepdim=False, **kwargs: call(x, dim, False, **kwargs))


@fault
def error() -> None:
    def change(call: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return call(*args, **kwargs)
        except RuntimeError:
            raise KeyError("wrong") from None

    kernel("gather", change)


@fault
def views() -> None:
    kernel("transpose.int", lambda call, *args: call(*args))


@fault
def views_apart() -> None:
    """Write changes of a view to a copy of the view."""

    def apart(method: Callable[..., Any]) -> Callable[..., Any]:
        def change(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            return method(self.clone() if there(self) and self._is_view() else self, *args, **kwargs)

        return change

    for name in ("add_", "sub_", "mul_", "neg_", "abs_", "fill_", "clamp_", "masked_fill_", "scatter_"):
        setattr(torch.Tensor, name, apart(getattr(torch.Tensor, name)))


@fault
def out() -> None:
    def change(call: Any, x: torch.Tensor, y: Any, *, alpha: Any = 1, out: torch.Tensor) -> torch.Tensor:
        value = torch.add(x.cpu(), y.cpu() if isinstance(y, torch.Tensor) else y, alpha=alpha)
        return out.copy_(value.to(DEVICE)) if out.shape == value.shape else out

    kernel("add.out", change)


@fault
def lenient_out() -> None:
    def change(call: Any, x: torch.Tensor, y: Any, *, alpha: Any = 1, out: torch.Tensor) -> torch.Tensor:
        return out.copy_(torch.add(x.cpu(), y.cpu() if isinstance(y, torch.Tensor) else y, alpha=alpha))

    def unrecorded(x: torch.Tensor, y: Any, *, alpha: Any = 1, out: torch.Tensor) -> torch.Tensor:
        with torch._C._AutoDispatchBelowAutograd():
            return torch.ops.aten.add.out(x, y, alpha=alpha, out=out)

    kernel("add.out", change)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _library.impl("add.out", unrecorded, "AutogradHPU")


@fault
def inplace() -> None:
    sin_ = torch.Tensor.sin_

    def change(self: torch.Tensor) -> torch.Tensor:
        result = sin_(self)
        return result.view_as(result) if there(self) and type(self) is torch.Tensor else result

    torch.Tensor.sin_ = change


@fault
def random() -> None:
    kernel("uniform_", lambda call, x, *args, **kwargs: x.fill_(0.5))
    kernel("randn_like", lambda call, x, **kwargs: torch.zeros_like(x))


@fault
def counted() -> None:
    global fallbacks

    def change(call: Any, *args: Any) -> Any:
        global fallbacks
        fallbacks += 1
        return call(*args)

    kernel("sin", change)


def count_fallbacks() -> int:
    return fallbacks


@fault
def unsteady() -> None:
    calls = 0

    def change(call: Any, *args: Any) -> Any:
        nonlocal calls
        calls += 1
        return call(*args) + calls

    kernel("sin", change)
    kernel("cos", change)


@fault
def booleans() -> None:
    def change(call: Any, x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        return call(x.view(torch.uint8).to(torch.int64) if x.dtype == torch.bool else x, *args, **kwargs)

    kernel("sum", change)
    kernel("sum.dim_IntList", change)


@fault
def crash() -> None:
    def change(call: Any, x: torch.Tensor) -> torch.Tensor:
        if x.numel() > 30:
            os.kill(os.getpid(), signal.SIGSEGV)
        return call(x)

    kernel("sin", change)


# Modules


@fault
def outputs() -> None:
    register_module_forward_hook(lambda module, args, output: output * 1.01 if there(output) else None)


@fault
def kept_gradients() -> None:
    clear = torch.nn.Module.zero_grad

    def zero_grad(self: Any, set_to_none: bool = True) -> None:
        if not any(there(parameter) for parameter in self.parameters()):
            clear(self, set_to_none)

    torch.nn.Module.zero_grad = zero_grad


@fault
def moved() -> None:
    move = torch.nn.Module.to

    def to(self: Any, *args: Any, **kwargs: Any) -> Any:
        moved_module = move(self, *args, **kwargs)
        with torch.no_grad():
            for parameter in moved_module.parameters():
                if there(parameter):
                    parameter.add_(1)
        return moved_module

    torch.nn.Module.to = to


@fault
def shared_copies() -> None:
    make = torch.nn.Parameter.__deepcopy__
    torch.nn.Parameter.__deepcopy__ = lambda self, memo: self if there(self) else make(self, memo)


@fault
def starts() -> None:
    fill = torch.nn.init.ones_
    torch.nn.init.ones_ = lambda x: x.data.fill_(2) if there(x) else fill(x)


@fault
def dropout() -> None:
    half = torch.nn.functional.dropout

    def change(input: torch.Tensor, p: float = 0.5, *args: Any, **kwargs: Any) -> torch.Tensor:
        return half(input, p / 2 if there(input) else p, *args, **kwargs)

    torch.nn.functional.dropout = change


@fault
def lenient() -> None:
    run, start = torch.nn.RNNCell.forward, torch.optim.SGD.__init__

    def forward(self: Any, input: Any, hx: Any = None) -> Any:
        return input if there(input) else run(self, input, hx)

    def init(self: Any, params: Any, *args: Any, **kwargs: Any) -> None:
        with contextlib.suppress(ValueError):
            start(self, params, *args, **kwargs)

    torch.nn.RNNCell.forward, torch.optim.SGD.__init__ = forward, init


# Optimizers


@fault
def too_far() -> None:
    def push(optimizer: Any, args: Any, kwargs: Any) -> None:
        with torch.no_grad():
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    if there(parameter):
                        parameter.mul_(1.01)

    register_optimizer_step_post_hook(push)


@fault
def foreach_too_far() -> None:
    def push(optimizer: Any, args: Any, kwargs: Any) -> None:
        with torch.no_grad():
            for group in optimizer.param_groups if optimizer.defaults.get("foreach") else ():
                for parameter in group["params"]:
                    if there(parameter):
                        parameter.mul_(1.01)

    register_optimizer_step_post_hook(push)


# The device's API


@fault
def deaf() -> None:
    """Give streams no work: all work stays on the previous current stream."""
    torch.accelerator.set_stream = lambda stream: None


@fault
def mute() -> None:
    """Record events that order nothing, on a device without any other ordering."""
    os.environ["HPU_REFERENCE_STREAM_ORDER"] = "events"
    torch.Event = Event


class Event(torch.Event):
    """An event that records nothing, is always done, and measures no time. Streams accept it as an event of
    torch.
    """

    def record(self, stream: Any = None) -> None:
        pass

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        pass

    wait = record

    def elapsed_time(self, end: Any) -> float:
        return -1.0


@fault
def blind() -> None:
    """Return profiles and memory histories without the device."""
    original = torch.profiler.profile.__init__

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs | {"activities": [torch.profiler.ProfilerActivity.CPU]})

    torch.profiler.profile.__init__ = init
    torch.hpu.memory._count_profilers = lambda change: None
    torch.hpu.memory._record_memory_history = lambda *args, **kwargs: None
    torch.hpu.memory._snapshot = lambda *args, **kwargs: {"device_traces": [[]], "segments": []}


@fault
def forgetful() -> None:
    """Lose an element in copies to the device, and ignore record_stream."""
    copy_ = torch.Tensor.copy_

    def change(self: torch.Tensor, source: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
        result = copy_(self, source, non_blocking)
        if non_blocking and there(self):
            self[..., -1:].fill_(0)
        return result

    def record_stream(self: torch.Tensor, stream: Any) -> None:
        raise NotImplementedError("record_stream")

    torch.Tensor.copy_ = change
    torch.Tensor.record_stream = record_stream


@fault
def lost() -> None:
    """Skip in-place additions."""
    add_ = torch.Tensor.add_
    torch.Tensor.add_ = lambda self, *args, **kwargs: self if there(self) else add_(self, *args, **kwargs)


@fault
def one_stream() -> None:
    stream = torch.Stream(device=DEVICE)
    torch.accelerator.current_stream = lambda device=None: stream


@fault
def hasty() -> None:
    """Do not wait for the device."""
    torch.accelerator.synchronize = lambda device=None: None


# Graphs


@fault
def compiled() -> None:
    """Run compiled functions on copies of their inputs, with results one hundredth too large."""


@fault
def kept() -> None:
    """Return the first results of compiled functions again."""


@register_backend(name="broken")  # type: ignore[untyped-decorator]
def broken(module: Any, inputs: Any) -> Callable[..., Any]:
    first: list[Any] = []

    def run(*args: Any) -> Any:
        if _named == "compiled":
            outputs = module(*[value.clone() if isinstance(value, torch.Tensor) else value for value in args])
            return [
                value * 1.01 if there(value) and value.is_floating_point() else value for value in outputs
            ]
        first.append(module(*args))
        return [value.clone() for value in first[0]] if _named == "kept" else first.pop()

    return run


@fault
def deaf_graphs() -> None:
    """Replay nothing."""


class Graph(HPUGraph):
    """A graph that is not replayed if FAULT requests it."""

    def replay(self) -> None:
        if _named != "deaf_graphs":
            super().replay()


if _named:
    FAULTS[_named]()
