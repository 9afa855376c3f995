"""Behaviours of foreach operators in special cases: special values, gradients, tensors of two devices, and
lists of different lengths.
"""

from __future__ import annotations

import itertools
import math
import weakref
from collections.abc import Sequence
from typing import Any

import numpy
import torch

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api._numpy_values import to_widest_numpy_array
from conformance.properties.api.foreach.lists import (
    BINARY,
    POINTWISE,
    compare_with_loop,
    foreach_function,
    single_tensor_function,
    tensors_of_several_shapes,
)


@behaviour(
    "foreach",
    dtypes=("float32", "float64", "float16", "bfloat16"),
    level="core",
    must_detect=("value",),
    basis="consistency",
    ground="The foreach norm or maximum and the single-tensor function on each tensor must agree",
)
def norms_of_lists(lab: Lab) -> None:
    """``_foreach_norm`` and ``_foreach_max`` return the result for each tensor, for any number of tensors. If
    squares overflow, a norm may be infinite.
    """
    tensors = [x for x in tensors_of_several_shapes(lab) if x.numel()] + [lab.integers(3000, low=-1, high=2)]
    for order in (1, 2, math.inf):
        compare_with_loop(
            lab,
            f"norm {order}",
            lambda: torch._foreach_norm(tensors, order),
            lambda: [torch.linalg.vector_norm(x, order) for x in tensors],
        )
    compare_with_loop(lab, "max", lambda: torch._foreach_max(tensors), lambda: [x.max() for x in tensors])
    long = [lab.integers(131072, low=-1, high=2)]
    for order in (1, 2):
        tolerance = {"roundings": 64.0}
        result = torch._foreach_norm(long, order)[0]
        lab.expect(
            f"norm {order} of a long tensor",
            result,
            to_widest_numpy_array(torch.linalg.vector_norm(long[0], order)),
            **tolerance,
        )
    many = [lab.integers(2, 3, low=1) for _ in range(400)]
    compare_with_loop(
        lab,
        "norm of many",
        lambda: torch._foreach_norm(many, 2)[::40],
        lambda: [torch.linalg.vector_norm(x) for x in many[::40]],
    )
    lab.same("sums of many", torch._foreach_add(many, 1)[::40])
    if lab.dtype == torch.float16:
        large = torch.full((4,), 20000.0, dtype=lab.dtype, device=lab.device)
        norm = torch._foreach_norm([large], 2)[0]
        # Intermediate squares may overflow (PyTorch's note "Numerical accuracy").
        if bool(norm.isinf()):
            norm = torch.full_like(norm, 40000.0)
        lab.expect("norm of large halves", norm, 40000.0, roundings=4.0)


def _compare_special_values_with_loop(
    lab: Lab, name: str, result: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]
) -> None:
    """Check that a foreach call gives the special values of a loop of single calls. The comparison with the
    CPU has basis parity.
    """
    same = len(result) == len(expected) and all(
        value.dtype == single.dtype
        and numpy.array_equal(to_widest_numpy_array(value), to_widest_numpy_array(single), equal_nan=True)
        for value, single in zip(result, expected, strict=True)
    )
    lab.holds(f"{name} gives the results of the loop", same)
    with lab.parity("No page gives the results for infinities and NaN"):
        lab.same(name, list(result))


