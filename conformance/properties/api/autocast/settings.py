"""Behaviours of autocast settings: the cache of casts, the setter functions, device types, threads, and
user-defined ``autograd.Function`` classes.
"""

from __future__ import annotations

import threading
from typing import Any

import torch

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab


@behaviour(
    "autocast",
    capabilities=("autograd",),
    level="training",
    must_detect=("value",),
    basis="parity",
    ground="The page names the cache but does not say when or how often autocast casts",
)
def autocast_cache(lab: Lab) -> None:
    """With the cache, autocast casts a leaf that requires grad once per context. Without the cache, autocast
    casts the leaf at each use. The cache is cleared at the end of the context.
    """
    kind = lab.device.type
    weight, x = lab.integers(3, 3, requires_grad=True), lab.integers(3, 3)

    def cache_flag_and_cast_count(**options: Any) -> Any:
        with torch.autocast(kind, dtype=torch.bfloat16, **options):
            enabled = torch.is_autocast_cache_enabled()
            out = (x @ weight).float() + (x @ weight).float()
        nodes, queue = set(), [out.grad_fn]
        while queue:
            node = queue.pop()
            if node is None or node in nodes:
                continue
            nodes.add(node)
            queue += [after for after, _ in node.next_functions]
        names = [node.name() for node in nodes]
        with lab.documented():
            lab.same(f"value with {options}", out.detach())
        (gradient,) = torch.autograd.grad(out.sum(), weight)
        with lab.documented():
            lab.same(f"gradient with {options}", gradient)
        return [enabled, sum("ToCopy" in name for name in names)]

    with_cache, without = cache_flag_and_cast_count(), cache_flag_and_cast_count(cache_enabled=False)
    lab.same("with the cache", with_cache)
    lab.same("without", without)
    lab.holds("the cache avoids one cast", without[1] == with_cache[1] + 1)
    before = torch.is_autocast_cache_enabled()
    with torch.autocast(kind, dtype=torch.bfloat16, cache_enabled=False):
        with torch.autocast(kind, dtype=torch.bfloat16, cache_enabled=True):
            inner = torch.is_autocast_cache_enabled()
        outer = torch.is_autocast_cache_enabled()
    lab.same("nested", [before, inner, outer, torch.is_autocast_cache_enabled()])
    torch.clear_autocast_cache()
    with torch.no_grad(), torch.autocast(kind, dtype=torch.bfloat16), lab.documented():
        lab.same("without gradients", x @ weight)
    with torch.autocast(kind, dtype=torch.bfloat16):
        with lab.documented():
            lab.holds("and then with", (x @ weight).requires_grad)
        with torch.no_grad(), lab.documented():
            lab.holds("a product under no_grad does not require grad", not (x @ weight).requires_grad)
        with lab.documented():
            lab.holds("a product after no_grad requires grad", (x @ weight).requires_grad)


@behaviour(
    "autocast",
    level="training",
    must_detect=("value",),
    basis="consistency",
    ground="setters, getters and the dtypes of operators must agree; these functions have no page",
)
def autocast_by_hand(lab: Lab) -> None:
    """``set_autocast_enabled`` and ``set_autocast_dtype`` set the state that the getters return and that
    operators use. Each call affects only the device type that is passed to it.
    """
    kind = lab.device.type
    x = lab.integers(3, 3)
    enabled, dtype = torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)
    states: list[Any] = []
    try:
        for chosen in (torch.float16, torch.bfloat16):
            torch.set_autocast_dtype(kind, chosen)
            torch.set_autocast_enabled(kind, True)
            states += [str(torch.get_autocast_dtype(kind)), torch.is_autocast_enabled(kind)]
            lab.same(f"product in {chosen}", x @ x)
            with torch.autocast(kind):
                states.append((x @ x).dtype)
            torch.set_autocast_enabled(kind, False)
            torch.clear_autocast_cache()
            states += [torch.is_autocast_enabled(kind), (x @ x).dtype]
    finally:
        torch.set_autocast_enabled(kind, enabled)
        torch.set_autocast_dtype(kind, dtype)
        torch.clear_autocast_cache()
    lab.same("seen", states)
    with lab.documented():
        lab.holds("autocast is available for the device", torch.amp.autocast_mode.is_autocast_available(kind))
    other_kind = "cuda" if kind == "cpu" else "cpu"
    with torch.autocast(kind, dtype=torch.bfloat16), lab.documented():
        lab.same("autocast stays off for another device type", torch.is_autocast_enabled(other_kind))


