"""Behaviours of ahead-of-time autograd: inputs whose storage is replaced or resized, repeated inputs, and
inputs that share storage.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api.aot import functions
from conformance.properties.api.aot.functions import compare_with_eager, non_leaf_copies, trees_are_equal

WITHOUT_GRADIENTS = (False,)


@behaviour(
    "aot",
    level="full",
    capabilities=("autograd", "storage"),
    must_detect=(),
    page="https://docs.pytorch.org/functorch/stable/generated/functorch.compile.aot_function.html",
    basis="consistency",
    ground="storage and values of an input after the traced and after the eager call must agree",
)
def aot_exchanges_storage(lab: Lab) -> None:
    """A traced function may replace the storage of an input with ``set_``, or may resize the storage. The
    input then has the same storage and values as after a call of the original function. A write after
    ``set_`` that needs a gradient is an error.
    """
    x, y = lab.integers(3, 3), lab.integers(3, 3)

    def set_to_new_tensor(a: torch.Tensor) -> torch.Tensor:
        b = torch.arange(9, dtype=a.dtype, device=a.device).reshape(3, 3)
        with torch.no_grad():
            a.set_(b)  # type: ignore[call-overload]
        return a * b

    def set_and_set_back(a: torch.Tensor) -> torch.Tensor:
        b = torch.arange(9, dtype=a.dtype, device=a.device)
        old = torch.ops.aten.alias.default(a)
        with torch.no_grad():
            a.set_(b)  # type: ignore[call-overload]
            a.set_(old)
        return a + b.reshape(3, 3)

    def set_then_write_source(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            a.set_(b)  # type: ignore[call-overload]
            b.mul_(2)
        return a + b

    def set_intermediate_to_view(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        first, second = a * 2, b * 2
        row = second[1].view(3, 1)
        first.set_(row)  # type: ignore[call-overload]
        first.view(-1).mul_(2)
        return first * row + second

    compare_with_eager(
        lab,
        "set_ to another",
        set_to_new_tensor,
        x,
        make_arguments=non_leaf_copies,
        with_gradients=WITHOUT_GRADIENTS,
        in_graph=True,
    )
    compare_with_eager(
        lab, "set_ there and back", set_and_set_back, x, make_arguments=non_leaf_copies, in_graph=True
    )
    compare_with_eager(
        lab,
        "set_ and a write into the target and the source",
        set_then_write_source,
        x,
        y,
        make_arguments=non_leaf_copies,
        with_gradients=WITHOUT_GRADIENTS,
        in_graph=True,
    )
    compare_with_eager(
        lab,
        "set_ of intermediates",
        set_intermediate_to_view,
        x,
        y,
        with_gradients=WITHOUT_GRADIENTS,
        in_graph=True,
    )
    for gradients in (False, True):
        leaf = x.clone().requires_grad_(gradients)
        lab.same(
            f"set_ of a leaf, {gradients}",
            functions.trace_with_aot_autograd(set_to_new_tensor, in_graph=True)(leaf).detach(),
        )
        lab.same(f"the leaf, {gradients}", leaf.detach())

    def grow_storage(a: torch.Tensor) -> torch.Tensor:
        torch.ops.inductor.resize_storage_bytes_(a, 36)
        with torch.no_grad():
            a.copy_(torch.ones(3, 3, device=a.device))
        return a + 1

    def empty_storage(a: torch.Tensor) -> torch.Tensor:
        b = a * 2
        torch.ops.inductor.resize_storage_bytes_(a, 0)
        return b

    def empty_storage_and_set(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            torch.ops.inductor.resize_storage_bytes_(a, 0)
            a.set_(torch.ones(2, device=a.device))  # type: ignore[call-overload]
        return b + 1

    with lab.parity("No page describes the operator that resizes a storage"):
        for gradients in (False, True):
            emptied = x.clone()
            emptied.untyped_storage().resize_(0)
            emptied.requires_grad_(gradients)
            result = functions.trace_with_aot_autograd(grow_storage, in_graph=True)(emptied)
            lab.same(f"resized up, {gradients}", [result.detach(), emptied.detach()])
            shrunk = x.clone().requires_grad_(gradients)
            lab.same(
                f"resized down, {gradients}",
                functions.trace_with_aot_autograd(empty_storage, in_graph=True)(shrunk).detach(),
            )
            lab.same(f"bytes of a storage resized down, {gradients}", shrunk.untyped_storage().nbytes())
            reset = x.clone().requires_grad_(gradients)
            output = functions.trace_with_aot_autograd(empty_storage_and_set, in_graph=True)(reset, y)
            lab.same(f"resized and set_, {gradients}", [output.detach(), reset.detach()])

    def set_then_write_old_view(a: torch.Tensor) -> torch.Tensor:
        view, b = a.view(-1), torch.ones(3, 3, requires_grad=True, device=a.device)
        with torch.no_grad():
            a.set_(b)  # type: ignore[call-overload]
            view.mul_(2)
        return a + b

    def set_then_write_with_gradient(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            a.set_(b)  # type: ignore[call-overload]
        a.mul_(2)
        return a + b

    def call_traced(function: Any, *starts: torch.Tensor) -> Any:
        return functions.trace_with_aot_autograd(function, in_graph=True)(
            *[(s + 0.0).requires_grad_() for s in starts]
        )

    with lab.parity("No page says that tracing refuses this write"):
        lab.raises(
            "a write into a view of the storage that set_ replaced",
            lambda: call_traced(set_then_write_old_view, x),
            match="frozen",
        )
        lab.raises(
            "set_ and a write with a gradient",
            lambda: call_traced(set_then_write_with_gradient, x, y),
            AssertionError,
            RuntimeError,
        )


@behaviour(
    "aot",
    level="full",
    capabilities=("autograd", "storage"),
    must_detect=(),
    page="https://docs.pytorch.org/functorch/stable/generated/functorch.compile.aot_function.html",
    basis="consistency",
    ground=(
        "values and gradients after the three kinds of writes must agree between the traced and the eager "
        "call"
    ),
)
def aot_writes_hidden_from_autograd(lab: Lab) -> None:
    """A traced function distinguishes three kinds of writes: under ``no_grad``, through a detached tensor,
    and ordinary. Gradients flow only through ordinary writes. Views of a written input have the new values.
    """
    x = lab.integers(3, 4)

    def write_in_three_ways(a: torch.Tensor) -> torch.Tensor:
        a.detach().mul_(2)
        a.mul_(3)
        with torch.no_grad():
            a.mul_(2)
        return a + 5

    def write_view_under_no_grad(a: torch.Tensor) -> torch.Tensor:
        view = a.view(-1)
        with torch.no_grad():
            view.mul_(2)
        return a + 1

    def write_and_add_under_no_grad(a: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            a.mul_(2)
            return a + 3

    for in_graph in (False, True):
        compare_with_eager(
            lab,
            f"three kinds, {in_graph}",
            write_in_three_ways,
            x,
            make_arguments=non_leaf_copies,
            in_graph=in_graph,
        )
        compare_with_eager(
            lab,
            f"through a view, {in_graph}",
            write_view_under_no_grad,
            x,
            make_arguments=non_leaf_copies,
            in_graph=in_graph,
        )
    compare_with_eager(
        lab,
        "all under no_grad",
        write_and_add_under_no_grad,
        x,
        make_arguments=non_leaf_copies,
        in_graph=True,
    )

    def write_and_return_detached(a: torch.Tensor) -> torch.Tensor:
        a.mul_(2)
        return (a + 1).detach()

    observed, versions = [], []
    for call in (
        functions.trace_with_aot_autograd(write_and_return_detached, in_graph=True),
        write_and_return_detached,
    ):
        leaf = x.clone().requires_grad_()
        whole = leaf.clone()
        view = whole.view(-1)
        result = call(whole)
        (gradient,) = torch.autograd.grad((whole.view(-1) * view).sum(), leaf)
        observed.append([result, view.detach().clone(), gradient])
        versions.append(view._version)
    lab.same("a view of a written input", observed[0])
    lab.holds("a view of a written input: traced and eager agree", trees_are_equal(observed[0], observed[1]))
    with lab.parity("The note says that a version increases, and not by how much"):
        lab.same("version of the view, traced and eager", versions)


@behaviour(
    "aot",
    level="full",
    capabilities=("autograd", "storage"),
    must_detect=(),
    page="https://docs.pytorch.org/functorch/stable/generated/functorch.compile.aot_function.html",
    basis="consistency",
    ground="The traced call and the eager call of one function on the device must agree",
)
def aot_inputs_turned_and_written(lab: Lab) -> None:
    """A traced function that transposes or writes its inputs has the same results and effects as the
    original function, also if inputs share storage or one tensor is passed twice.
    """
    x, y = lab.integers(4, 4), lab.integers(4, 4)

    def same_row_twice(clones: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        whole = clones[0].clone()
        return [whole[0], whole[0]]

    def same_square_view_twice(clones: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        whole = clones[0].clone()
        return [whole.view(4, 4), whole.view(4, 4)]

    def two_detached_rows(clones: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        whole = clones[0].detach().clone()
        return [whole[0].detach(), whole[1].detach()]

    def view_copy_and_view(clones: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        whole = clones[0].clone()
        return [whole.view(-1), clones[1].clone(), whole.view(-1)]

    def same_tensor_twice(clones: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        whole = clones[0].clone()
        return [whole, whole]

    def same_tail_twice(clones: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        whole = clones[0].flatten().clone()
        return [whole[1:], whole[1:]]

    def same_unsqueezed_view_twice(clones: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        whole = clones[0].flatten().clone()
        return [whole.unsqueeze(0), whole.unsqueeze(0)]

    def whole_and_inner_view(clones: Sequence[torch.Tensor]) -> list[Any]:
        whole = clones[0].flatten().clone()
        return [whole, whole[1:-1], 2, 2]

    def write_transpose_and_view(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> Any:
        c.mul_(2)
        b.t_()
        d = (a + c).view(-1)
        return d, b.t(), d.unsqueeze(0)

    compare_with_eager(
        lab,
        "written and turned",
        lambda a, b: (a.mul_(2), b.t_(), a * b)[2],
        x,
        make_arguments=same_row_twice,
    )
    compare_with_eager(
        lab, "one turned", lambda a, b: (a.t_(), a + b)[1], x, make_arguments=same_square_view_twice
    )
    compare_with_eager(
        lab,
        "detached rows",
        lambda a, b: (a.add_(1), a + b)[1],
        x,
        make_arguments=two_detached_rows,
        with_gradients=WITHOUT_GRADIENTS,
    )
    compare_with_eager(lab, "all at once", write_transpose_and_view, x, y, make_arguments=view_copy_and_view)
    compare_with_eager(
        lab,
        "one given twice, turned",
        lambda a, b: (a.t_(), b.unsqueeze_(0), a + b)[2],
        x,
        make_arguments=same_tensor_twice,
    )
    compare_with_eager(
        lab,
        "one tensor as two inputs, transposed through the first",
        lambda a, b: (a.t_(), a + b)[1],
        x,
        make_arguments=same_tensor_twice,
    )
    for name, make in (("from the second row", same_tail_twice), ("unsqueezed", same_unsqueezed_view_twice)):
        compare_dynamic_shapes_with_eager(
            lab, f"two views alike, {name}", lambda a, b: (a.add_(1), b.add_(1), a * 1)[2], make, x
        )
    compare_dynamic_shapes_with_eager(
        lab,
        "overlapping, with equal numbers",
        lambda a, b, m, n: (a.add_(m), b.add_(n)),
        whole_and_inner_view,
        x,
    )


def compare_dynamic_shapes_with_eager(
    lab: Lab,
    name: str,
    function: functions.Function,
    make_arguments: functions.MakeArguments,
    x: torch.Tensor,
) -> None:
    """Record the results of a function that is compiled with dynamic shapes, which must equal the results of
    eager.
    """
    actual = functions.observe_call(
        functions.compile_with_aot_eager(function, dynamic=True), [x], make_arguments, gradients=False
    )
    expected = functions.observe_call(function, [x], make_arguments, gradients=False)
    lab.same(name, [actual["results"], actual["arguments"]])
    for part, value in expected.items():
        lab.holds(f"{name}: {part}, traced and eager agree", trees_are_equal(actual[part], value))
