"""Behaviours of user-defined ``autograd.Function`` classes: arguments and results of forward and backward."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.function import Function, once_differentiable

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab


class _ScaledProduct(Function):
    """An ``autograd.Function`` that returns ``x * y * factor``, for two tensors and a number."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, factor: float, y: torch.Tensor) -> Any:
        ctx.factor = factor
        ctx.save_for_backward(x, y)
        return x * y * factor

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        x, y = ctx.saved_tensors
        grad_x = grad * y * ctx.factor if ctx.needs_input_grad[0] else None
        grad_y = grad * x * ctx.factor if ctx.needs_input_grad[2] else None
        return grad_x, None, grad_y


@behaviour(
    "autograd",
    capabilities=("double_backward",),
    level="training",
    must_detect=("value",),
    page="notes/extending.html",
)
def custom_function_gradients(lab: Lab) -> None:
    """An ``autograd.Function`` accepts tensors and numbers, can query which inputs need gradients, and can be
    differentiated twice.
    """
    x, y = lab.integers(3, 4, requires_grad=True), lab.integers(3, 4, requires_grad=True)
    result = _ScaledProduct.apply(x, 2.0, y)
    lab.same("value", result.detach())
    first, second = torch.autograd.grad(result.sum(), (x, y), create_graph=True)
    lab.same("first gradients", (first.detach(), second.detach()))
    mixed = torch.autograd.grad((first * 3).sum(), y)[0]
    lab.expect("mixed derivative", mixed, [[6.0] * 4] * 3)
    fixed = lab.integers(3, 4)
    only = _ScaledProduct.apply(x, 3.0, fixed)
    only.sum().backward()
    lab.same("gradient if the other input does not require grad", x.grad)
    lab.holds("an input that does not require grad has no gradient", fixed.grad is None)
    lab.holds(
        "a result of inputs without grad does not require grad",
        not _ScaledProduct.apply(fixed, 1.0, fixed).requires_grad,
    )


