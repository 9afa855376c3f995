"""Behaviours of ``gradcheck`` for inputs and results that are unused, complex, sparse or on other devices,
and for results whose shape depends on values.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd import gradcheck, gradgradcheck
from torch.autograd.function import Function
from torch.autograd.gradcheck import GradcheckError

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab


@behaviour(
    "autograd",
    dtypes=("float64",),
    must_detect=("value",),
    page="generated/torch.autograd.gradcheck.gradcheck.html",
)
def gradcheck_of_unused_inputs(lab: Lab) -> None:
    """``gradcheck`` and ``gradgradcheck`` accept inputs that do not affect any result, and inputs and results
    on another device. Both functions also work under a default device.
    """
    x, y = lab.floats(3, requires_grad=True), lab.floats(3, requires_grad=True)
    lab.same("gradcheck", gradcheck(lambda a, b: (a * a, a * 2), (x, y), fast_mode=True))
    lab.same("gradgradcheck", gradgradcheck(lambda a, b: (a * a, a * 2), (x, y), fast_mode=True))
    vector = lab.floats(2, 1, low=0.5, requires_grad=True)
    matrix = lab.floats(3, 2, low=0.5)

    def product_sum_of_expanded(t: torch.Tensor) -> torch.Tensor:
        return (matrix @ t.expand(2, 2)).sum()

    lab.same("a broadcast vector", gradcheck(product_sum_of_expanded, (vector,)))
    lab.same(
        "the second derivative of a broadcast vector",
        gradgradcheck(product_sum_of_expanded, (vector,), fast_mode=True),
    )
    with torch.device(lab.device):
        lab.same("with a default device", gradcheck(lambda a: a**2.0, (x,), fast_mode=True))
    if lab.target.declares("complex128"):
        base = -torch.ones(2, device=lab.device, dtype=torch.float64)
        exponent = lab.floats(2, dtype=torch.complex128, requires_grad=True)
        lab.same(
            "a negative base, a complex exponent",
            gradcheck(lambda e: torch.pow(base, e), (exponent,), fast_mode=True),
        )
        lab.same(
            "a negative number as the base",
            gradcheck(lambda e: torch.pow(-1, e), (exponent,), fast_mode=True),
        )
    single = lab.put([1.0], dtype=torch.float64, requires_grad=True)
    lab.same("a result on the host", gradcheck(lambda a: a.to("cpu") * 2, (single,)))
    host = torch.ones(1, dtype=torch.float64, requires_grad=True)
    lab.same("an input on the host", gradcheck(lambda a: a.to(lab.device) * 2, (host,)))


@behaviour(
    "autograd",
    dtypes=("float64",),
    must_detect=("value",),
    page="generated/torch.autograd.gradcheck.gradcheck.html",
)
def gradcheck_of_complex_results(lab: Lab) -> None:
    """``gradcheck`` accepts functions of real and complex inputs with real and complex results. This holds in
    fast and slow mode, and for backward and forward derivatives.
    """
    if not lab.target.declares("complex128"):
        lab.nothing_due("the target declares no complex128")
        return
    real = lab.floats(2, 2, requires_grad=True)
    both = lab.floats(2, 2, dtype=torch.complex128, requires_grad=True)
    for fast in (False, True):
        lab.same(
            f"mixed results, fast {fast}",
            gradcheck(lambda a, b: (a * b, a * 2, b.real), (real, both), fast_mode=fast),
        )
        lab.same(
            f"forward, fast {fast}",
            gradcheck(
                lambda a, b: (a * b, b.abs() ** 2),
                (real, both),
                fast_mode=fast,
                check_forward_ad=lab.target.capable("forward_ad"),
            ),
        )


@behaviour(
    "autograd",
    dtypes=("float64",),
    must_detect=("value", "error"),
    page="generated/torch.autograd.gradcheck.gradcheck.html",
    basis="parity",
    ground="No page says what gradcheck does with results that vary or with errors of the function",
)
def gradcheck_of_results_that_vary(lab: Lab) -> None:
    """``gradcheck`` raises an error for functions whose results change shape or dtype when the input is
    perturbed. Errors of the function propagate.
    """
    x = lab.put([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float64, requires_grad=True)

    def shape_depends_on_value(t: torch.Tensor) -> torch.Tensor:
        return t.flatten() if t.detach()[0, 0].item() >= 1.0 else t.sum()

    def dtype_depends_on_value(t: torch.Tensor) -> torch.Tensor:
        return t * 2 if t.detach()[0, 0].item() >= 1.0 else t.to(torch.float32)

    errors = (AssertionError, GradcheckError)
    lab.raises("another shape", lambda: gradcheck(shape_depends_on_value, (x,)), *errors, match="same shape")
    lab.raises("another dtype", lambda: gradcheck(dtype_depends_on_value, (x,)), *errors, match="same dtype")

    class RaisesInBackward(Function):
        @staticmethod
        def forward(ctx: Any, t: torch.Tensor) -> Any:
            return t * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            raise KeyError("no backward today")

    class RaisesInForward(Function):
        @staticmethod
        def forward(ctx: Any, t: torch.Tensor) -> Any:
            raise KeyError("no forward today")

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad

    for name, function in {"backward": RaisesInBackward.apply, "forward": RaisesInForward.apply}.items():
        for raising in (True, False):
            lab.raises(
                f"an error in {name}, raise_exception={raising}",
                lambda: gradcheck(function, (x,), raise_exception=raising),
                KeyError,
                match=f"no {name} today",
            )
    lab.holds("GradcheckError is a RuntimeError", issubclass(GradcheckError, RuntimeError))
    with lab.documented():
        lab.same("gradient", torch.autograd.grad((x * x).sum(), x)[0])


@behaviour(
    "autograd",
    dtypes=("float64",),
    capabilities=("forward_ad",),
    must_detect=("value",),
    page="generated/torch.autograd.gradcheck.gradcheck.html",
    basis="parity",
    ground="No page says with which inputs gradcheck calls the function",
)
def gradcheck_passes_needs_on(lab: Lab) -> None:
    """In forward mode, ``gradcheck`` calls the function with inputs that require grad and with inputs that do
    not. Only inputs that require grad get tangents.
    """
    needs: list[tuple[bool, bool]] = []

    class ProductRecordingRequiresGrad(Function):
        @staticmethod
        def forward(ctx: Any, a: torch.Tensor, b: torch.Tensor) -> Any:
            needs.append((a.requires_grad, b.requires_grad))
            ctx.save_for_backward(a, b)
            ctx.save_for_forward(a, b)
            return a * b

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            a, b = ctx.saved_tensors
            return grad * b, grad * a

        @staticmethod
        def jvp(ctx: Any, da: Any, db: Any) -> Any:
            a, b = ctx.saved_tensors
            total = torch.zeros_like(a)
            if da is not None:
                total = total + da * b
            if db is not None:
                total = total + a * db
                tangents_passed.extend(["second"] if bool(db.any()) else [])
            return total

    tangents_passed: list[str] = []
    x, y = lab.floats(2, requires_grad=True), lab.floats(2, requires_grad=True)
    options: dict[str, Any] = {"check_forward_ad": True, "check_undefined_grad": False, "fast_mode": True}
    with lab.documented():
        lab.same("both", gradcheck(ProductRecordingRequiresGrad.apply, (x, y), **options))
    lab.same("requires_grad flags of the inputs", sorted(set(needs)))
    lab.holds("the second input has a tangent", "second" in tangents_passed)
    tangents_passed.clear()
    with lab.documented():
        lab.same(
            "one input that does not require grad",
            gradcheck(ProductRecordingRequiresGrad.apply, (x, y.detach()), **options),
        )
    lab.holds("an input that does not require grad has no tangent", not tangents_passed)


@behaviour(
    "autograd",
    dtypes=("float64",),
    capabilities=("sparse",),
    must_detect=("value", "error"),
    page="generated/torch.autograd.gradcheck.gradcheck.html",
)
def gradcheck_of_sparse_beside_dense(lab: Lab) -> None:
    """``gradcheck`` with ``masked=True`` accepts sparse inputs together with dense inputs. Sparse results are
    refused.
    """
    sparse = lab.put([[0.0, 1.5], [2.5, 0.0]], dtype=torch.float64).to_sparse().requires_grad_()
    dense = lab.floats(2, 2, requires_grad=True)

    def sparse_product(a: torch.Tensor, b: torch.Tensor) -> Any:
        return torch.sparse.mm(a, b)

    for fast in (False, True):
        lab.same(
            f"sparse and dense, fast {fast}",
            gradcheck(sparse_product, (sparse, dense), masked=True, fast_mode=fast, check_batched_grad=False),
        )
        lab.same(
            f"a sparse input, fast {fast}",
            gradcheck(
                lambda a: a.to_dense(), (sparse,), masked=True, fast_mode=fast, check_batched_grad=False
            ),
        )
        with lab.parity("No page says that sparse results are refused"):
            lab.raises(
                f"a sparse result, fast {fast}",
                lambda: gradcheck(
                    lambda a: a * 2, (sparse,), masked=True, fast_mode=fast, check_batched_grad=False
                ),
                ValueError,
                match="[Ss]parse",
            )
    lab.same("gradient", torch.autograd.grad((dense * dense).sum(), dense)[0])
