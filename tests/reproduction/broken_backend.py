"""A backend for tests of snippets: the reference device with one injected fault. The environment variable
FAULT names the fault.

A fault changes torch itself or a kernel of the device. It therefore affects the suite and also a snippet,
which does not import the suite. If FAULT is empty, the device is correct.
"""

from __future__ import annotations

import contextlib
import os
import signal
import warnings
from collections.abc import Callable
from typing import Any

import habana_frameworks.torch  # noqa: F401  (registers the device)
import torch
from habana_frameworks.torch.hpu import HPUGraph
from torch._dynamo import register_backend
from torch.nn.modules.module import register_module_forward_hook
from torch.optim.optimizer import register_optimizer_step_post_hook

DEVICE = "hpu"
FAULTS: dict[str, Callable[[], None]] = {}
#: Registers Python kernels that replace the device's kernels. The kernels stay registered as long as this
#: object exists.
_library = torch.library.Library("aten", "IMPL")
_named = os.environ.get("FAULT", "")
fallbacks = 0


def register_fault(inject: Callable[[], None]) -> Callable[[], None]:
    FAULTS[inject.__name__] = inject
    return inject


def is_on_device(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == DEVICE


def replace_kernel(name: str, change: Callable[..., Any]) -> None:
    """Replace a kernel of the device by ``change(call, *args)``. ``call`` runs the CPU's kernel on copies of
    its arguments and returns the result on the device.
    """
    packet, _, overload = name.partition(".")
    operator = getattr(getattr(torch.ops.aten, packet), overload or "default")

    def move_to(value: Any, device: str) -> Any:
        if isinstance(value, torch.Tensor):
            return value.to(device)
        return (
            type(value)(move_to(item, device) for item in value)
            if isinstance(value, (tuple, list))
            else value
        )

    def call_cpu_kernel(*args: Any, **kwargs: Any) -> Any:
        with torch._C._AutoDispatchBelowAutograd():
            host = {
                key: torch.device("cpu") if key == "device" else move_to(v, "cpu")
                for key, v in kwargs.items()
            }
            return move_to(operator(*[move_to(argument, "cpu") for argument in args], **host), DEVICE)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _library.impl(name, lambda *args, **kwargs: change(call_cpu_kernel, *args, **kwargs), "HPU")


def call_and_enlarge_result(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return the kernel's result multiplied by 1.01."""
    return call(*args, **kwargs) * 1.01


@register_fault
def wrong_values() -> None:
    replace_kernel("sin", call_and_enlarge_result)
    replace_kernel("cos", call_and_enlarge_result)
    replace_kernel("expm1", call_and_enlarge_result)


@register_fault
def wrong_result_dtype() -> None:
    replace_kernel("add.Tensor", lambda call, *args, **kwargs: call(*args, **kwargs).double())


@register_fault
def integers_refused() -> None:
    def change(call: Any, x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if x.dtype == torch.int64:
            raise NotImplementedError('"add" not implemented for Long')
        return call(x, *args, **kwargs)

    replace_kernel("add.Tensor", change)


@register_fault
def empty_reductions_wrong() -> None:
    replace_kernel("sum", lambda call, x, **kwargs: call(x, **kwargs) if x.numel() else x)
    replace_kernel(
        "sum.dim_IntList", lambda call, x, dim, keepdim=False, **kwargs: call(x, dim, False, **kwargs)
    )


@register_fault
def wrong_error_type() -> None:
    def change(call: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return call(*args, **kwargs)
        except RuntimeError:
            raise KeyError("wrong") from None

    replace_kernel("gather", change)


@register_fault
def views_are_copies() -> None:
    replace_kernel("transpose.int", lambda call, *args: call(*args))


@register_fault
def view_writes_lost() -> None:
    """Make in-place changes of a view write to a copy of the view."""

    def write_to_copies(method: Callable[..., Any]) -> Callable[..., Any]:
        def change(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            return method(self.clone() if is_on_device(self) and self._is_view() else self, *args, **kwargs)

        return change

    for name in ("add_", "sub_", "mul_", "neg_", "abs_", "fill_", "clamp_", "masked_fill_", "scatter_"):
        setattr(torch.Tensor, name, write_to_copies(getattr(torch.Tensor, name)))


@register_fault
def out_not_resized() -> None:
    def change(call: Any, x: torch.Tensor, y: Any, *, alpha: Any = 1, out: torch.Tensor) -> torch.Tensor:
        value = torch.add(x.cpu(), y.cpu() if isinstance(y, torch.Tensor) else y, alpha=alpha)
        return out.copy_(value.to(DEVICE)) if out.shape == value.shape else out

    replace_kernel("add.out", change)


@register_fault
def out_accepts_any_dtype() -> None:
    def change(call: Any, x: torch.Tensor, y: Any, *, alpha: Any = 1, out: torch.Tensor) -> torch.Tensor:
        return out.copy_(torch.add(x.cpu(), y.cpu() if isinstance(y, torch.Tensor) else y, alpha=alpha))

    def call_without_autograd(x: torch.Tensor, y: Any, *, alpha: Any = 1, out: torch.Tensor) -> torch.Tensor:
        with torch._C._AutoDispatchBelowAutograd():
            return torch.ops.aten.add.out(x, y, alpha=alpha, out=out)

    replace_kernel("add.out", change)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _library.impl("add.out", call_without_autograd, "AutogradHPU")


@register_fault
def inplace_returns_view() -> None:
    sin_ = torch.Tensor.sin_

    def change(self: torch.Tensor) -> torch.Tensor:
        result = sin_(self)
        return result.view_as(result) if is_on_device(self) and type(self) is torch.Tensor else result

    torch.Tensor.sin_ = change


@register_fault
def random_numbers_constant() -> None:
    replace_kernel("uniform_", lambda call, x, *args, **kwargs: x.fill_(0.5))
    replace_kernel("randn_like", lambda call, x, **kwargs: torch.zeros_like(x))


@register_fault
def counted_as_fallback() -> None:
    global fallbacks

    def change(call: Any, *args: Any) -> Any:
        global fallbacks
        fallbacks += 1
        return call(*args)

    replace_kernel("sin", change)


def count_fallbacks() -> int:
    return fallbacks


@register_fault
def results_change_per_call() -> None:
    calls = 0

    def change(call: Any, *args: Any) -> Any:
        nonlocal calls
        calls += 1
        return call(*args) + calls

    replace_kernel("sin", change)
    replace_kernel("cos", change)


@register_fault
def bool_bytes_summed() -> None:
    def change(call: Any, x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        return call(x.view(torch.uint8).to(torch.int64) if x.dtype == torch.bool else x, *args, **kwargs)

    replace_kernel("sum", change)
    replace_kernel("sum.dim_IntList", change)


@register_fault
def crash_on_large_input() -> None:
    def change(call: Any, x: torch.Tensor) -> torch.Tensor:
        if x.numel() > 30:
            os.kill(os.getpid(), signal.SIGSEGV)
        return call(x)

    replace_kernel("sin", change)


# Modules


@register_fault
def wrong_module_outputs() -> None:
    register_module_forward_hook(lambda module, args, output: output * 1.01 if is_on_device(output) else None)


@register_fault
def zero_grad_skipped() -> None:
    clear = torch.nn.Module.zero_grad

    def zero_grad(self: Any, set_to_none: bool = True) -> None:
        if not any(is_on_device(parameter) for parameter in self.parameters()):
            clear(self, set_to_none)

    torch.nn.Module.zero_grad = zero_grad


@register_fault
def module_to_changes_parameters() -> None:
    move = torch.nn.Module.to

    def to(self: Any, *args: Any, **kwargs: Any) -> Any:
        moved_module = move(self, *args, **kwargs)
        with torch.no_grad():
            for parameter in moved_module.parameters():
                if is_on_device(parameter):
                    parameter.add_(1)
        return moved_module

    torch.nn.Module.to = to


@register_fault
def deepcopy_shares_parameters() -> None:
    make = torch.nn.Parameter.__deepcopy__
    torch.nn.Parameter.__deepcopy__ = lambda self, memo: self if is_on_device(self) else make(self, memo)


@register_fault
def wrong_initial_weights() -> None:
    fill = torch.nn.init.ones_
    torch.nn.init.ones_ = lambda x: x.data.fill_(2) if is_on_device(x) else fill(x)


@register_fault
def dropout_half_as_often() -> None:
    half = torch.nn.functional.dropout

    def change(input: torch.Tensor, p: float = 0.5, *args: Any, **kwargs: Any) -> torch.Tensor:
        return half(input, p / 2 if is_on_device(input) else p, *args, **kwargs)

    torch.nn.functional.dropout = change


@register_fault
def invalid_arguments_accepted() -> None:
    run, start = torch.nn.RNNCell.forward, torch.optim.SGD.__init__

    def forward(self: Any, input: Any, hx: Any = None) -> Any:
        return input if is_on_device(input) else run(self, input, hx)

    def init(self: Any, params: Any, *args: Any, **kwargs: Any) -> None:
        with contextlib.suppress(ValueError):
            start(self, params, *args, **kwargs)

    torch.nn.RNNCell.forward, torch.optim.SGD.__init__ = forward, init


# Optimizers


@register_fault
def step_too_large() -> None:
    def enlarge_step(optimizer: Any, args: Any, kwargs: Any) -> None:
        with torch.no_grad():
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    if is_on_device(parameter):
                        parameter.mul_(1.01)

    register_optimizer_step_post_hook(enlarge_step)


@register_fault
def foreach_step_too_large() -> None:
    def enlarge_step(optimizer: Any, args: Any, kwargs: Any) -> None:
        with torch.no_grad():
            for group in optimizer.param_groups if optimizer.defaults.get("foreach") else ():
                for parameter in group["params"]:
                    if is_on_device(parameter):
                        parameter.mul_(1.01)

    register_optimizer_step_post_hook(enlarge_step)


# The device's API


@register_fault
def set_stream_ignored() -> None:
    """Make torch.accelerator.set_stream do nothing, so that all work runs on the stream that was current
    before.
    """
    torch.accelerator.set_stream = lambda stream: None


@register_fault
def events_without_effect() -> None:
    """Make events have no effect on the order of work, and turn off the device's ordering of streams by
    memory.
    """
    os.environ["HPU_REFERENCE_STREAM_ORDER"] = "events"
    torch.Event = EventWithoutEffect


class EventWithoutEffect(torch.Event):
    """An event that records nothing, is always done, and measures -1 ms. It is a subclass of torch.Event, so
    streams accept it.
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


@register_fault
def missing_from_profiles() -> None:
    """Omit the device from profiler traces and memory histories."""
    original = torch.profiler.profile.__init__

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs | {"activities": [torch.profiler.ProfilerActivity.CPU]})

    torch.profiler.profile.__init__ = init
    torch.hpu.memory._change_profiler_count = lambda by: None
    torch.hpu.memory._record_memory_history = lambda *args, **kwargs: None
    torch.hpu.memory._snapshot = lambda *args, **kwargs: {"device_traces": [[]], "segments": []}


@register_fault
def non_blocking_copies_incomplete() -> None:
    """Zero the last element in non-blocking copies to the device, and raise an error in record_stream."""
    copy_ = torch.Tensor.copy_

    def change(self: torch.Tensor, source: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
        result = copy_(self, source, non_blocking)
        if non_blocking and is_on_device(self):
            self[..., -1:].fill_(0)
        return result

    def record_stream(self: torch.Tensor, stream: Any) -> None:
        raise NotImplementedError("record_stream")

    torch.Tensor.copy_ = change
    torch.Tensor.record_stream = record_stream


@register_fault
def inplace_add_skipped() -> None:
    """Make in-place additions on the device do nothing."""
    add_ = torch.Tensor.add_
    torch.Tensor.add_ = lambda self, *args, **kwargs: (
        self if is_on_device(self) else add_(self, *args, **kwargs)
    )


@register_fault
def one_stream_for_all_threads() -> None:
    stream = torch.Stream(device=DEVICE)
    torch.accelerator.current_stream = lambda device=None: stream


@register_fault
def synchronize_does_not_wait() -> None:
    """Make torch.accelerator.synchronize return without waiting."""
    torch.accelerator.synchronize = lambda device=None: None


# Graphs


@register_fault
def compiled_wrong_values() -> None:
    """Run compiled functions on copies of their inputs, and make their results one hundredth too large. The
    compile backend `broken` below implements the fault.
    """


@register_fault
def compiled_returns_first_results() -> None:
    """Return the results of a compiled function's first call from every call. The compile backend
    `compile_with_fault` below implements the fault.
    """


@register_backend(name="broken")  # type: ignore[untyped-decorator]
def compile_with_fault(module: Any, inputs: Any) -> Callable[..., Any]:
    first: list[Any] = []

    def run(*args: Any) -> Any:
        if _named == "compiled_wrong_values":
            outputs = module(*[value.clone() if isinstance(value, torch.Tensor) else value for value in args])
            return [
                value * 1.01 if is_on_device(value) and value.is_floating_point() else value
                for value in outputs
            ]
        first.append(module(*args))
        return (
            [value.clone() for value in first[0]]
            if _named == "compiled_returns_first_results"
            else first.pop()
        )

    return run


@register_fault
def graph_replay_skipped() -> None:
    """Make replays of graphs do nothing. The class `GraphWithFault` below implements the fault."""


class GraphWithFault(HPUGraph):
    """A device graph. If FAULT is ``graph_replay_skipped``, its replay does nothing."""

    def replay(self) -> None:
        if _named != "graph_replay_skipped":
            super().replay()


if _named:
    FAULTS[_named]()