@behaviour(
    "autograd", capabilities=("double_backward",), must_detect=("value", "error"), page="notes/extending.html"
)
def once_differentiable_functions(lab: Lab) -> None:
    """A backward marked ``once_differentiable`` runs without recording a graph. It is an error to
    differentiate the gradients that this backward returns.
    """
    modes = []

    class OnceDifferentiableTriple(Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> Any:
            return x * 3

        @staticmethod
        @once_differentiable
        def backward(ctx: Any, grad: Any) -> Any:
            modes.append(torch.is_grad_enabled())
            return grad * 3

    x = lab.integers(4, requires_grad=True)
    (first,) = torch.autograd.grad(OnceDifferentiableTriple.apply(x).sum() * x.sum(), x, create_graph=True)
    lab.same("gradient", first.detach())
    with lab.parity("No page says that such a backward runs with gradients disabled"):
        lab.same("grad mode in backward", modes)
    lab.raises("the second derivative", lambda: first.sum().backward(), match="once_differentiable")


@behaviour(
    "autograd",
    must_detect=("value",),
    page="generated/torch.autograd.function.FunctionCtx.set_materialize_grads.html",
)
def undefined_gradients_of_functions(lab: Lab) -> None:
    """If a backward returns None for an input, no gradient is accumulated for this input. For unused outputs
    the backward receives zeros, or None after ``set_materialize_grads(False)``.
    """
    received: list[Any] = []

    class ReturnsNoneAsGradient(Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return None

    class TwoOutputsRecordingGradients(Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, materialize: bool) -> Any:
            ctx.set_materialize_grads(materialize)
            return x * 2, x * 5

        @staticmethod
        def backward(ctx: Any, first_grad: Any, second_grad: Any) -> Any:
            received.append(None if second_grad is None else second_grad.clone())
            return first_grad * 2, None

    x = lab.integers(3, requires_grad=True)
    ReturnsNoneAsGradient.apply(x).sum().backward()
    with lab.parity("The pages allow None only for inputs that need no gradient"):
        lab.holds("a gradient that backward returns as None is not accumulated", x.grad is None)
    (ReturnsNoneAsGradient.apply(x) + x * 4).sum().backward()
    with lab.parity("The pages allow None only for inputs that need no gradient"):
        lab.expect("None beside another path", x.grad, [4.0, 4.0, 4.0])
    for materialize in (True, False):
        x.grad = None
        TwoOutputsRecordingGradients.apply(x, materialize)[0].sum().backward()
        lab.same(f"gradient with materialize={materialize}", x.grad)
    lab.same("gradients of the unused output", received)


@behaviour(
    "autograd",
    must_detect=("value",),
    page="notes/extending.html",
    ground="The backward of a Function defines its gradient, whatever the forward returns",
)
def functions_that_return_inputs(lab: Lab) -> None:
    """An ``autograd.Function`` may return its input, or one tensor twice. The backward of this function is
    still called.
    """

    class ReturnsInput(Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> Any:
            return x

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 2

    class ReturnsResultTwice(Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> Any:
            doubled = x * 2
            return doubled, doubled

        @staticmethod
        def backward(ctx: Any, first_grad: Any, second_grad: Any) -> Any:
            return first_grad * 2 + second_grad * 2

    for shape in ((1,), (), (2, 3)):
        x = lab.integers(*shape, requires_grad=True)
        result = ReturnsInput.apply(x)
        with lab.parity("No page says that a returned input becomes another Python object"):
            lab.holds(
                f"the result of {shape} is a new tensor with a graph", result is not x and not result.is_leaf
            )
        with lab.parity("No page says that a returned input shares memory with the result"):
            lab.shares(f"input and result of {shape}", x, result)
        result.sum().backward()
        lab.expect(f"gradient of {shape}", x.grad, torch.full(shape, 2.0))
    x = lab.integers(3, requires_grad=True)
    first, second = ReturnsResultTwice.apply(x)
    (first.sum() + 3 * second.sum()).backward()
    lab.expect("gradient through a tensor that is returned twice", x.grad, [8.0, 8.0, 8.0])


@behaviour(
    "autograd",
    must_detect=("error", "message"),
    page="notes/extending.html",
    ground="The pages require one gradient per input; they imply that any other result is an error",
)
def wrong_gradients_of_functions(lab: Lab) -> None:
    """A backward that returns a wrong number of gradients, or gradients of a wrong shape or type, raises an
    error. An exception in the backward propagates.
    """

    def function_with_backward(gradient: Any) -> Any:
        class CloneWithGivenBackward(Function):
            @staticmethod
            def forward(ctx: Any, x: torch.Tensor, *rest: Any) -> Any:
                return x.clone()

            @staticmethod
            def backward(ctx: Any, grad: Any) -> Any:
                return gradient(grad)

        return CloneWithGivenBackward

    x = lab.integers(2, 3, requires_grad=True)
    many = function_with_backward(lambda grad: (grad, grad))
    lab.raises(
        "one gradient too many", lambda: many.apply(x).sum().backward(), match="incorrect number of gradients"
    )
    few = function_with_backward(lambda grad: grad)
    lab.raises(
        "one gradient too few",
        lambda: few.apply(x, x).sum().backward(),
        match="incorrect number of gradients",
    )
    shape = function_with_backward(lambda grad: grad.new_ones(7))
    lab.raises("a wrong shape", lambda: shape.apply(x).sum().backward(), match="shape")
    text = function_with_backward(lambda grad: "a word")
    lab.raises(
        "a gradient that is not a tensor", lambda: text.apply(x).sum().backward(), RuntimeError, TypeError
    )

    class BackwardHookError(RuntimeError):
        pass

    def raise_backward_hook_error(grad: Any) -> Any:
        raise BackwardHookError("the backward gave up")

    def run_failing_backward() -> None:
        y = x * x
        function_with_backward(raise_backward_hook_error).apply(y + y).sum().backward()

    lab.raises(
        "an exception in backward", run_failing_backward, BackwardHookError, match="the backward gave up"
    )
    extra = function_with_backward(lambda grad: (grad, None, None))
    extra.apply(x, 1).sum().backward()
    lab.holds("superfluous Nones are allowed", x.grad is not None)


@behaviour(
    "autograd",
    must_detect=("value", "error"),
    page="generated/torch.autograd.function.FunctionCtx.mark_non_differentiable.html",
)
def non_differentiable_outputs(lab: Lab) -> None:
    """Outputs that an ``autograd.Function`` marks as non-differentiable do not require grad, and the backward
    receives zeros for them. The other outputs are differentiable.
    """
    received: list[Any] = []

    class ReturnsMaskAndDouble(Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> Any:
            mask = x > 0
            doubled = x * 2
            ctx.mark_non_differentiable(mask)
            return mask, doubled

        @staticmethod
        def backward(ctx: Any, of_mask: Any, grad: Any) -> Any:
            received.append(of_mask.clone())
            return grad * 2

    class NonDifferentiableThirdOutput(Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> Any:
            output, shadow = x * 3, x + 1
            ctx.mark_non_differentiable(shadow)
            return output, None, shadow

        @staticmethod
        def backward(ctx: Any, grad: Any, nothing: Any, of_shadow: Any) -> Any:
            received.append(of_shadow.clone())
            return grad * 3

    x = lab.put([1.0, -2.0, 3.0], requires_grad=True)
    mask, doubled = ReturnsMaskAndDouble.apply(x)
    lab.same("requires_grad flags with a boolean output", [mask.requires_grad, doubled.requires_grad])
    lab.expect("mask", mask, [True, False, True])
    doubled.masked_fill(mask, 0).sum().backward()
    lab.expect("gradient", x.grad, [0.0, 2.0, 0.0])
    x.grad = None
    output, nothing, shadow = NonDifferentiableThirdOutput.apply(x)
    lab.same(
        "requires_grad flags with a floating non-differentiable output",
        [output.requires_grad, nothing, shadow.requires_grad],
    )
    output.sum().backward()
    lab.expect("gradient of the differentiable output", x.grad, [3.0, 3.0, 3.0])
    lab.same("gradients that backward received for these outputs", received)
    with lab.parity("No page says that a backward of a tensor without history is an error"):
        lab.raises(
            "backward of a non-differentiable output",
            lambda: shadow.sum().backward(),
            match="does not require grad",
        )


@behaviour(
    "autograd",
    must_detect=("value", "alias", "error"),
    page="generated/torch.autograd.function.FunctionCtx.mark_dirty.html",
)
def functions_in_place(lab: Lab) -> None:
    """An ``autograd.Function`` may change its input in place, mark the input dirty and return it. The
    gradient then comes from the backward of this function.
    """

    class TriplesInPlace(Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> Any:
            ctx.mark_dirty(x)
            return x.mul_(3)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 3

    class AddsInPlace(Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
            ctx.mark_dirty(x)
            x.add_(y)
            return x

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad, grad * 2

    x = lab.integers(2, 3, requires_grad=True)
    inner = x * 2
    before = inner._version
    tripled = TriplesInPlace.apply(inner)
    with lab.parity("No page says that the result is the same Python object as the input"):
        lab.holds("the input itself is returned", tripled is inner)
    with lab.parity("The note says that the version increases, and not by how much"):
        lab.same("version counter's step", inner._version - before)
    tripled.sum().backward()
    lab.expect("gradient", x.grad, [[6.0] * 3] * 2)
    x.grad = None
    base = x * 1
    TriplesInPlace.apply(base[0])
    lab.same("base after its row was changed", base.detach())
    base.sum().backward()
    lab.expect("gradient through the base", x.grad, [[3.0] * 3, [1.0] * 3])
    without_gradient, second = lab.integers(3), lab.integers(3, requires_grad=True)
    result = AddsInPlace.apply(without_gradient, second)
    lab.holds(
        "a tensor without grad that is changed then requires grad",
        result.requires_grad and without_gradient.requires_grad,
    )
    result.sum().backward()
    lab.expect("gradient of the other input", second.grad, [2.0, 2.0, 2.0])
    leaf = lab.integers(3, requires_grad=True)
    with lab.parity("No page says that a Function may not change a leaf in place"):
        lab.raises("a leaf in place", lambda: TriplesInPlace.apply(leaf), match="leaf")


@behaviour("autograd", must_detect=("value",), page="notes/extending.html")
def setup_context(lab: Lab) -> None:
    """The forward of an ``autograd.Function`` that defines ``setup_context`` has no argument ``ctx``. Default
    arguments are filled in, and the gradients are correct.
    """

    class ScaledProductAndSum(Function):
        @staticmethod
        def forward(x: torch.Tensor, y: torch.Tensor, factor: int = 2) -> Any:
            return x * y * factor, x + y

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            x, y, factor = inputs
            ctx.save_for_backward(x, y, output[0])
            ctx.factor = factor

        @staticmethod
        def backward(ctx: Any, grad: Any, of_sum: Any) -> Any:
            x, y, product = ctx.saved_tensors
            assert product.shape == x.shape
            return grad * y * ctx.factor + of_sum, grad * x * ctx.factor + of_sum, None

    x, y = lab.integers(4, requires_grad=True), lab.integers(4, requires_grad=True)
    for arguments in ((x, y), (x, y, 3)):
        product, total = ScaledProductAndSum.apply(*arguments)
        lab.same(f"values of {len(arguments)} arguments", (product.detach(), total.detach()))
        lab.same(
            f"gradients of {len(arguments)} arguments", torch.autograd.grad((product * total).sum(), (x, y))
        )


@behaviour(
    "autograd",
    must_detect=("value", "error"),
    page="generated/torch.autograd.function.FunctionCtx.save_for_backward.html",
)
def what_functions_save(lab: Lab) -> None:
    """``save_for_backward`` accepts inputs, outputs and None. It is an error to read a saved tensor that was
    changed or freed after it was saved.
    """

    class SavesInputsResultsAndNone(Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, y: torch.Tensor | None) -> Any:
            squared = x * x
            ctx.save_for_backward(x, None, squared, y)
            return squared

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            x, nothing, squared, y = ctx.saved_tensors
            assert nothing is None
            extra = 0 if y is None else y
            return grad * 2 * x + 0 * squared + extra, None

    x = lab.integers(3, requires_grad=True)
    result = SavesInputsResultsAndNone.apply(x, None)
    result.sum().backward()
    lab.same("gradient with None saved", x.grad)
    lab.raises("saved tensors after they were freed", lambda: result.sum().backward(), match="second time")
    saved_input = x * 1
    result = SavesInputsResultsAndNone.apply(saved_input, None)
    saved_input.add_(1)
    lab.raises(
        "a saved input that was changed",
        lambda: result.sum().backward(),
        match="inplace operation",
        type_is_documented=True,
        text_is_documented=True,
    )
    result = SavesInputsResultsAndNone.apply(x * 1, None)
    result.mul_(2)
    lab.raises(
        "a saved output that was changed",
        lambda: result.sum().backward(),
        match="inplace operation",
        type_is_documented=True,
        text_is_documented=True,
    )
    extra = lab.integers(3)
    x.grad = None
    result = SavesInputsResultsAndNone.apply(x, extra)
    result.sum().backward(retain_graph=True)
    result.sum().backward()
    lab.same("gradient twice with a retained graph", x.grad)


@behaviour(
    "autograd",
    capabilities=("double_backward",),
    must_detect=("value",),
    page="generated/torch.autograd.Function.backward.html",
)
def functions_with_other_things(lab: Lab) -> None:
    """An ``autograd.Function`` may accept and return values that are not tensors, in any position. An
    ``autograd.Function`` may also have no tensor among its arguments and results.
    """

    class MixesTensorsWithOtherObjects(Function):
        @staticmethod
        def forward(ctx: Any, text: str, x: torch.Tensor, numbers: Any, y: torch.Tensor) -> Any:
            ctx.save_for_backward(x, y)
            return "left", x * y, {"of": numbers}, x + y, 7

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            x, y = ctx.saved_tensors
            assert grads[0] is None and grads[2] is None and grads[4] is None
            return None, grads[1] * y + grads[3], None, grads[1] * x + grads[3]

    class RepeatsString(Function):
        @staticmethod
        def forward(ctx: Any, number: int, text: str) -> Any:
            return text * number

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return None, None

    x, y = lab.integers(3, requires_grad=True), lab.integers(3, requires_grad=True)
    text, product, numbers, total, seven = MixesTensorsWithOtherObjects.apply("w", x, [1, 2], y)
    lab.same("things", [text, numbers, seven])
    (product * 2 + total).sum().backward()
    lab.same("gradients", [x.grad, y.grad])
    with lab.parity("No page says that a Function may have no tensor at all"):
        lab.same("no tensors at all", RepeatsString.apply(2, "ab"))
    grad_x, grad_y = torch.autograd.grad(
        MixesTensorsWithOtherObjects.apply("w", x, [], y)[1].sum(), (x, y), create_graph=True
    )
    second_gradients = torch.autograd.grad((grad_x * grad_y).sum(), (x, y))
    lab.same("second gradients", second_gradients)
