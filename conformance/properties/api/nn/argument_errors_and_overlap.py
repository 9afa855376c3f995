"""Check the arguments that losses, activations and modules reject, and rare arguments that they accept."""

from __future__ import annotations

import pickle
import warnings
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd import forward_ad, gradcheck

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api._numpy_values import to_widest_numpy_array

#: ``torch._C._nn`` as an untyped object: its type stubs lack some ``out=`` arguments.
untyped_functions: Any = torch._C._nn
untyped_threshold: Any = F.threshold


@behaviour(
    "nn",
    capabilities=("autograd",),
    must_detect=("value", "shape"),
    page="generated/torch.nn.MSELoss.html",
    basis="parity",
    ground="The pages ask for a target of the input's shape; no page mentions broadcasting",
)
def losses_of_broadcast_targets(lab: Lab) -> None:
    """Pointwise losses broadcast input and target with a warning. The unreduced loss has the broadcast shape,
    also if the target requires a gradient. The reduced loss is the sum or mean of the unreduced loss.
    """
    functions: dict[str, Any] = {
        "mse": F.mse_loss,
        "l1": F.l1_loss,
        "smooth l1": F.smooth_l1_loss,
        "huber": F.huber_loss,
    }
    small, large = lab.integers(2, 1), lab.integers(2, 10)
    for name, function in functions.items():
        for larger_operand, input, target_tensor in (("target", small, large), ("input", large, small)):
            each = lab.warns(
                f"{name}, {larger_operand} larger",
                lambda: function(input, target_tensor, reduction="none"),
                match="broadcasting",
            )
            lab.close(f"{name}, {larger_operand} larger: value", each)
            lab.holds(f"{name}, {larger_operand} larger: shape", each.shape == (2, 10))
            whole = function(input.expand(2, 10), target_tensor.expand(2, 10), reduction="none")
            with lab.consistent("The loss of broadcast operands must equal the loss of expanded operands"):
                lab.holds(
                    f"{name}, {larger_operand} larger: equal to the loss of expanded operands",
                    torch.allclose(each, whole),
                )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                with lab.consistent("The sum must equal the sum of the unreduced loss"):
                    lab.expect(
                        f"{name}, {larger_operand}: sum",
                        function(input, target_tensor, reduction="sum"),
                        to_widest_numpy_array(each).sum(),
                        roundings=64,
                    )
                mean = function(input, target_tensor, reduction="mean")
                with lab.consistent("The mean must equal the mean of the unreduced loss"):
                    lab.expect(
                        f"{name}, {larger_operand}: mean",
                        mean,
                        to_widest_numpy_array(each).mean(),
                        roundings=64,
                    )
        target = lab.integers(5, 10, requires_grad=True)
        result = function(lab.integers(5, 10), target, reduction="none")
        with lab.documented():
            lab.holds(
                f"{name}: the loss has the shape of a target that requires grad", result.shape == target.shape
            )
        with lab.documented():
            lab.close(f"{name}: gradient of the target", torch.autograd.grad(result.sum(), target)[0])


@behaviour(
    "nn",
    capabilities=("autograd", "forward_ad", "double_backward"),
    must_detect=("error",),
    page="generated/torch.nn.BCELoss.html",
    basis="parity",
    ground="No page says that other shapes or missing derivatives raise an error",
)
def refused_by_losses(lab: Lab) -> None:
    """Losses raise an error for shapes that do not match. Computing a derivative that torch does not
    implement raises an error.
    """
    wide, high = lab.floats(3, 5), lab.floats(5, 3)
    for name in ("binary_cross_entropy", "binary_cross_entropy_with_logits"):
        function = getattr(F, name)
        lab.raises(f"{name} of other sizes", partial(function, wide, high), ValueError)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div", "poisson_nll_loss"):
            function = getattr(F, name)
            lab.raises(f"{name} of other sizes", partial(function, wide, high), RuntimeError, ValueError)
    leaf = lab.floats(9, 10, requires_grad=True)
    (first,) = torch.autograd.grad(F.pdist(leaf, p=1.5).sum(), leaf, create_graph=True)
    lab.raises(
        "a second derivative of pdist",
        lambda: torch.autograd.grad(first.sum(), leaf),
        match="not implemented",
    )
    for name in ("running_mean", "running_var"):
        with forward_ad.dual_level():
            buffers: dict[str, Any] = {
                buffer_name: lab.floats(10, low=0.5, high=1.0)
                for buffer_name in ("running_mean", "running_var")
            }
            buffers[name] = forward_ad.make_dual(buffers[name], lab.floats(10))
            batch = forward_ad.make_dual(lab.floats(2, 10), lab.floats(2, 10))
            call = partial(F.batch_norm, batch, **buffers, training=False)
            lab.raises(
                f"a tangent of {name}", call, match="not differentiable wrt running_mean and running_var"
            )