@behaviour(
    "autocast",
    must_detect=("value", "error"),
    basis="parity",
    ground="No page says that these arguments are refused or that an unsupported dtype disables autocast",
)
def autocast_refusals(lab: Lab) -> None:
    """``autocast`` refuses an unknown device type, and a device type that is not a string. For an unsupported
    dtype, ``autocast`` warns and stays off.
    """
    kind = lab.device.type
    lab.raises("an unknown device type", lambda: torch.autocast("nonsense"), match="device|autocast")
    lab.raises(
        "a device instead of a string",
        lambda: torch.autocast(torch.device(kind)),  # type: ignore[arg-type]
        ValueError,
        match="device_type",
    )
    with lab.documented():
        lab.raises("none", lambda: torch.autocast(), TypeError)  # type: ignore[call-arg]
    x = lab.integers(2, 2)

    def product_dtype_under_int32_autocast() -> Any:
        with torch.autocast(kind, dtype=torch.int32):
            return (x @ x).dtype

    result = lab.warns("an integer dtype", product_dtype_under_int32_autocast, match="dtype")
    lab.same("autocast is off then", result)
    with lab.documented():
        lab.same("product", x @ x)


@behaviour("autocast", must_detect=("value",))
def autocast_of_threads(lab: Lab) -> None:
    """A new thread starts without autocast, and autocast in one thread does not affect other threads."""
    kind = lab.device.type
    x = lab.integers(3, 3)
    states: list[Any] = []

    def record_and_enable_autocast() -> None:
        states.append((torch.is_autocast_enabled(kind), (x @ x).dtype))
        torch.set_autocast_enabled(kind, True)

    with torch.autocast(kind, dtype=torch.bfloat16):
        thread = threading.Thread(target=record_and_enable_autocast)
        thread.start()
        thread.join(60)
        lab.same("product", x @ x)
    lab.same("seen", [states, torch.is_autocast_enabled(kind)])


@behaviour("autocast", capabilities=("autograd",), must_detect=("value",))
def autocast_of_functions(lab: Lab) -> None:
    """If the argument ``cast_inputs`` is set, ``custom_fwd`` casts the inputs and runs the forward without
    autocast. Otherwise the forward runs in the caller's autocast state. ``custom_bwd`` runs the backward in
    the autocast state of the forward.
    """
    kind = lab.device.type
    states: list[Any] = []

    def product_function_with(**options: Any) -> Any:
        class ProductUnderAutocast(torch.autograd.Function):
            @staticmethod
            @torch.amp.custom_fwd(device_type=kind, **options)  # type: ignore[untyped-decorator]
            def forward(ctx: Any, a: torch.Tensor, b: torch.Tensor) -> Any:
                states.append((a.dtype, torch.is_autocast_enabled(kind)))
                ctx.save_for_backward(a, b)
                return a @ b

            @staticmethod
            @torch.amp.custom_bwd(device_type=kind)  # type: ignore[untyped-decorator]
            def backward(ctx: Any, grad: Any) -> Any:
                states.append((grad.dtype, torch.is_autocast_enabled(kind)))
                a, b = ctx.saved_tensors
                return grad @ b.t(), a.t() @ grad

        return ProductUnderAutocast

    a, b = lab.integers(3, 3, requires_grad=True), lab.integers(3, 3, requires_grad=True)
    for options in ({}, {"cast_inputs": torch.float32}, {"cast_inputs": torch.bfloat16}):
        a.grad = b.grad = None
        with torch.autocast(kind, dtype=torch.bfloat16):
            out = product_function_with(**options).apply(a, b)
            loss = out.float().sum()
        loss.backward()
        lab.same(f"value with {options}", out.detach())
        lab.same(f"gradients with {options}", [a.grad, b.grad])
    product = product_function_with(cast_inputs=torch.bfloat16).apply(a, b)
    lab.same("outside nothing is cast", product.detach())
    lab.same("seen", states)


@behaviour(
    "autocast",
    capabilities=("autograd",),
    must_detect=("value",),
    ground=(
        "type mismatches under autocast are bugs; by the docstring of Tensor.grad_dtype gradients get the "
        "dtype of the leaf"
    ),
)
def autocast_of_recurrent_modules(lab: Lab) -> None:
    """Recurrent modules run under autocast, and their gradients have the dtype of their parameters."""
    kind = lab.device.type
    for name, make in {"rnn": torch.nn.RNN, "lstm": torch.nn.LSTM, "gru": torch.nn.GRU}.items():
        module = make(2, 3)
        with torch.no_grad():
            for index, parameter in enumerate(module.parameters()):
                parameter.copy_((torch.arange(parameter.numel()).view_as(parameter) % 5 - 2 + index % 2) / 8)
        module = lab.to(module)
        # oneDNN refuses a bfloat16 LSTM on processors without bfloat16 instructions.
        with torch.backends.mkldnn.flags(enabled=False), torch.autocast(kind, dtype=torch.bfloat16):
            out, _ = module(lab.integers(4, 1, 2) / 4)
        out.float().sum().backward()
        lab.close(f"{name}: result", out.detach().float(), roundings=32, dtype=torch.bfloat16, matrix=True)
        lab.same(f"{name}: gradients' dtypes", [p.grad.dtype for p in module.parameters()])
        lab.close(
            f"{name}: gradients",
            [p.grad for p in module.parameters()],
            roundings=64,
            dtype=torch.bfloat16,
            matrix=True,
        )
