"""Behaviours of ``autograd.Function`` under ``grad``, ``vjp``, ``jvp`` and ``vmap``."""

from __future__ import annotations

from typing import Any

import torch
from torch.func import grad, jvp, vjp, vmap

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab


class _CopiesOfTwoInputs(torch.autograd.Function):
    """An ``autograd.Function`` that returns copies of its two inputs. Its ``backward`` records which
    cotangents are None.
    """

    records: list[Any]

    @staticmethod
    def forward(x: torch.Tensor, y: torch.Tensor) -> Any:
        return x * 1, y * 1

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, gx: Any, gy: Any) -> Any:
        _CopiesOfTwoInputs.records.append((gx is None, gy is None))
        return gx, gy


class _ProductRecordingNeededGradients(torch.autograd.Function):
    """An ``autograd.Function`` that multiplies two inputs. Its ``backward`` records ``needs_input_grad``."""

    records: list[Any]

    @staticmethod
    def forward(x: torch.Tensor, y: torch.Tensor) -> Any:
        return x * y

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        _ProductRecordingNeededGradients.records.append(tuple(ctx.needs_input_grad))
        x, y = ctx.saved_tensors
        return g * y, g * x if ctx.needs_input_grad[1] else None


class _NumpyCube(torch.autograd.Function):
    """An ``autograd.Function`` that computes a cube with NumPy, so it can be differentiated only once."""

    @staticmethod
    def forward(x: torch.Tensor) -> Any:
        values = x.detach().cpu().numpy()
        return torch.tensor(values**3, device=x.device), values

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.values = output[1]

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, g: torch.Tensor, _: Any) -> Any:
        return torch.tensor(3 * ctx.values**2, device=g.device) * g


@behaviour(
    "functorch", level="full", capabilities=("double_backward", "autograd"), page="notes/extending.func.html"
)
def functions_under_grad(lab: Lab) -> None:
    """Under ``grad``, the context of an ``autograd.Function`` works as it does without a transform. After
    ``set_materialize_grads(False)``, ``backward`` receives None for an unused output. ``needs_input_grad``
    marks the differentiated inputs, and ``grad_fn`` has the name of the ``autograd.Function``.
    ``once_differentiable`` raises an error for a second derivative.
    """
    x, y = lab.integers(), lab.integers()
    _CopiesOfTwoInputs.records = []

    def square_of_first_output(b: torch.Tensor, a: torch.Tensor) -> Any:
        first, _ = _CopiesOfTwoInputs.apply(a, b)
        return first * first

    lab.same("gradient of the unused output's input", grad(square_of_first_output)(y, x))
    lab.same("gradient of the used output's input", grad(square_of_first_output, argnums=1)(y, x))
    lab.same("twice", grad(grad(square_of_first_output, argnums=1), argnums=1)(y, x))
    lab.holds(
        "the cotangent of an unused output is None",
        _CopiesOfTwoInputs.records and all(p == (False, True) for p in _CopiesOfTwoInputs.records),
    )
    _ProductRecordingNeededGradients.records = []
    lab.expect("by the first", grad(_ProductRecordingNeededGradients.apply)(x, y), y.cpu())
    lab.same("by the first, twice", grad(grad(_ProductRecordingNeededGradients.apply))(x, y))
    lab.holds(
        "needs_input_grad marks only the first input",
        _ProductRecordingNeededGradients.records
        and all(s == (True, False) for s in _ProductRecordingNeededGradients.records),
    )
    count = len(_ProductRecordingNeededGradients.records)
    lab.same("by both", grad(_ProductRecordingNeededGradients.apply, argnums=(0, 1))(x, y))
    lab.same("needs_input_grad marks both inputs", _ProductRecordingNeededGradients.records[count:])
    names: list[str] = []

    def product_and_record_grad_fn(a: torch.Tensor) -> Any:
        b = _ProductRecordingNeededGradients.apply(a, y)
        names.append(type(b.grad_fn).__name__)
        return b

    grad(product_and_record_grad_fn)(x)
    with lab.parity("No page gives the class name of grad_fn"):
        lab.same("the name of grad_fn", ["_Product" in name and "Backward" in name for name in names])

    start = x.clone().requires_grad_()
    weight = lab.integers(low=1, requires_grad=True)
    _, pull = vjp(lambda a: _NumpyCube.apply(a)[0], start)  # type: ignore[misc]
    (pulled,) = pull(weight)
    lab.expect("once", pulled.detach(), 3 * (x * x * weight).detach().cpu())
    lab.raises("twice, once differentiable", lambda: pulled.backward(), match="once_differentiable")