@behaviour(
    "foreach",
    dtypes=("float32", "float64", "bfloat16"),
    level="core",
    must_detect=("value",),
    basis="consistency",
    ground="The foreach operator and the single-tensor operator on each tensor must agree",
)
def special_values_in_lists(lab: Lab) -> None:
    """foreach operators give the results of the single-tensor operators for infinities, NaN, empty tensors
    and expanded tensors.
    """
    first = [lab.put([x], dtype=lab.dtype) for x in (math.inf, -math.inf, math.nan, math.nan)]
    second = [lab.put([x], dtype=lab.dtype) for x in (-math.inf, math.inf, math.inf, math.nan)]
    for name in BINARY:
        _compare_special_values_with_loop(
            lab,
            name,
            foreach_function(name)(first, second),
            [single_tensor_function(name)(x, y) for x, y in zip(first, second, strict=True)],
        )
    wide = [torch.ones(1, 1, dtype=lab.dtype, device=lab.device).expand(2, 1, 3)]
    for name in BINARY:
        compare_with_loop(
            lab,
            f"{name} of an expanded tensor",
            lambda: foreach_function(name)(wide, 2),
            lambda: [
                single_tensor_function(
                    "clamp_min" if name == "maximum" else "clamp_max" if name == "minimum" else name
                )(wide[0], 2)
            ],
        )
        square = lab.integers(4, 4, low=1)
        compare_with_loop(
            lab,
            f"{name} of other strides",
            lambda: foreach_function(name)([square], [square.t()]),
            lambda: [single_tensor_function(name)(square, square.t())],
        )
    empty = [torch.empty(0, dtype=lab.dtype, device=lab.device)]
    lab.same("an empty tensor", torch._foreach_add(empty, 1))
    torch._foreach_add_(empty, 1)
    lab.same("an empty tensor in place", empty)
    mixed = [lab.put([1.1], dtype=torch.float32), lab.put([1])]
    for name in ("add", "mul", "div", "sub", "maximum"):
        compare_with_loop(
            lab,
            f"{name} of two dtypes",
            lambda: foreach_function(name)(mixed, 1),
            lambda: [
                (torch.clamp_min if name == "maximum" else single_tensor_function(name))(x, 1) for x in mixed
            ],
        )
    tenth = torch._foreach_div([lab.put([0.1])], [10.0])[0]
    lab.expect(
        "_foreach_div rounds like a division",
        tenth,
        to_widest_numpy_array(torch.div(lab.put([0.1]), 10.0)),
        roundings=2.0,
    )


@behaviour(
    "foreach",
    level="core",
    must_detect=("error", "message"),
    basis="parity",
    ground="No page of the stable documentation says that these lists are refused",
)
def lists_that_do_not_fit(lab: Lab) -> None:
    """foreach operators raise errors for empty lists, for lists of different lengths, and for a tensor with
    several elements in place of a number.
    """
    pair = [lab.integers(1), lab.integers(1)]
    for name in BINARY:
        function = foreach_function(name)
        lab.raises(
            f"{name} of nothing",
            lambda: function([], []),
            match="(?i)no tensor arguments|at least one tensor|must have at least one",
        )
        lab.raises(
            f"{name} of lists with one and two tensors",
            lambda: function(pair[:1], pair),
            match="(?i)same number",
        )
        with lab.consistent(
            "The single-tensor operator refuses these two shapes, so the list operator must refuse them too"
        ):
            lab.raises(
                f"{name} of tensors of different shapes",
                lambda: function([lab.integers(3, 3)], [lab.integers(4, 4)]),
                match="(?i)size|shape",
            )
        lab.raises(f"{name} of too few numbers", lambda: function(pair, [1.0]), match="(?i)same number")
    for name in ("add", "mul"):
        lab.raises(
            f"{name} with a tensor of two elements",
            lambda: foreach_function(name)(pair, lab.integers(2)),
            match="(?i)0 dim|scalar tensor",
        )
    for values_of, message_part in ((lab.integers(2).cpu()[0], "dimension 1"), (torch.ones(3), "length")):
        lab.raises(
            f"addcmul with values of {tuple(values_of.shape)}",
            lambda: torch._foreach_addcmul(pair, pair, pair, values_of),
            match=f"(?i){message_part}",
        )
    lab.raises(
        "addcmul with values with gaps",
        lambda: torch._foreach_addcmul(pair, pair, pair, torch.ones(2, 2)[:, 1]),
        match="(?i)contiguous",
    )