@behaviour(
    "nn",
    must_detect=("value", "error"),
    page="generated/torch.Tensor.expand.html",
    basis="parity",
    ground="The page warns of wrong results after a write to an expanded tensor; no page names an error",
)
def activations_into_overlapping_memory(lab: Lab) -> None:
    """An activation raises an error if it writes into a tensor whose elements share memory. ``threshold`` is
    an exception, because writing the same value twice is harmless.
    """
    x = lab.floats(1, 6).expand(6, 6)
    lab.raises("softplus", lambda: untyped_functions.softplus(x, out=x), match="unsupported operation")
    lab.raises("softshrink", lambda: untyped_functions.softshrink(x, out=x), match="unsupported operation")
    for name, call in (
        ("by name", torch.threshold_),
        ("by an option", partial(untyped_threshold, inplace=True)),
    ):
        row = lab.integers(1, 6)
        call(row.expand(6, 6), 0.5, 0.5)
        lab.same(f"threshold {name}", row * 1)


@behaviour(
    "nn",
    dtypes=("float64",),
    capabilities=("autograd",),
    must_detect=("value",),
    page="generated/torch.nn.ELU.html",
    basis="consistency",
    ground=(
        "Output gradients must stay unchanged, and gradients of softplus must agree with finite differences"
    ),
)
def activations_keep_gradients_whole(lab: Lab) -> None:
    """The backward pass of an in-place module does not change the output gradient that it receives.
    ``softplus`` with a low threshold passes ``gradcheck``.
    """
    for module in (
        nn.ReLU(True),
        nn.ELU(inplace=True),
        nn.SELU(True),
        nn.CELU(inplace=True),
        nn.RReLU(inplace=True),
    ):
        leaf = lab.floats(5, 5, requires_grad=True)
        output_gradient = lab.floats(5, 5)
        before = output_gradient.clone()
        module.eval()(leaf + 0).backward(output_gradient)
        name = type(module).__name__
        lab.holds(f"{name} does not change the output gradient", torch.equal(output_gradient, before))
        with lab.documented():
            lab.close(f"gradient of {name}", leaf.grad, roundings=64)
    soft = nn.Softplus(threshold=1)
    point = lab.put(0.9, dtype=torch.float64, requires_grad=True)
    with lab.documented():
        lab.close("softplus near its threshold", soft(point).detach())
    lab.holds("gradcheck of softplus passes", gradcheck(soft, point))


@behaviour(
    "nn",
    must_detect=("value", "error"),
    page="generated/torch.nn.ConvTranspose2d.html",
    ground="The page of Module describes pre-hooks of the state dict",
)
def options_and_pickles_of_modules(lab: Lab) -> None:
    """Padding can be a list or a tuple. Lists and dicts of parameters are created without a warning. Pickling
    a module with ``spectral_norm`` raises an error that names ``state_dict``. State-dict pre-hooks of a lazy
    module run.
    """
    x = lab.floats(1, 4, 7, 7)
    for padding in ([3, 3], (3, 3), 3):
        module = nn.ConvTranspose2d(4, 8, kernel_size=3, padding=padding)  # type: ignore[arg-type]
        with torch.no_grad():
            for weight in module.parameters():
                weight.fill_(0.5)
        is_list = isinstance(padding, list)
        with lab.parity("The page names a number and a tuple as padding") if is_list else lab.documented():
            lab.close(f"padding {padding}", lab.to(module)(x).detach(), roundings=64)
    containers = lab.silent(
        "a list and a dict of parameters",
        lambda: (
            nn.ParameterList([nn.Parameter(lab.floats(2)), nn.Parameter(lab.floats(2))]),
            nn.ParameterDict({"a": nn.Parameter(lab.floats(2)), "b": nn.Parameter(lab.floats(2))}),
        ),
    )
    lab.same("their parameters", [p.shape for module in containers for p in module.parameters()])
    normed = torch.nn.utils.parametrizations.spectral_norm(lab.to(nn.Linear(5, 7)))
    with lab.parity("No page says that a module with spectral_norm cannot be pickled"):
        lab.raises("its pickle", lambda: pickle.dumps(normed), RuntimeError, match="state_dict")
    with lab.parity("No page names the buffers that spectral_norm adds to the state"):
        lab.same("its state", sorted(normed.state_dict()))
    lazy, prefixes = nn.LazyLinear(3), []
    lazy.register_state_dict_pre_hook(lambda module, prefix, keep: prefixes.append(prefix))
    lazy.state_dict(prefix="before.")
    lab.to(lazy)(lab.floats(2, 4))
    lazy.state_dict(prefix="after.")
    lab.same("hooks before the state", prefixes)
    lab.holds("each state-dict pre-hook ran once", prefixes == ["before.", "after."])
