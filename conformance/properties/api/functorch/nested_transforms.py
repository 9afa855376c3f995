"""Behaviours of three nested transforms of ``autograd.Function``s, of Jacobians of ``vjp`` at large inputs,
and of writes into captured views.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch.func import jacrev, jvp, vjp, vmap

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.framework.trees import leaves

Function = Callable[..., Any]

ROWS = 2


class _CubeAndDerivative(torch.autograd.Function):
    """An ``autograd.Function`` that returns ``x * x * x`` and ``3 * x * x``, with a handwritten ``vmap``
    rule.
    """

    @staticmethod
    def forward(x: torch.Tensor) -> Any:
        return x * x * x, 3 * x * x

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0], output[1])
        ctx.save_for_forward(inputs[0], output[1])

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor, slope_g: torch.Tensor) -> Any:
        x, slope = ctx.saved_tensors
        return g * slope + 6 * slope_g * x

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: torch.Tensor) -> Any:
        return _CubeAndDerivative.apply(x), in_dims[0]

    @staticmethod
    def jvp(ctx: Any, t: torch.Tensor) -> Any:
        x, slope = ctx.saved_tensors
        return t * slope, 6 * x * t


class _ProductWithGeneratedVmap(torch.autograd.Function):
    """An ``autograd.Function`` that multiplies its two inputs, with a generated ``vmap`` rule."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: torch.Tensor, y: torch.Tensor) -> Any:
        return x * y

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        x, y = ctx.saved_tensors
        return g * y, g * x

    @staticmethod
    def jvp(ctx: Any, t: torch.Tensor, u: torch.Tensor) -> Any:
        x, y = ctx.saved_tensors
        return t * y + u * x