def _make_identity_function(save_method: str, saved_tensor: str, mark_dirty: bool) -> Any:
    """Return an ``autograd.Function`` class whose ``forward`` returns its input. ``save_method`` is the name
    of the context method that saves ``saved_tensor`` ("input", "output" or "neither").
    """

    class IdentityFunction(torch.autograd.Function):
        @staticmethod
        def forward(x: torch.Tensor) -> torch.Tensor:
            return x

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            if mark_dirty:
                ctx.mark_dirty(inputs[0])
            if saved_tensor != "neither":
                getattr(ctx, save_method)(inputs[0] if saved_tensor == "input" else output)

        @staticmethod
        def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
            return g * 1

        @staticmethod
        def jvp(ctx: Any, t: torch.Tensor) -> torch.Tensor:
            return t.add_(0) if mark_dirty else t.view_as(t)

    return IdentityFunction


@behaviour(
    "functorch",
    level="full",
    capabilities=("autograd", "forward_ad"),
    must_detect=("error", "value"),
    page="notes/extending.func.html",
    ground="A Function may return a tensor of its inputs; the gradient is what its backward returns",
)
def functions_that_return_their_input(lab: Lab) -> None:
    """The ``forward`` method of an ``autograd.Function`` with ``setup_context`` may return the method's
    input, with and without ``grad`` or ``jvp``. ``setup_context`` may save the input or the output only if it
    marks the input as dirty. Otherwise, the call raises an error.
    """
    x, t = lab.integers(), lab.integers()
    for save in ("save_for_backward", "save_for_forward"):
        for saved_tensor in ("input", "output", "neither"):
            for dirty in (True, False):
                function = _make_identity_function(save, saved_tensor, dirty)
                name = f"{save} of {saved_tensor}{', dirty' if dirty else ''}"

                def twice_the_output(a: torch.Tensor, function: Any = function) -> Any:
                    return function.apply(a.clone()) * 2

                if saved_tensor != "neither" and not dirty:
                    message = "returned as-is"
                    with lab.parity(
                        "No page says that an input that is returned unchanged must not be saved"
                    ):
                        lab.raises(f"{name} under grad", lambda: grad(twice_the_output)(x), match=message)
                        lab.raises(
                            f"{name} under jvp", lambda: jvp(twice_the_output, (x,), (t,)), match=message
                        )
                        lab.raises(f"{name} outside", lambda: function.apply(x.clone()), match=message)
                else:
                    lab.same(f"{name} under grad", grad(twice_the_output)(x))
                    lab.same(f"{name} under jvp", jvp(twice_the_output, (x,), (t,)))
                    whole = x.clone()
                    with lab.parity("No page says that apply returns the same object"):
                        lab.holds(
                            f"{name} outside: the object", (function.apply(whole) is whole) or not dirty
                        )


class _RecordingDouble(torch.autograd.Function):
    """An ``autograd.Function`` that doubles its input and whose ``vmap`` rule records ``in_dims``."""

    records: list[Any]

    @staticmethod
    def forward(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: torch.Tensor) -> Any:
        _RecordingDouble.records.append(in_dims)
        return x * 2, in_dims[0]


class _VmapWithUnbatchedOutputs(torch.autograd.Function):
    """An ``autograd.Function`` with two outputs. Its ``vmap`` rule returns both without a batch dimension."""

    @staticmethod
    def forward(x: torch.Tensor) -> Any:
        return torch.zeros_like(x), torch.ones_like(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: torch.Tensor) -> Any:
        row = x.select(in_dims[0], 0)
        return (torch.zeros_like(row), torch.ones_like(row)), None


class _FunctionWithKeywordArgument(torch.autograd.Function):
    @staticmethod
    def forward(x: torch.Tensor, *, y: torch.Tensor) -> torch.Tensor:
        return x + y

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any, **options: Any) -> Any:
        return args[0] + options["y"], 0


@behaviour(
    "functorch",
    level="full",
    capabilities=("autograd",),
    must_detect=("value", "error"),
    page="notes/extending.func.html",
)
def rules_of_functions(lab: Lab) -> None:
    """The ``vmap`` rule of an ``autograd.Function`` receives ``in_dims`` as a tuple, also for one input. The
    rule may return None as the ``out_dims`` of a result that all elements share. Tensors passed as keyword
    arguments raise an error.
    """
    x = lab.integers(3, 4)
    _RecordingDouble.records = []
    lab.expect("dimension 1", vmap(_RecordingDouble.apply, in_dims=1)(x), 2 * x.T.cpu())
    lab.expect("dimension 1 in a tuple", vmap(_RecordingDouble.apply, in_dims=(1,))(x), 2 * x.T.cpu())
    lab.holds("the rule receives in_dims as a tuple", _RecordingDouble.records == [(1,), (1,)])
    with lab.parity(
        "The page requires one out_dim per output; no page describes a single None for two outputs"
    ):
        zeros, ones = vmap(_VmapWithUnbatchedOutputs.apply)(x)
        lab.expect("an output that all elements share", zeros, torch.zeros(3, 4))
        lab.expect("a second output that all elements share", ones, torch.ones(3, 4))
    with lab.parity("No page says that tensors as keyword arguments are an error"):
        lab.raises(
            "a tensor by keyword",
            lambda: vmap(_FunctionWithKeywordArgument.apply)(x, y=x),
            NotImplementedError,
            match="kwarg",
        )
