"""Check that views share the memory of their base, and that copies do not."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import torch

from conformance.behaviours.behaviour import ALL, behaviour
from conformance.behaviours.lab import Lab

#: Views of a tensor of shape (2, 3, 4), by name.
_VIEWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "select": lambda x: x.select(1, 2),
    "narrow": lambda x: x.narrow(2, 1, 2),
    "diagonal": lambda x: x.diagonal(1, 0, 2),
    "transpose": lambda x: x.transpose(0, 2),
    "swapaxes": lambda x: x.swapaxes(0, 1),
    "permute": lambda x: x.permute(2, 0, 1),
    "movedim": lambda x: x.movedim(0, 2),
    "mT": lambda x: x.mT,
    "unsqueeze": lambda x: x.unsqueeze(1),
    "unfold": lambda x: x.unfold(2, 2, 2),
    "as_strided": lambda x: x.as_strided((3, 2), (4, 1), 1),
    "view": lambda x: x.view(6, 4),
    "view with -1": lambda x: x.view(-1),
    "view_as": lambda x: x.view_as(x.new_empty(4, 6)),
    "reshape": lambda x: x.reshape(3, 8),
    "reshape_as": lambda x: x.reshape_as(x.new_empty(24)),
    "flatten": lambda x: x.flatten(1),
    "unflatten": lambda x: x.unflatten(2, (2, 2)),
    "ravel": lambda x: x.ravel(),
    "slice": lambda x: x[:, 1:, ::2],
    "ellipsis": lambda x: x[..., 1],
    "new axis": lambda x: x[None, 1],
    "integers": lambda x: x[1, 2],
    "detach": lambda x: x.detach(),
    "alias": lambda x: torch.ops.aten.alias(x),
}

_PARTS: dict[str, Callable[[torch.Tensor], tuple[torch.Tensor, ...]]] = {
    "unbind": lambda x: x.unbind(1),
    "split": lambda x: x.split(2, dim=2),
    "split by sizes": lambda x: x.split([1, 3], dim=2),
    "chunk": lambda x: x.chunk(3, dim=2),
    "tensor_split": lambda x: x.tensor_split(3, dim=2),
    "tensor_split at": lambda x: x.tensor_split((1, 2), dim=1),
    "hsplit": lambda x: x.hsplit(3),
    "vsplit": lambda x: x.vsplit(2),
    "dsplit": lambda x: x.dsplit(2),
    "unsafe_split": lambda x: x.unsafe_split(2, dim=2),
}


#: Functions that return views on the CPU and may copy on another device, each with the ground of parity.
_MAY_COPY = {
    "reshape": "The page of reshape advises not to depend on whether the result is a view or a copy",
    "reshape_as": "The page of reshape advises not to depend on whether the result is a view or a copy",
    "alias": "The operator aten.alias is undocumented",
    "unsafe_split": "The page says that unsafe_split works like split, but not that its parts may be written",
}


def _check_view(lab: Lab, name: str, base: torch.Tensor, view: torch.Tensor) -> None:
    """Check that ``view`` shares the storage of ``base``, that its ``_base`` is ``base``, and that a write to
    the view changes the base.
    """
    lab.same(name, view, strides=True)
    ground = _MAY_COPY.get(name)
    with contextlib.nullcontext() if ground is None else lab.parity(ground):
        lab.shares(f"{name} and its base", base, view)
        if name not in ("detach", "unsafe_split"):
            with lab.parity("The attribute or function is private and undocumented"):
                lab.holds(f"{name} has the base as _base", view._is_view() and view._base is base)
        with torch.no_grad():
            view.fill_(1)
        lab.same(f"base after {name}", base)


@behaviour("views", dtypes=ALL, level="core", must_detect=("value", "alias", "shape"))
def view_functions_share(lab: Lab) -> None:
    """Functions that return views return part of the memory of their base, with the correct shape and
    strides. A write to a view changes its base.
    """
    for name, function in _VIEWS.items():
        if name == "as_strided" and not lab.target.capable("strides"):
            continue
        base = lab.integers(2, 3, 4, low=2, high=6)
        _check_view(lab, name, base, function(base))


@behaviour(
    "views", dtypes=("float32", "int64", "complex64", "bool"), level="core", must_detect=("value", "alias")
)
def views_in_parts(lab: Lab) -> None:
    """Functions that split a tensor return views of the tensor. Together, the views contain every element."""
    for name, function in _PARTS.items():
        base = lab.integers(2, 3, 4, low=2, high=6)
        parts = function(base)
        lab.holds(f"{name} returns a tuple or list", isinstance(parts, (tuple, list)))
        lab.same(name, list(parts), strides=True)
        ground = _MAY_COPY.get(name)
        with contextlib.nullcontext() if ground is None else lab.parity(ground):
            for part in parts:
                lab.shares(f"a part of {name} and the base", base, part)
            parts[-1].fill_(1)
            lab.same(f"base after a write to a part of {name}", base)


@behaviour("views", dtypes=ALL, level="core", must_detect=("value", "alias"))
def two_dimensional_views(lab: Lab) -> None:
    """``t``, ``T``, ``diagonal`` and ``squeeze`` of a matrix return views. ``H`` and ``adjoint`` of a real
    matrix return views.
    """
    functions: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "t": torch.t,
        "T": lambda x: x.T,
        "transposed twice": lambda x: x.t().t(),
        "diagonal": lambda x: x.diagonal(-1),
        "squeeze": lambda x: x.unsqueeze(0).squeeze(0),
        "squeeze of several": lambda x: x[None, :, None].squeeze((0, 2)),
        "squeeze of all": lambda x: x.view(3, 1, 4, 1).squeeze(),
    }
    for name, function in functions.items():
        base = lab.integers(3, 4, low=2, high=6)
        view = function(base)
        lab.shares(f"{name} and its base", base, view)
        lab.same(name, view, strides=True)
        view.fill_(1)
        lab.same(f"base after {name}", base)
    base = lab.integers(3, 4)
    if not base.is_complex():
        lab.shares("H of real numbers and the base", base, base.H)
        lab.shares("adjoint of real numbers and the base", base, base.adjoint())


@behaviour(
    "views",
    dtypes=("float32", "int64", "bool"),
    level="core",
    must_detect=("value", "alias"),
    page="generated/torch.Tensor.expand.html",
)
def expanded_views(lab: Lab) -> None:
    """``expand``, ``expand_as`` and ``broadcast_to`` repeat elements without copying. The stride of a
    repeated dimension is 0.
    """
    base = lab.integers(3, 1, low=2, high=6)
    for name, view in {
        "expand": base.expand(2, 3, 4),
        "expand with -1": base.expand(-1, 5),
        "expand_as": base.expand_as(base.new_empty(3, 2)),
        "broadcast_to": base.broadcast_to(2, 3, 2),
        "broadcast_tensors": torch.broadcast_tensors(base, base.new_empty(1, 4))[0],
    }.items():
        lab.same(name, view, strides=True)
        lab.shares(f"{name} and its base", base, view)
    base.expand(3, 4)[1, 2:3].fill_(1)
    lab.same("base", base)


@behaviour(
    "views",
    dtypes=("float32", "int64", "complex64"),
    level="core",
    must_detect=("value",),
    capabilities=("strides",),
    page="generated/torch.Tensor.transpose_.html",
)
def in_place_view_functions(lab: Lab) -> None:
    """``transpose_``, ``t_``, ``squeeze_``, ``unsqueeze_``, ``as_strided_``, ``swapdims_`` and ``swapaxes_``
    change the shape and strides of a tensor and return the tensor. They do not change the memory.
    """
    functions: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "transpose_": lambda x: x.transpose_(0, 1),
        "t_": lambda x: x.t_(),
        "swapdims_": lambda x: x.swapdims_(0, 1),
        "swapaxes_": lambda x: x.swapaxes_(-1, 0),
        "unsqueeze_": lambda x: x.unsqueeze_(1),
        "squeeze_": lambda x: x.squeeze_(),
        "as_strided_": lambda x: x.as_strided_((2, 2), (1, 4)),
    }
    for name, function in functions.items():
        base = lab.integers(3, 4)
        view = base.view(3, 4) if name != "squeeze_" else base.view(3, 1, 4)
        result = function(view)
        lab.holds(f"{name} returns its input", result is view)
        lab.same(name, view, strides=True)
        lab.shares(f"the view after {name} and its base", base, view)
        with lab.parity("The attribute or function is private and undocumented"):
            lab.holds(f"the tensor is still a view after {name}", view._is_view() and view._base is base)
        view[0].fill_(9)
        lab.same(f"base after {name}", base)


@behaviour(
    "views",
    dtypes=("float32", "int64", "complex64"),
    level="core",
    must_detect=("value",),
    capabilities=("storage", "strides"),
    page="generated/torch.flatten.html",
)
def copies_where_no_view_can_be(lab: Lab) -> None:
    """``contiguous``, ``reshape``, ``flatten`` and ``ravel`` copy if a view cannot represent the result. If
    it can, they return the tensor itself or a view. Advanced indexing, ``index_select``, ``repeat`` and
    ``clone`` always copy.
    """
    base = lab.integers(3, 4)
    turned = base.t()
    copies = {
        "contiguous": turned.contiguous(),
        "reshape": turned.reshape(12),
        "reshape_as": turned.reshape_as(base.new_empty(2, 6)),
        "flatten": turned.flatten(),
        "ravel": turned.ravel(),
        "an index": base[[0, 2]],
        "an index of tensors": base[lab.put([1, 2]), lab.put([0, 3])],
        "index_select": base.index_select(1, lab.put([3, 0])),
        "repeat": base.repeat(1, 1),
        "clone": base.clone(),
    }
    if lab.target.capable("data_dependent_shapes"):
        copies["a mask"] = base[lab.put([True, False, True])]
    for name, copy in copies.items():
        lab.apart(f"the base and {name}", base, copy)
        lab.same(name, copy)
        copy.fill_(7)
    lab.same("base", base)
    lab.holds("contiguous returns a contiguous tensor itself", base.contiguous() is base)
    with lab.parity("The page of reshape advises not to depend on whether the result is a view or a copy"):
        lab.holds(
            "reshape to the same shape uses the same memory",
            base.reshape(3, 4).data_ptr() == base.data_ptr(),
        )
    lab.holds(
        "flatten of one dimension uses the tensor's memory", base[0].flatten().data_ptr() == base.data_ptr()
    )


@behaviour(
    "views",
    dtypes=("float32", "int64", "bool"),
    level="core",
    must_detect=("value",),
    capabilities=("storage",),
)
def writes_through_indices(lab: Lab) -> None:
    """Assignment to an index writes into the tensor. A write into the result of advanced indexing does not
    change the tensor.
    """
    base = lab.integers(4, 3, low=2, high=6)
    address = base.data_ptr()
    base[[0, 2]] = lab.integers(2, 3, low=0)
    lab.same("rows", base)
    base[lab.put([3, 1]), lab.put([0, 2])] = lab.put([1, 0]).to(lab.dtype)
    lab.same("elements", base)
    base[1:, :2][:, 0] = lab.put([1, 1, 0]).to(lab.dtype)
    lab.same("slices of slices", base)
    copied = base[[1, 2]]
    copied.fill_(1)
    lab.same("base after a write to the result of advanced indexing", base)
    lab.holds("assignments keep the memory address", base.data_ptr() == address)


@behaviour(
    "views",
    capabilities=("autograd", "strides"),
    level="training",
    must_detect=("value", "error"),
    page="generated/torch.as_strided.html",
)
def as_strided_backward(lab: Lab) -> None:
    """The gradient of ``as_strided`` adds the gradients of all positions that read the same element.
    ``as_strided`` of a view with an offset, or of a transposed view, reads the memory of the base.
    """
    base = lab.integers(12).requires_grad_()
    base.as_strided((3, 4), (2, 1)).sum().backward()
    lab.expect("overlapping rows", base.grad, [1.0, 1, 2, 2, 2, 2, 1, 1, 0, 0, 0, 0])
    base = lab.integers(3, 4).requires_grad_()
    base.as_strided((2, 2), (4, 1), 5).mul(3).sum().backward()
    lab.expect("offset", base.grad, [[0.0, 0, 0, 0], [0, 3, 3, 0], [0, 3, 3, 0]])
    base = lab.integers(2, 3).requires_grad_()
    base.t().as_strided((4,), (0,)).sum().backward()
    lab.expect("stride 0", base.grad, [[4.0, 0, 0], [0, 0, 0]])
    lab.raises(
        "beyond the memory",
        lambda: lab.integers(4).as_strided((5,), (1,)),
        match="(?i)storage",
        type_is_documented=True,
    )
    with lab.parity("No page says that a negative stride is refused"):
        lab.raises("a negative stride", lambda: lab.integers(4).as_strided((2,), (-1,)))
    with lab.parity("No page says that different numbers of sizes and strides are refused"):
        lab.raises("different numbers of sizes and strides", lambda: lab.integers(4).as_strided((2, 2), (1,)))
