"""Behaviours of the autograd engine: nested backwards, threads, streams, errors and modes."""

from __future__ import annotations

import threading
from typing import Any

import torch
from torch.autograd.function import Function

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab


class _NestedBackward(Function):
    """An ``autograd.Function`` that doubles its input. Its backward runs another backward, nested to
    ``depth`` levels.
    """

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, depth: int) -> Any:
        ctx.depth = depth
        with torch.enable_grad():
            ctx.x = x.detach().requires_grad_()
            ctx.out = _NestedBackward.apply(ctx.x, depth - 1) if depth else ctx.x * 2
        return ctx.out.detach()

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        with torch.enable_grad():
            torch.autograd.backward(ctx.out, grad)
        return ctx.x.grad, None


@behaviour(
    "autograd",
    capabilities=("double_backward",),
    level="training",
    must_detect=("value", "error"),
    page="notes/extending.html",
    ground=(
        "gradients follow from the chain rule; a backward may call any operation; no page limits the depth"
    ),
)
def backward_within_backward(lab: Lab) -> None:
    """The backward of an ``autograd.Function`` may run another backward, nested 65 levels deep or more.
    Errors of the inner backward propagate, and the grad mode is restored afterwards.
    """
    x = lab.integers(3, requires_grad=True)
    for depth in (0, 1, 65):
        x.grad = None
        _NestedBackward.apply(x, depth).sum().backward()
        lab.expect(f"gradient at depth {depth}", x.grad, [2.0, 2.0, 2.0])
    modes = []

    class InnerFunctionWithBackward(Function):
        @staticmethod
        def forward(ctx: Any, t: torch.Tensor, fail: bool) -> Any:
            ctx.fail = fail
            return t * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            modes.append(torch.is_grad_enabled())
            with torch.enable_grad():
                inner: Any = torch.ones(2, device=grad.device, requires_grad=True)
                (inner * 3).sum().backward()
            modes.append(torch.is_grad_enabled())
            if ctx.fail:
                raise KeyError("inner failure")
            return grad * 2 * inner.grad[0], None

    x.grad = None
    InnerFunctionWithBackward.apply(x, False).sum().backward()
    lab.expect("gradient", x.grad, [6.0, 6.0, 6.0])
    torch.autograd.grad(InnerFunctionWithBackward.apply(x, False).sum(), x, create_graph=True)
    lab.same("modes", [modes, torch.is_grad_enabled()])
    lab.raises(
        "an error within",
        lambda: InnerFunctionWithBackward.apply(x, True).sum().backward(),
        KeyError,
        match="inner failure",
    )

    class OuterFunctionWithFailingInner(Function):
        @staticmethod
        def forward(ctx: Any, t: torch.Tensor) -> Any:
            return t.clone()

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            with torch.enable_grad():
                inner = torch.ones(3, device=grad.device, requires_grad=True)
                InnerFunctionWithBackward.apply(inner, True).sum().backward()
            return grad

    lab.raises(
        "an error two deep",
        lambda: OuterFunctionWithFailingInner.apply(x).sum().backward(),
        KeyError,
        match="inner failure",
    )
    x.grad = None
    (x * 2).sum().backward()
    lab.expect("the engine works afterwards", x.grad, [2.0, 2.0, 2.0])


@behaviour(
    "autograd",
    must_detect=("value",),
    page="generated/torch.Tensor.register_hook.html",
    basis="consistency",
    ground="a backward must accumulate the same gradients inside of a hook and outside",
)
def backward_within_hooks(lab: Lab) -> None:
    """Hooks of leaves and of intermediate results may run a backward, on other tensors or on the same
    leaf.
    """
    x = lab.integers(2, requires_grad=True)
    y = lab.integers(2, requires_grad=True)

    def backward_in_leaf_hook(grad: torch.Tensor) -> None:
        with torch.enable_grad():
            (y * 3).sum().backward()

    handle = x.register_hook(backward_in_leaf_hook)
    (x * 2).sum().backward()
    lab.same("leaf's hook", [x.grad, y.grad])
    handle.remove()

    def backward_in_result_hook(grad: torch.Tensor) -> Any:
        with torch.enable_grad():
            (x * 5).sum().backward()
        return grad * 2

    x.grad = None
    z = x * 2
    z.register_hook(backward_in_result_hook)
    z.sum().backward()
    lab.expect("result's hook on the same leaf", x.grad, [9.0, 9.0])


