"""Numerical gradients, integers in interpolation, swapping, and what draws no random numbers."""

from __future__ import annotations

import pickle
from typing import Any

import torch
import torch.nn.functional as F

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab


@behaviour("tensor", dtypes=("float32", "float64", "int64"), sees=("value", "error"))
def numerical_gradients(lab: Lab) -> None:
    """torch.gradient takes spacing as one number, one for each dimension, or coordinates; too few points or
    spacings are refused.
    """
    base = lab.put([[1, 4, 9, 16, 25], [2, 3, 5, 7, 11], [0, 1, 1, 2, 3]], dtype=lab.dtype)
    lab.expect("along 1", torch.gradient(base, dim=1)[0][0], [3, 4, 6, 8, 9])
    lab.same("all", list(torch.gradient(base.double())))
    lab.same("a spacing", list(torch.gradient(base.double(), spacing=2.0)))
    lab.same("a spacing each", list(torch.gradient(base.double(), spacing=[2.0, 0.5])))
    places = (lab.put([0.0, 1.0, 4.0]), lab.put([0.0, 1.0, 2.0, 4.0, 8.0]))
    lab.close(
        "coordinates", list(torch.gradient(base.double(), spacing=places)), roundings=64, dtype=torch.float32
    )
    lab.close("by squares at the ends", list(torch.gradient(base.double(), edge_order=2)), roundings=64)
    lab.same("two dimensions", list(torch.gradient(base, dim=(1, 0))))
    lab.same("dtypes", [part.dtype for part in torch.gradient(base.float(), spacing=2)])
    lab.raises("too many spacings", lambda: torch.gradient(base, spacing=[1.0, 2.0, 3.0]), match="spacing")
    lab.raises(
        "spacing for other dimensions",
        lambda: torch.gradient(base, spacing=[1.0, 2.0], dim=0),
        match="spacing",
    )
    lab.raises("one point", lambda: torch.gradient(base[:1], dim=0), match="(?i)edge_order")
    lab.raises("a dimension twice", lambda: torch.gradient(base, dim=(0, 0)), match="(?i)multiple times")
    lab.raises("a dimension too far", lambda: torch.gradient(base, dim=3), IndexError)
    lab.raises("another order", lambda: torch.gradient(base, edge_order=3), match="edge_order")


@behaviour("tensor", sees=("value", "error"))
def upsampling_of_integers(lab: Lab) -> None:
    """Interpolation of bytes repeats them; sizes, scales and grids that do not fit are refused."""
    plane = lab.integers(1, 2, 3, 4, low=0, high=9)
    lab.expect(
        "each twice",
        F.interpolate(plane, scale_factor=2),
        plane.cpu().repeat_interleave(2, 2).repeat_interleave(2, 3),
    )
    small = plane.to(torch.uint8)
    lab.same("bytes", F.interpolate(small, scale_factor=2, mode="nearest"))
    lab.same("exactly", F.interpolate(plane, size=(5, 7), mode="nearest-exact"))
    lab.raises("no size", lambda: F.interpolate(plane), ValueError, match="size or scale_factor")
    lab.raises(
        "both",
        lambda: F.interpolate(plane, size=3, scale_factor=2),
        ValueError,
        match="only one of size or scale_factor",
    )
    lab.raises(
        "a mode for planes of a line",
        lambda: F.interpolate(plane[0], scale_factor=2, mode="bilinear"),
        NotImplementedError,
    )
    grid = torch.zeros(1, 2, 2, 2, device=lab.device)
    lab.raises(
        "a grid of three numbers",
        lambda: F.grid_sample(plane, torch.zeros(1, 2, 2, 3, device=lab.device), align_corners=False),
        match="(?i)grid",
    )
    lab.raises(
        "a grid for another batch",
        lambda: F.grid_sample(plane, grid.expand(2, 2, 2, 2), align_corners=False),
        match="(?i)batch",
    )
    lab.raises(
        "a grid of a line",
        lambda: F.grid_sample(plane, grid[0], align_corners=False),
        match="(?i)dim|4D|5D|batch",
    )
    lab.raises("a grid of integers", lambda: F.grid_sample(plane, grid.long(), align_corners=False))
    lab.raises(
        "an empty plane",
        lambda: F.grid_sample(plane[:, :, :0], grid, align_corners=False),
        match="(?i)empty|non-zero|nonzero",
    )


@behaviour("tensor", sees=("value",))
def swapped_tensors(lab: Lab) -> None:
    """swap_tensors exchanges two tensors under their names, attributes and types included; it refuses a
    tensor with weak references.
    """
    matrix, vector = lab.integers(2, 3), lab.integers(4)
    matrix.note = "first"  # type: ignore[attr-defined]
    first, second = matrix.clone(), vector.clone()
    held, kept = id(matrix), id(vector)
    torch.utils.swap_tensors(matrix, vector)
    lab.same("swapped", [matrix, vector])
    lab.holds("values have changed places", torch.equal(matrix, second) and torch.equal(vector, first))
    lab.holds("objects have not", id(matrix) == held and id(vector) == kept)
    lab.expect("an attribute goes along", vector.note, "first")  # type: ignore[attr-defined]
    parameter, plain = torch.nn.Parameter(lab.integers(3)), lab.integers(2)
    torch.utils.swap_tensors(parameter, plain)
    lab.holds("types go along", isinstance(plain, torch.nn.Parameter) and type(parameter) is torch.Tensor)
    lab.same("they work", [parameter + 1, plain.detach() * 2])


@behaviour("tensor", sees=("value", "warning"))
def questionable_writes_warn(lab: Lab) -> None:
    """Writing into an out= that must be resized warns, and so does cutting a complex number to
    its real part.
    """
    out = torch.ones(2, device=lab.device)
    lab.warns("an out= that is resized", lambda: torch.add(lab.integers(3), 1, out=out), match="(?i)resized")
    lab.same("what it holds", out.shape)
    half = lab.warns(
        "a complex number that is cut", lambda: lab.put([1 + 2j]).to(torch.float32), match="(?i)imaginary"
    )
    lab.expect("its real part", half, [1.0])


@behaviour("tensor", sees=("value",))
def random_state_after_pickling(lab: Lab) -> None:
    """Copies to the host, pickling and printing draw no random numbers; an odd count of normal ones leaves no
    remainder behind.
    """

    def drawn(between: Any) -> torch.Tensor:
        torch.manual_seed(17)
        first = torch.randn(5, device=lab.device)
        between(first)
        return torch.cat((first, torch.randn(5, device=lab.device)))

    plain = drawn(lambda tensor: None)
    calls: dict[str, Any] = {
        "pickling": lambda tensor: pickle.loads(pickle.dumps(tensor)),
        "printing": repr,
        "moving": lambda tensor: tensor.cpu().to(lab.device),
        "arithmetic": lambda tensor: (tensor @ tensor) + tensor.sort().values.sum(),
        "factories": lambda tensor: (
            torch.zeros(3, device=lab.device) + torch.empty(3, device=lab.device).zero_()
        ),
    }
    for name, call in calls.items():
        lab.holds(f"{name} draws nothing", torch.equal(plain, drawn(call)))
    torch.manual_seed(17)
    state = torch.get_rng_state()
    odd = torch.randn(1)
    torch.set_rng_state(state)
    lab.holds("a host state brings single normal numbers back", torch.equal(odd, torch.randn(1)))
    lab.same("what was left", lab.integers(3) + 1)
