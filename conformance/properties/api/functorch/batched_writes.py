"""Behaviours of in-place methods under ``vmap``, and of writes that ``vmap`` rejects."""

from __future__ import annotations

import torch

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api.functorch.training import trees_agree

vmap = torch.vmap


@behaviour("functorch", level="full", must_detect=("value", "alias"), page="func.ux_limitations.html")
def batches_of_writes_by_methods(lab: Lab) -> None:
    """Under one or several levels of ``vmap``, an in-place method writes into the mapped tensor and returns
    it. A second tensor may be mapped over other dimensions or not at all. With ``out_dims``, the result is a
    view of the mapped tensor.
    """
    start = lab.floats(2, 3, 4, low=-0.9, high=0.9)
    x = start[0].clone()
    result = vmap(torch.Tensor.acos_)(x)
    with lab.parity("No page says that the result of vmap shares memory with its input"):
        lab.shares("the result and the input", result, x)
    lab.close("one level", x)
    lab.holds("one level: agrees with the plain call", trees_agree(x, start[0].acos()))
    x = start[0].clone()
    moved = vmap(torch.Tensor.acos_, out_dims=1)(x)
    with lab.parity("No page says that the result of vmap shares memory with its input"):
        lab.shares("the result in other dimensions and the input", moved, x)
    lab.close("other dimensions", moved)
    lab.holds("other dimensions: agrees with the plain call", trees_agree(moved, start[0].T.acos()))
    x = start.clone()
    result = vmap(vmap(torch.Tensor.acos_))(x)
    with lab.parity("No page says that the result of vmap shares memory with its input"):
        lab.shares("the result of two levels and the input", result, x)
    lab.close("two levels", x)
    lab.holds("two levels: as without", trees_agree(x, start.acos()))
    base, second_operand = lab.floats(3, 4, 2, low=0.5), lab.floats(2, 3, 4, low=0.5)
    x = base.clone()
    vmap(torch.Tensor.atan2_, (2, 0))(x, second_operand)
    lab.close("two tensors", x)
    lab.holds("two tensors: as without", trees_agree(x, torch.atan2(base, second_operand.movedim(0, 2))))
    x = base.clone()
    vmap(vmap(torch.Tensor.atan2_), (2, 0))(x, second_operand)
    lab.close("two tensors, two levels", x)
    lab.holds(
        "two tensors, two levels: agrees with the plain call",
        trees_agree(x, torch.atan2(base, second_operand.movedim(0, 2))),
    )
    x = start.clone()
    vmap(vmap(vmap(torch.Tensor.atan2_)))(x, second_operand)
    lab.holds(
        "two tensors, three levels: agrees with the plain call",
        trees_agree(x, torch.atan2(start, second_operand)),
    )
    x = base.clone()
    vmap(torch.Tensor.atan2_, (0, None))(x, second_operand[0, 0, :2])
    lab.close("a second tensor that is not mapped", x)
    lab.holds(
        "a second tensor that is not mapped: agrees with the plain call",
        trees_agree(x, torch.atan2(base, second_operand[0, 0, :2])),
    )
    x = base.clone()
    vmap(vmap(torch.Tensor.atan2_, (0, None)))(x, second_operand[0, :, :2])
    lab.holds(
        "a tensor that the inner level does not map: agrees with the plain call",
        trees_agree(x, torch.atan2(base, second_operand[0, :, None, :2])),
    )


@behaviour(
    "functorch",
    capabilities=("autograd",),
    level="full",
    must_detect=("error",),
    page="func.ux_limitations.html",
)
def batches_refuse_writes(lab: Lab) -> None:
    """Under ``vmap``, a write of a batch into a tensor that is not mapped at this level raises an error. An
    ``out=`` argument, a result that is not a tensor, ``backward`` and a read of ``.data`` raise errors too.
    """
    x, y = lab.floats(3), lab.floats(2, 3)
    write = torch.Tensor.atan2_
    lab.raises("a write into a tensor that is not mapped", lambda: vmap(write, (None, 0))(x, y))
    rows = lab.floats(4, 3)
    lab.raises("across levels", lambda: vmap(vmap(write, (0, None)), (None, 0))(rows, y))
    lab.raises(
        "a write into a tensor that the inner level does not map",
        lambda: vmap(vmap(write, (0, None)), (None, 1))(rows, y.T),
    )
    lab.raises("below", lambda: vmap(vmap(write, (None, 0)))(y, lab.floats(2, 4, 3)))
    lab.raises("out=", lambda: vmap(lambda a, b: torch.abs(a, out=b))(y, y.clone()), match="abs")
    lab.raises("a truth as result", lambda: vmap(torch.equal)(y, y), match="equal")
    start, weights = lab.floats(3, requires_grad=True), lab.floats(3)

    def backward_of_captured_tensor(a: torch.Tensor) -> torch.Tensor:
        start.sum().backward()
        return a

    captured = lab.floats(3, requires_grad=True)
    with lab.parity("The page only says that torch.autograd calls may be refused, not which of the calls"):
        lab.raises(
            "backward of an element", lambda: vmap(lambda a: a.sum().backward())(start), match="backward"
        )
        lab.raises("backward by an element", lambda: vmap(lambda a, g: a.backward(g))(start, weights))
        lab.raises(
            "backward of a captured tensor",
            lambda: vmap(backward_of_captured_tensor)(weights),
            match="backward",
        )
        lab.raises(
            "a gradient of a batch with respect to a captured tensor",
            lambda: vmap(lambda a: torch.autograd.grad([(captured * a).sum()], [captured])[0])(weights),
        )
    with lab.parity("No page says that a read of .data is an error"):
        lab.raises("data", lambda: vmap(lambda a: a.data)(y), match="data")


@behaviour(
    "functorch",
    level="full",
    capabilities=("random",),
    must_detect=("error", "message"),
    page="func.ux_limitations.html",
)
def batches_refuse_random_writes(lab: Lab) -> None:
    """Under ``vmap``, a random function with ``out=`` raises an error for ``randomness="same"`` and for
    ``randomness="different"``.
    """
    x = lab.floats(3)
    into = lab.floats(3)
    for randomness in ("same", "different"):
        lab.raises(
            f"randn into out=, {randomness}",
            lambda: vmap(lambda a: torch.randn(3, device=lab.device, out=into), randomness=randomness)(x),
            match="out",
        )
        lab.raises(
            f"normal into out=, {randomness}",
            lambda: vmap(lambda a: torch.normal(x, x.abs(), out=into), randomness=randomness)(x),
            match="out",
        )