class _SelectElement(torch.autograd.Function):
    """An ``autograd.Function`` that returns the element at an integer index. Its ``backward`` writes the
    gradient into zeros. The index is an input that is not a tensor.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(x: torch.Tensor, index: int) -> Any:
        return x[index]

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.shape, ctx.index = inputs[0].shape, inputs[1]

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        zeros = g.new_zeros(ctx.shape)
        zeros[ctx.index] = g
        return zeros, None

    @staticmethod
    def jvp(ctx: Any, t: torch.Tensor, _: Any) -> Any:
        return t[ctx.index]


def with_vmap(function: Function) -> Function:
    """Return ``vmap(function)``."""
    return vmap(function)


def with_loop(function: Function) -> Function:
    """Return a function that calls ``function`` once per element of the batch and stacks the results."""

    def loop_over_batch(*batch: torch.Tensor) -> Any:
        rows = [leaves(function(*(x[row] for x in batch))) for row in range(ROWS)]
        return tuple(torch.stack(parts) for parts in zip(*rows, strict=True))

    return loop_over_batch


def with_vjp(function: Function) -> Function:
    """Return a function that returns the outputs of ``function`` and the gradients of the inputs. All
    cotangents are ones.
    """

    def outputs_and_gradients(*inputs: torch.Tensor) -> Any:
        outputs, pull = vjp(lambda *x: tuple(leaves(function(*x))), *inputs)  # type: ignore[misc]
        return (*outputs, *pull(tuple(torch.ones_like(output) for output in outputs)))

    return outputs_and_gradients


def with_jvp(function: Function) -> Function:
    """Return a function that returns the outputs of ``function`` and their tangents. The inputs also serve as
    their own tangents.
    """

    def outputs_and_tangents(*inputs: torch.Tensor) -> Any:
        result: Any = jvp(lambda *x: tuple(leaves(function(*x))), inputs, inputs)
        return (*result[0], *result[1])

    return outputs_and_tangents


@behaviour(
    "functorch",
    level="full",
    capabilities=("double_backward", "forward_ad"),
    page="notes/extending.func.html",
    ground="The page says that grad of vmap is replaceable by grad of a loop",
)
def three_transforms_of_functions(lab: Lab) -> None:
    """``vmap`` of an ``autograd.Function``, combined with two more transforms (``vjp``, ``jvp``, ``vmap``),
    returns the results of single calls. The ``vmap`` rule may be handwritten or generated.
    """
    shape = (ROWS, ROWS, 3)
    functions: dict[str, tuple[Function, int]] = {
        "a cube": (lambda x: _CubeAndDerivative.apply(x)[0], 1),
        "a cube and its derivative": (_CubeAndDerivative.apply, 1),
        "a product": (_ProductWithGeneratedVmap.apply, 2),
        "a square": (lambda x: _ProductWithGeneratedVmap.apply(x, x), 1),
        "an element": (lambda x: _SelectElement.apply(x, 1) * _SelectElement.apply(x, 0), 1),
    }
    orders: dict[str, tuple[Function, ...]] = {
        "vmap of vjp of vmap": (with_vmap, with_vjp, with_vmap),
        "vjp of vmap of vmap": (with_vjp, with_vmap, with_vmap),
        "vjp of vjp of vmap": (with_vjp, with_vjp, with_vmap),
        "jvp of vmap of vmap": (with_jvp, with_vmap, with_vmap),
        "vmap of jvp of vmap": (with_vmap, with_jvp, with_vmap),
        "jvp of jvp of vmap": (with_jvp, with_jvp, with_vmap),
        "jvp of vjp of vmap": (with_jvp, with_vjp, with_vmap),
    }
    for name, (function, count) in functions.items():
        whole = [lab.integers(*shape) for _ in range(count)]
        for order, transforms in orders.items():
            inputs = whole if transforms.count(with_vmap) == 2 else [x[0] for x in whole]
            result, loop_function = function, function
            for transform in reversed(transforms):
                result = transform(result)
                loop_function = (with_loop if transform is with_vmap else transform)(loop_function)
            values, singles = list(leaves(result(*inputs))), list(leaves(loop_function(*inputs)))
            lab.same(f"{order} of {name}", values)
            pairs = zip(values, singles, strict=True)
            lab.holds(
                f"{order} of {name}: agrees with single calls", all(torch.equal(a, b) for a, b in pairs)
            )


@behaviour(
    "functorch",
    level="full",
    capabilities=("double_backward", "forward_ad"),
    page="generated/torch.autograd.functional.jacobian.html",
    basis="consistency",
    ground="jacrev of the vjp function and the engine's Jacobian of this function must agree",
)
def jacobians_of_losses_at_large_inputs(lab: Lab) -> None:
    """For losses, softmax and layer norm, ``jacrev`` of the ``vjp`` function gives the same Jacobian as
    ``torch.autograd.functional.jacobian`` of this function. This holds at zero and at inputs, targets,
    weights and biases of magnitude 1000.
    """
    labels, soft = lab.put([1, 2]), lab.floats(2, 3, low=0.0)
    weight, inner = lab.floats(3, low=0.5, high=1.0), lab.floats(2, 3, low=0.25, high=0.75)

    def filled_tensor(value: float, *shape: int) -> torch.Tensor:
        return torch.full(shape, value, device=lab.device)

    def compare_jacobians_of_vjp_with_engine(name: str, function: Function, *inputs: torch.Tensor) -> None:
        def gradients_of_inputs(cotangent: torch.Tensor, *primals: torch.Tensor) -> Any:
            return vjp(function, *primals)[1](cotangent)

        result = function(*inputs)
        cotangent = torch.arange(1.0, result.numel() + 1, device=lab.device).view(result.shape) / 4
        every = (cotangent, *inputs)
        numbers = tuple(range(len(every)))
        expected = list(leaves(torch.autograd.functional.jacobian(gradients_of_inputs, every)))
        parts = list(leaves(jacrev(gradients_of_inputs, argnums=numbers)(*every)))
        scales = [part.abs().max().clamp(min=1) for part in expected]
        agrees = len(parts) == len(expected) and all(
            torch.allclose(a / scale, b / scale, rtol=1e-3, atol=1e-4)
            for a, b, scale in zip(parts, expected, scales, strict=True)
        )
        lab.holds(f"{name}: the engine's", agrees)
        with lab.documented():
            lab.holds(f"{name}: finite", all(bool(part.isfinite().all()) for part in parts))

    for value in (-1000.0, 0.0, 1000.0):
        x, input_text = filled_tensor(value, 2, 3), f"at {value:g}"
        for reduction in ("none", "mean") if value == 0 else ("mean",):
            options: Any = {"reduction": reduction}
            compare_jacobians_of_vjp_with_engine(
                f"nll_loss {input_text}, {reduction}", lambda a: F.nll_loss(a, labels, weight, **options), x
            )
            compare_jacobians_of_vjp_with_engine(
                f"cross_entropy {input_text}, {reduction}", lambda a: F.cross_entropy(a, labels, **options), x
            )
            compare_jacobians_of_vjp_with_engine(
                f"binary_cross_entropy weighted {input_text}, {reduction}",
                lambda a: F.binary_cross_entropy(a, soft, filled_tensor(value, 2, 3), **options),
                inner,
            )
        compare_jacobians_of_vjp_with_engine(
            f"nll_loss that ignores one label {input_text}",
            lambda a: F.nll_loss(a, labels, ignore_index=2),
            x,
        )
        compare_jacobians_of_vjp_with_engine(
            f"cross_entropy of probabilities {input_text}", lambda a: F.cross_entropy(a, soft, weight), x
        )
        compare_jacobians_of_vjp_with_engine(f"softmax {input_text}", lambda a: F.softmax(a, 1), x)
        compare_jacobians_of_vjp_with_engine(f"log_softmax {input_text}", lambda a: F.log_softmax(a, 1), x)
        for target in (value, -1000.0):
            compare_jacobians_of_vjp_with_engine(
                f"l1_loss {input_text} from {target:g}", F.l1_loss, x, filled_tensor(target, 2, 3)
            )
            compare_jacobians_of_vjp_with_engine(
                f"mse_loss {input_text} from {target:g}", F.mse_loss, x, filled_tensor(target, 2, 3)
            )
        compare_jacobians_of_vjp_with_engine(
            f"layer_norm {input_text}",
            lambda a, w, b: F.layer_norm(a, (3,), w, b),
            filled_tensor(value, 2, 3),
            filled_tensor(value, 3),
            filled_tensor(-value, 3),
        )


@behaviour(
    "functorch",
    level="full",
    capabilities=("forward_ad", "autograd"),
    must_detect=("error", "message"),
    page="func.ux_limitations.html",
    basis="parity",
    ground="No page says that transforms refuse writes to captured tensors or assignments to .data",
)
def transforms_refuse_captured_views(lab: Lab) -> None:
    """Under ``vjp`` and ``jvp``, a write through a view of a captured tensor raises an error, whichever
    operator made the view. An assignment to ``.data`` inside a transform raises an error too.
    """
    outside = lab.integers(4, 4, 4)
    views: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "a row": lambda a: a[0],
        "an element": lambda a: a[0, 0, 0],
        "a slice": lambda a: a[:1],
        "a slice of the second dimension": lambda a: a[:, :1],
        "a slice of the second of three dimensions": lambda a: a[:, :1, :],
        "select": lambda a: a.select(1, 2),
        "narrow": lambda a: a.narrow(0, 1, 2),
        "transpose": lambda a: a.transpose(0, 1),
        "permute": lambda a: a.permute(2, 0, 1),
        "view": lambda a: a.view(16, 4),
        "reshape": lambda a: a.reshape(8, 8),
        "expand": lambda a: a.expand(4, 4, 4),
        "unsqueeze": lambda a: a.unsqueeze(1),
        "squeeze": lambda a: a.squeeze(),
        "diagonal": lambda a: a.diagonal(),
        "unfold": lambda a: a.unfold(0, 2, 2),
        "movedim": lambda a: a.movedim(0, 2),
        "view_as": lambda a: a.view_as(a),
        "a part of split": lambda a: a.split(2)[0],
        "a part of chunk": lambda a: a.chunk(2, 1)[0],
        "a part of unbind": lambda a: a.unbind(2)[0],
        "a part of tensor_split": lambda a: a.tensor_split(2)[0],
        "a part of hsplit": lambda a: a.hsplit(2)[0],
    }
    for name, view in views.items():
        like = torch.ones_like(view(outside))

        def write_into_captured_view(a: torch.Tensor, view: Any = view) -> torch.Tensor:
            view(outside).copy_(a)
            return a

        lab.raises(f"{name} under vjp", lambda: vjp(write_into_captured_view, like), match="mutate")
        lab.raises(
            f"{name} under jvp", lambda: jvp(write_into_captured_view, (like,), (like,)), match="mutate"
        )
    x = lab.integers(3)

    def assign_data(a: torch.Tensor) -> torch.Tensor:
        a.data = torch.ones(3, device=lab.device)
        return a.sum()

    lab.raises("data under grad", lambda: torch.func.grad(assign_data)(x), match="data")
    lab.raises("data under vjp", lambda: vjp(assign_data, x), match="data")
    lab.raises("data under jvp", lambda: jvp(assign_data, (x,), (x,)), match="data")


@behaviour(
    "functorch",
    level="full",
    capabilities=("forward_ad", "autograd"),
    page="func.ux_limitations.html",
    ground="vmap equals a loop, and torch.tensor constructs a tensor without history",
)
def transforms_of_solutions_and_lists(lab: Lab) -> None:
    """Two levels of ``vmap`` over ``jvp`` of ``linalg.solve`` return the solutions and tangents of single
    calls, for one shared matrix and mapped right-hand sides. ``torch.tensor`` of a list with a differentiated
    number returns a constant.
    """
    matrix = lab.floats(4, 4) + 4 * torch.eye(4, device=lab.device)
    right, matrix_t, right_t = lab.floats(4, 5, 3, 2), lab.floats(4, 4), lab.floats(4, 5, 3, 2)

    def jvp_of_solve(a: torch.Tensor, b: torch.Tensor, u: torch.Tensor, v: torch.Tensor) -> Any:
        return jvp(torch.linalg.solve, (a, b), (u, v))

    dims = (None, -1, None, -1)
    value, tangent = vmap(vmap(jvp_of_solve, in_dims=dims), in_dims=dims)(matrix, right, matrix_t, right_t)
    lab.close("solutions", value, matrix=True)
    lab.close("tangents of solutions", tangent, matrix=True)
    for i in range(2):
        for j in range(3):
            single, single_t = jvp_of_solve(matrix, right[..., j, i], matrix_t, right_t[..., j, i])
            agrees = torch.allclose(value[i, j], single, atol=1e-4) and torch.allclose(
                tangent[i, j], single_t, atol=1e-4
            )
            lab.holds(f"solution {i}, {j}: alone", agrees)
    x = lab.integers()
    listed, pull_listed = vjp(lambda a: torch.tensor([a], device=lab.device), x)  # type: ignore[misc]
    viewed, pull_viewed = vjp(lambda a: torch.tensor(a.item(), device=lab.device).view(1), x)  # type: ignore[misc]
    lab.expect("a tensor of a list with a number", listed, [x.item()])
    lab.expect("its gradient", pull_listed(torch.ones_like(listed))[0], 0.0)
    lab.expect("the gradient of the number", pull_viewed(torch.ones_like(viewed))[0], 0.0)