@behaviour(
    "foreach",
    capabilities=("autograd",),
    level="training",
    must_detect=("value", "error"),
    basis="consistency",
    ground="gradients through the foreach operator and through the single-tensor operator must agree",
)
def gradients_of_lists(lab: Lab) -> None:
    """Each tensor of a list gets the gradient that the single-tensor operator gives. A leaf that requires
    grad cannot be written in place. A node of the autograd graph that saves its own result causes no
    reference cycle: the graph is freed when the result is deleted.
    """
    for name in ("exp", "sqrt", "reciprocal", "sin", "abs", "neg", "log"):
        leaves = [lab.integers(2, low=1).requires_grad_(), lab.integers(3, low=1).requires_grad_()]
        twins = [x.detach().clone().requires_grad_() for x in leaves]
        results = foreach_function(name)(leaves)
        results[0].sum().backward(retain_graph=True)
        with lab.documented():
            lab.holds(f"{name}: the other tensor has no gradient", leaves[1].grad is None)
        results[1].sum().backward()
        torch.cat([single_tensor_function(name)(x) for x in twins]).sum().backward()
        for leaf, twin in zip(leaves, twins, strict=True):
            lab.expect(f"gradient of {name}", leaf.grad, to_widest_numpy_array(twin.grad), roundings=8.0)  # type: ignore[arg-type]
        base = [x.detach().clone().requires_grad_() for x in leaves]
        copies = [x.clone() for x in base]
        foreach_function(f"{name}_")(copies)
        torch.cat(copies).sum().backward()
        for leaf, twin in zip(base, twins, strict=True):
            lab.expect(f"gradient of {name}_", leaf.grad, to_widest_numpy_array(twin.grad), roundings=8.0)  # type: ignore[arg-type]
        with lab.documented():
            lab.raises(
                f"{name}_ of leaves", lambda: foreach_function(f"{name}_")(leaves), match="(?i)leaf variable"
            )
    for name in ("add", "mul", "div", "addcmul", "addcdiv", "lerp"):
        groups = [
            [lab.integers(2, low=1).requires_grad_(), lab.integers(3, low=1).requires_grad_()]
            for _ in range(3 if name in ("addcmul", "addcdiv") else 2)
        ]
        twin_groups = [[x.detach().clone().requires_grad_() for x in each] for each in groups]
        extra = (0.25,) if name == "lerp" else ()
        torch.cat(foreach_function(name)(*groups, *extra)).sum().backward()
        torch.cat(
            [single_tensor_function(name)(*each, *extra) for each in zip(*twin_groups, strict=True)]
        ).sum().backward()
        for leaf, twin in zip(itertools.chain(*groups), itertools.chain(*twin_groups), strict=True):
            lab.expect(f"gradient of {name}", leaf.grad, to_widest_numpy_array(twin.grad), roundings=8.0)  # type: ignore[arg-type]
    half = [lab.integers(2, low=1).requires_grad_(), lab.integers(2, low=1)]
    copies = [x.clone() for x in half]
    torch._foreach_mul_(copies, 2)
    with lab.documented():
        lab.expect("which results have a graph", [x.grad_fn is not None for x in copies], [True, False])
    result: Any = torch._foreach_exp([lab.integers(2).requires_grad_()])

    class WeakReferenceableObject:
        """An object that a node of the graph holds. Its lifetime shows when the node is freed."""

    token = WeakReferenceableObject()
    watch = weakref.ref(token)
    result[0].grad_fn.metadata["token"] = token
    del token, result
    with lab.parity("No page says when a node of the graph is freed"):
        lab.holds("the graph is freed with the result", lab.gone(watch))


@behaviour(
    "foreach",
    dtypes=("float32", "float64", "bfloat16", "int64"),
    level="core",
    must_detect=("value",),
    basis="consistency",
    ground="The foreach call and one call per tensor, each on the device of its operands, must agree",
)
def lists_of_two_devices(lab: Lab) -> None:
    """A list may contain tensors of two devices, if the operands of each single operation are on one device.
    ``copy_`` converts between devices and dtypes. A host tensor without dimensions may scale a list.
    """
    here, there = tensors_of_several_shapes(lab)[0], tensors_of_several_shapes(lab)[0].cpu()
    local, far = tensors_of_several_shapes(lab)[0], tensors_of_several_shapes(lab)[0].cpu()
    for name in ("neg", "abs", "sign"):
        result = foreach_function(name)([here, there])
        lab.same(f"{name} here", result[0])
        lab.same(f"{name} there", result[1], host=True)
    for name in ("add", "mul", "sub", "maximum"):
        result = foreach_function(name)([here, there], [local, far])
        lab.same(f"{name} here", result[0])
        lab.same(f"{name} there", result[1], host=True)
        copies = [here.clone(), there.clone()]
        foreach_function(f"{name}_")(copies, [local, far])
        lab.same(f"{name}_ here", copies[0])
        lab.same(f"{name}_ there", copies[1], host=True)
    for name in POINTWISE[:1]:
        result = foreach_function(name)([here, there], [local, far], [here, there])
        lab.same(f"{name} here", result[0])
        lab.same(f"{name} there", result[1], host=True)
    for non_blocking in (False, True):
        targets = [torch.zeros_like(here), torch.zeros_like(here)]
        torch._foreach_copy_(targets, [far, there], non_blocking)
        lab.same(f"copied from the host {non_blocking}", targets)
    for dtype in (torch.float16, torch.float64, torch.int32):
        targets = [torch.zeros_like(here, dtype=dtype) for _ in range(2)]
        torch._foreach_copy_(targets, [here, local])
        lab.same(f"copied to {dtype}", targets)
    scale = torch.tensor(2, dtype=lab.dtype)
    lab.same("a list times a host scalar", torch._foreach_mul([here, local], scale))