@behaviour(
    "autograd",
    must_detect=("value",),
    basis="parity",
    ground="The note calls concurrent accumulation into shared leaves unsafe and its result possibly invalid",
)
def backward_on_several_threads(lab: Lab) -> None:
    """If several threads run a backward to the same leaves, all gradients are accumulated."""
    x = lab.integers(4, 4, requires_grad=True)
    errors: list[BaseException] = []

    def run_backwards(weight: int) -> None:
        try:
            for _ in range(5):
                ((x * weight) * 2 + x).sum().backward()
        except BaseException as error:
            errors.append(error)

    (x * 0).sum().backward()
    threads = [threading.Thread(target=run_backwards, args=(weight,)) for weight in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    lab.same("errors", [str(error) for error in errors])
    lab.same("gradients", x.grad)
    y = lab.integers(3, requires_grad=True)
    shared = y * y
    shared.sum().backward(retain_graph=True)
    results: list[torch.Tensor] = []
    threads = [
        threading.Thread(
            target=lambda: results.append(torch.autograd.grad(shared.sum(), y, retain_graph=True)[0])
        )
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    with lab.documented():
        lab.same("over one retained graph", results)


@behaviour(
    "autograd",
    must_detect=("value",),
    ground="grad mode is local to a thread and on by default; gradients follow from the chain rule",
)
def threads_in_the_middle(lab: Lab) -> None:
    """Parts of a graph that several threads create have the same gradients as if one thread had created
    them.
    """
    x = lab.integers(4, requires_grad=True)
    parts: dict[int, torch.Tensor] = {}
    modes: list[bool] = []

    def scale_part(index: int, part: torch.Tensor) -> None:
        modes.append(torch.is_grad_enabled())
        parts[index] = part * (index + 1) + index

    middle = x * 2
    threads = [threading.Thread(target=scale_part, args=(index, middle)) for index in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    out: Any = sum(parts[index] for index in range(3))
    out.sum().backward()
    lab.same("modes", modes)
    lab.expect("gradient", x.grad, [12.0] * 4)


@behaviour(
    "autograd",
    must_detect=("value", "error"),
    basis="parity",
    ground="No page says with which type and traceback an exception of a backward is raised",
)
def errors_of_threads(lab: Lab) -> None:
    """An exception in a backward on another thread is raised in the thread that started the backward. The
    exception has its original type, and its traceback includes the user's code.
    """
    x = lab.integers(3, requires_grad=True)

    class UnusualError(Exception):
        pass

    class RaisesInBackward(Function):
        @staticmethod
        def forward(ctx: Any, t: torch.Tensor) -> Any:
            return t * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            raise UnusualError("in this thread")

    caught: list[Any] = []

    def run_failing_backward() -> None:
        try:
            RaisesInBackward.apply(x).sum().backward()
        except Exception as error:
            trace = error.__traceback__
            names = []
            while trace is not None:
                names.append(trace.tb_frame.f_code.co_name)
                trace = trace.tb_next
            caught.append(
                (type(error).__name__, str(error), "backward" in names and "run_failing_backward" in names)
            )

    for _ in range(2):
        thread = threading.Thread(target=run_failing_backward)
        thread.start()
        thread.join(60)
    lab.same("caught", caught)
    lab.raises(
        "on this thread",
        lambda: RaisesInBackward.apply(x).sum().backward(),
        UnusualError,
        match="in this thread",
    )
    with torch.autograd.set_multithreading_enabled(False):
        lab.raises("on one thread", lambda: RaisesInBackward.apply(x).sum().backward(), UnusualError)
    (x * 4).sum().backward()
    with lab.documented():
        lab.expect("the engine works afterwards", x.grad, [4.0, 4.0, 4.0])


@behaviour(
    "autograd",
    must_detect=("value",),
    page="generated/torch.autograd.grad_mode.set_multithreading_enabled.html",
)
def multithreading_switch(lab: Lab) -> None:
    """``set_multithreading_enabled`` works as a context manager and as a function. While multithreading is
    disabled, the backward runs on the calling thread.
    """
    x = lab.integers(3, requires_grad=True)
    states: list[bool] = []
    y = x * 2
    caller = threading.get_ident()
    y.register_hook(lambda grad: states.append(threading.get_ident() == caller))
    with torch.autograd.set_multithreading_enabled(False):
        states.append(torch._C._is_multithreading_enabled())
        with torch.autograd.set_multithreading_enabled(True):
            states.append(torch._C._is_multithreading_enabled())
        y.sum().backward()
    states.append(torch._C._is_multithreading_enabled())
    torch.autograd.set_multithreading_enabled(False)
    states.append(torch._C._is_multithreading_enabled())
    torch.autograd.set_multithreading_enabled(True)
    lab.same("seen", states)
    lab.same("gradient", x.grad)


@behaviour(
    "autograd",
    capabilities=("double_backward",),
    must_detect=("value", "error", "message"),
    page="autograd.html",
)
def anomaly_detection(lab: Lab) -> None:
    """``detect_anomaly`` raises an error at the first node whose backward returns NaN. The error names this
    node. With ``check_nan=False``, NaN raises no error.
    """
    x = lab.put([0.0, 1.0], requires_grad=True)

    class NaNGradient(Function):
        @staticmethod
        def forward(ctx: Any, t: torch.Tensor) -> Any:
            return t * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * float("nan")

    def run_poisoned_backward(**options: Any) -> None:
        with torch.autograd.detect_anomaly(**options):
            NaNGradient.apply(x * 1).sum().backward()

    NaNGradient.apply(x * 1).sum().backward()
    lab.same("the gradient without anomaly detection is NaN", x.grad)
    x.grad = None
    lab.raises("with detection", run_poisoned_backward, match="PoisonBackward.* returned nan")
    x.grad = None
    run_poisoned_backward(check_nan=False)
    lab.same("the gradient with check_nan=False", x.grad)
    x.grad = None
    with torch.autograd.detect_anomaly():
        inner = [torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()]
        out: Any = x.exp()
        with lab.parity("No page says what the metadata of a node contains"):
            lab.holds("the node keeps its traceback", "traceback_" in out.grad_fn.metadata)
        (x * 3).sum().backward()
    with lab.consistent("set_detect_anomaly and its undocumented getters must agree"):
        lab.same("flags", [inner, torch.is_anomaly_enabled()])
    lab.expect("a gradient without NaN", x.grad, [3.0, 3.0])
    with torch.autograd.set_detect_anomaly(True):
        with lab.consistent("set_detect_anomaly and its undocumented getter must agree"):
            lab.same("set", torch.is_anomaly_enabled())
        with (
            torch.autograd.set_detect_anomaly(False),
            lab.consistent("set_detect_anomaly and its undocumented getter must agree"),
        ):
            lab.same("set back", torch.is_anomaly_enabled())
    out = (x * 0).sqrt() * 0
    with torch.autograd.set_detect_anomaly(True):
        lab.raises("zero times infinity", lambda: out.sum().backward(), match="SqrtBackward")

    def run_poisoned_double_backward() -> None:
        with torch.autograd.detect_anomaly():
            (first,) = torch.autograd.grad(
                (NaNGradient.apply(x)).sum() * 0 + (x * x).sum(), x, create_graph=True
            )
            first.sum().backward()

    lab.raises("NaN in a double backward", run_poisoned_double_backward, match="nan")


@behaviour(
    "autograd",
    capabilities=("streams", "accelerator"),
    must_detect=("value",),
    page="notes/cuda.html",
    ground="The page of torch.Stream says that the CUDA note holds for all devices",
)
def backward_on_streams(lab: Lab) -> None:
    """A backward runs each node on the stream of the node's forward. Later work on the stream that called
    ``backward`` uses the finished gradients.
    """
    x: Any = lab.integers(64, 64, requires_grad=True)
    if lab.on_target and not lab.target.is_cpu:
        # No page says that a device module has a stream context. A stream itself is a context manager.
        context = getattr(torch.get_device_module(lab.device), "stream", lambda stream: stream)
        side, caller = torch.Stream(device=lab.device), torch.accelerator.current_stream()
        side.wait_stream(caller)
        with context(side):
            y = (x * 2) @ torch.ones(64, 64, device=lab.device)
        caller.wait_stream(side)
        z = y * 3
        z.sum().backward()
        after = x.grad * 2
        side.wait_stream(caller)
        with context(side):
            w = x * 5
            w.sum().backward()
        caller.wait_stream(side)
    else:
        y = (x * 2) @ torch.ones(64, 64)
        (y * 3).sum().backward()
        after = x.grad * 2
        (x * 5).sum().backward()
    lab.same("gradient used on the calling stream", after)
    lab.same("gradient of both backwards", x.grad)
