"""vmap: in-place methods in a batch, and the writes that it refuses."""

from __future__ import annotations

import torch

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api.functorch.training import near

vmap = torch.vmap


@behaviour("functorch", level="full", sees=("value", "alias"))
def batches_of_writes_by_methods(lab: Lab) -> None:
    """An in-place method in a batch writes into the mapped tensor and gives it back, at several levels, with
    another tensor in other dimensions, and with one tensor for all; with out_dims the result is a view.
    """
    start = lab.floats(2, 3, 4, low=-0.9, high=0.9)
    x = start[0].clone()
    lab.shares("the result and the input", vmap(torch.Tensor.acos_)(x), x)
    lab.close("one level", x)
    lab.holds("one level: as without", near(x, start[0].acos()))
    x = start[0].clone()
    moved = vmap(torch.Tensor.acos_, out_dims=1)(x)
    lab.shares("the result in other dimensions and the input", moved, x)
    lab.close("other dimensions", moved)
    lab.holds("other dimensions: as without", near(moved, start[0].T.acos()))
    x = start.clone()
    lab.shares("the result of two levels and the input", vmap(vmap(torch.Tensor.acos_))(x), x)
    lab.close("two levels", x)
    lab.holds("two levels: as without", near(x, start.acos()))
    base, other = lab.floats(3, 4, 2, low=0.5), lab.floats(2, 3, 4, low=0.5)
    x = base.clone()
    vmap(torch.Tensor.atan2_, (2, 0))(x, other)
    lab.close("two tensors", x)
    lab.holds("two tensors: as without", near(x, torch.atan2(base, other.movedim(0, 2))))
    x = base.clone()
    vmap(vmap(torch.Tensor.atan2_), (2, 0))(x, other)
    lab.close("two tensors, two levels", x)
    lab.holds("two tensors, two levels: as without", near(x, torch.atan2(base, other.movedim(0, 2))))
    x = start.clone()
    vmap(vmap(vmap(torch.Tensor.atan2_)))(x, other)
    lab.holds("two tensors, three levels: as without", near(x, torch.atan2(start, other)))
    x = base.clone()
    vmap(torch.Tensor.atan2_, (0, None))(x, other[0, 0, :2])
    lab.close("one tensor for all", x)
    lab.holds("one tensor for all: as without", near(x, torch.atan2(base, other[0, 0, :2])))
    x = base.clone()
    vmap(vmap(torch.Tensor.atan2_, (0, None)))(x, other[0, :, :2])
    lab.holds("one for all of the inner level", near(x, torch.atan2(base, other[0, :, None, :2])))


@behaviour("functorch", level="full", sees=("error",))
def batches_refuse_writes(lab: Lab) -> None:
    """vmap refuses to write a batch into a tensor that is not mapped at that level, out= arguments, random
    numbers into out=, results that are no tensors, backward and reads of .data.
    """
    x, y = lab.floats(3), lab.floats(2, 3)
    write = torch.Tensor.atan2_
    lab.raises("into one tensor", lambda: vmap(write, (None, 0))(x, y))
    rows = lab.floats(4, 3)
    lab.raises("across levels", lambda: vmap(vmap(write, (0, None)), (None, 0))(rows, y))
    lab.raises("across levels, other dimension", lambda: vmap(vmap(write, (0, None)), (None, 1))(rows, y.T))
    lab.raises("below", lambda: vmap(vmap(write, (None, 0)))(y, lab.floats(2, 4, 3)))
    lab.raises("out=", lambda: vmap(lambda a, b: torch.abs(a, out=b))(y, y.clone()), match="abs")
    lab.raises("a truth as result", lambda: vmap(torch.equal)(y, y), match="equal")
    start = lab.floats(3, requires_grad=True)
    lab.raises("backward of an element", lambda: vmap(lambda a: a.sum().backward())(start), match="backward")
    weights = lab.floats(3)
    lab.raises("backward by an element", lambda: vmap(lambda a, g: a.backward(g))(start, weights))

    def unrelated(a: torch.Tensor) -> torch.Tensor:
        start.sum().backward()
        return a

    lab.raises("backward of what is outside", lambda: vmap(unrelated)(weights), match="backward")
    captured = lab.floats(3, requires_grad=True)
    lab.raises(
        "a gradient of a batch by what is outside",
        lambda: vmap(lambda a: torch.autograd.grad([(captured * a).sum()], [captured])[0])(weights),
    )
    lab.raises("data", lambda: vmap(lambda a: a.data)(y), match="data")


@behaviour("functorch", level="full", capabilities=("random",), sees=("error", "message"))
def batches_refuse_random_writes(lab: Lab) -> None:
    """vmap refuses random numbers into out=, whatever its randomness is."""
    x = lab.floats(3)
    into = lab.floats(3)
    for word in ("same", "different"):
        lab.raises(
            f"randn into out=, {word}",
            lambda: vmap(lambda a: torch.randn(3, device=lab.device, out=into), randomness=word)(x),
            match="out",
        )
        lab.raises(
            f"normal into out=, {word}",
            lambda: vmap(lambda a: torch.normal(x, x.abs(), out=into), randomness=word)(x),
            match="out",
        )
