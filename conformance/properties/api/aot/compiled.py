"""Behaviours of functions that are compiled with backend ``aot_eager``: precision, saved tensors, random
values, and inputs of other sizes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api.aot import functions
from conformance.properties.api.aot.functions import trees_are_equal


def compare_compiled_with_eager(
    lab: Lab, name: str, function: Callable[..., Any], *starts: torch.Tensor, **options: Any
) -> None:
    """Record the results and gradients of a compiled function, which must be close to the results and
    gradients of eager.
    """
    observed = []
    for call in (functions.compile_with_aot_eager(function, fullgraph=True, **options), function):
        leaves = [start.clone().requires_grad_(start.is_floating_point()) for start in starts]
        result = call(*leaves)
        ends = list(result) if isinstance(result, (list, tuple)) else [result]
        grown = [leaf for leaf in leaves if leaf.requires_grad]
        # The loss is the sum of fourth powers. The sum of squares of a norm's output is constant, so that the
        # gradient of this sum would consist of rounding errors.
        wide = torch.float64 if lab.target.declares("float64") else torch.float32
        gradients = torch.autograd.grad(sum((end.to(wide) ** 4).sum() for end in ends), grown)
        observed.append([[end.detach() for end in ends], list(gradients)])
    lab.close(name, observed[0], roundings=64)
    for part, number in (("results", 0), ("gradients", 1)):
        pairs = zip(observed[0][number], observed[1][number], strict=True)
        lab.holds(
            f"{name}: {part} as eager",
            all(
                actual.dtype == expected.dtype and torch.allclose(actual, expected, 1e-4, 1e-4)
                for actual, expected in pairs
            ),
        )


@behaviour(
    "aot",
    level="full",
    capabilities=("autograd",),
    must_detect=(),
    page="generated/torch.compile.html",
    basis="consistency",
    ground="results and gradients of the compiled and of the eager call must agree",
)
def compiled_norms_and_layouts(lab: Lab) -> None:
    """Compiled norms, products of transposed tensors, and clones of jagged tensors give the values and
    gradients of eager. A compiled ``rrelu`` (random leaky ReLU) uses slopes in the requested range.
    """
    x, y = lab.floats(2, 4, 8), lab.floats(4, 3)
    compare_compiled_with_eager(lab, "layer norm", lambda a: functional.layer_norm(a, (8,)), x)
    compare_compiled_with_eager(lab, "rms norm", lambda a: functional.rms_norm(a, (8,)), x)
    compare_compiled_with_eager(
        lab, "turned and made contiguous", lambda a, b: (a.t() * b.t()).contiguous().view(-1), y, y + 1
    )

    if lab.target.capable("nested"):
        rows = [lab.integers(size, 3).requires_grad_() for size in (2, 3, 4)]
        nested = torch.nested.as_nested_tensor(rows, layout=torch.jagged)
        copied = functions.compile_with_aot_eager(lambda n: n.clone(), fullgraph=True)(nested).values()
        lab.same("a clone of a jagged tensor", copied.detach())
        lab.same(
            "gradients of the clone of a jagged tensor", list(torch.autograd.grad((copied * 3).sum(), rows))
        )
    if lab.target.capable("random"):
        _check_compiled_rrelu(lab)


def _check_compiled_rrelu(lab: Lab) -> None:
    """Check that a compiled ``rrelu`` multiplies negative numbers by slopes in the requested range."""

    def leaky_relu_and_noise(a: torch.Tensor) -> Any:
        noise = torch.ones_like(a)
        return torch.ops.aten.rrelu_with_noise(a, noise, 0.25, 0.75, True), noise

    negative = -(lab.floats(4, 4).abs() + 1)
    rectified = negative.clone()
    functions.compile_with_aot_eager(lambda a: torch.rrelu_(a, 0.25, 0.75, training=True), fullgraph=True)(
        rectified
    )
    with lab.documented():
        lab.holds("in place: slopes in the range", bool(((rectified > negative) & (rectified < 0)).all()))
    for name, function in {
        "fresh": lambda a: (torch.rrelu(a, 0.25, 0.75, training=True), a),
        "noise": leaky_relu_and_noise,
    }.items():
        private = lab.parity("No page describes aten.rrelu_with_noise and its noise tensor")
        with private if name == "noise" else lab.documented():
            result, noise = functions.compile_with_aot_eager(function, fullgraph=True)(negative)
            slope = result / negative
            lab.holds(f"{name}: slopes in the range", bool(((slope > 0.249) & (slope < 0.751)).all()))
            if name == "noise":
                lab.holds("the noise tensor contains the slopes", torch.allclose(noise, slope))


@behaviour(
    "aot",
    level="full",
    capabilities=("autograd",),
    must_detect=(),
    page="generated/torch.compile.html",
    basis="consistency",
    ground="The compiled call and the eager call must agree for every input",
)
def compiled_for_other_inputs(lab: Lab) -> None:
    """A compiled function accepts inputs whose sizes differ from those in its first call, inputs that no
    longer require grad, and one tensor as two inputs.
    """
    x, y = lab.integers(4, 4), lab.integers(4, 4)
    added = functions.compile_with_aot_eager(lambda a, b: a * 2 + b, fullgraph=True)
    turned = functions.compile_with_aot_eager(lambda a, b: (a.t_(), a + b)[1])
    for flags in ((True, True), (True, False), (False, False)):
        leaves = [t.clone().requires_grad_(flag) for t, flag in zip((x, y), flags, strict=True)]
        result = added(*leaves)
        lab.same(f"{flags}", [result.detach(), result.requires_grad])
        if result.requires_grad:
            result.sum().backward()
            lab.same(f"{flags}: gradients", [leaf.grad is not None for leaf in leaves])
    leaf = x.clone().requires_grad_()
    result = added(leaf, leaf)
    result.sum().backward()
    lab.same("one tensor as two inputs", [result.detach(), leaf.grad])
    for inputs in ((x.clone(), y.clone()), (y.clone(),) * 2):
        lab.same("turned", [turned(*inputs), lab.strides(inputs[0])])

    chained = functions.compile_with_aot_eager(lambda a, b: torch.relu(a @ b), fullgraph=True)
    for size in (2, 3):
        left_matrix, right_matrix = (
            lab.integers(size, size).requires_grad_(),
            lab.integers(size, size).requires_grad_(),
        )
        result = chained(left_matrix, right_matrix)
        expected = torch.relu(left_matrix @ right_matrix)
        lab.same(
            f"size {size}", [result.detach(), *torch.autograd.grad(result.sum(), (left_matrix, right_matrix))]
        )
        lab.holds(f"size {size} as eager", trees_are_equal(result.detach(), expected.detach()))

    squared = functions.trace_with_aot_autograd(lambda a: a * a)
    leaf = x.clone().requires_grad_()
    with torch.no_grad():
        quiet = squared(leaf)
    lab.same("under no_grad", [quiet, quiet.requires_grad])
    loud = functions.trace_with_aot_autograd(lambda a: a * a)(leaf)
    lab.same("and with gradients", [loud.detach(), *torch.autograd.grad(loud.sum(), leaf)])


@behaviour(
    "aot",
    level="full",
    capabilities=("autograd",),
    must_detect=(),
    page="autograd.html",
    ground="The page of saved_tensors_hooks makes no exception for compiled functions",
)
def compiled_with_saved_tensor_hooks(lab: Lab) -> None:
    """Saved-tensor hooks receive the tensors that a compiled function saves. The pack hook may change the
    device, dtype or value. The backward uses the tensors that the unpack hook returns. A compiled function
    may be called again with other hooks.
    """
    x = lab.integers(3, 4)
    hooks: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
        "as they are": (lambda t: t.detach(), lambda t: t),
        "doubled": (lambda t: t * 2, lambda t: t / 2),
        "in half precision": (lambda t: (t.dtype, t.to(torch.float16)), lambda p: p[1].to(p[0])),
        "on the host": (lambda t: (t.device, t.detach().cpu()), lambda p: p[1].to(p[0])),
        "wrong": (lambda t: t.detach(), lambda t: t * 3),
    }

    class SavesInput(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(a)
            return a.clone()

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            (a,) = ctx.saved_tensors
            return grad + a  # type: ignore[no-any-return]

    compiled_function = functions.compile_with_aot_eager(
        lambda a: SavesInput.apply((a * 2).relu()), fullgraph=True
    )
    for name, (pack, unpack) in hooks.items():
        counts = {"packed": 0, "unpacked": 0}

        def counting_pack(tensor: torch.Tensor, pack: Any = pack, counts: dict[str, int] = counts) -> Any:
            counts["packed"] += 1
            return pack(tensor)

        def counting_unpack(packed: Any, unpack: Any = unpack, counts: dict[str, int] = counts) -> Any:
            counts["unpacked"] += 1
            return unpack(packed)

        wrong = lab.parity("The page requires that the unpack hook returns the packed content")
        with wrong if name == "wrong" else contextlib.nullcontext():
            leaf = x.clone().requires_grad_()
            with torch.autograd.graph.saved_tensors_hooks(counting_pack, counting_unpack):
                result = compiled_function(leaf)
            (gradient,) = torch.autograd.grad(result.sum(), leaf)
            lab.same(name, [result.detach(), gradient])
        with lab.parity("No page says how many tensors a compiled function packs and unpacks"):
            lab.holds(
                f"{name}: each packed tensor is unpacked once", counts["packed"] == counts["unpacked"] > 0
            )


@behaviour(
    "aot",
    level="full",
    capabilities=("autograd", "autocast"),
    must_detect=(),
    page="generated/torch.compile.html",
    basis="consistency",
    ground="dtypes and values of the traced and of the eager call under autocast must agree",
)
def compiled_under_autocast(lab: Lab) -> None:
    """A compiled function under autocast computes in the lower precision, and its results and gradients have
    the dtypes of eager.
    """
    x, y = lab.integers(4, 4), lab.integers(4, 4)
    programs: dict[str, Callable[..., Any]] = {
        "products": lambda a, b: (a @ b) @ b,
        "a sum of products": lambda a, b: torch.einsum("ah,th->t", a, b).log_softmax(-1),
        "beside others": lambda a, b: (a @ b) * a + b.relu(),
    }
    for name, program in programs.items():
        observed = []
        for call in (functions.trace_with_aot_autograd(program), program):
            leaves = [x.clone().requires_grad_(), y.clone().requires_grad_()]
            with torch.autocast(lab.device.type, dtype=torch.bfloat16):
                result = call(*leaves)
            gradients = torch.autograd.grad(result.float().sum(), leaves)
            observed.append([result.detach(), *gradients])
        lists_differ = lab.parity("No autocast list has einsum, and only some of the lists have log_softmax")
        with lists_differ if name == "a sum of products" else lab.documented():
            lab.same(f"{name}: dtypes", [str(t.dtype) for t in observed[0]])
        lab.holds(
            f"{name}: dtypes as eager", [t.dtype for t in observed[0]] == [t.dtype for t in observed[1]]
        )
        lab.holds(
            f"{name}: values as eager",
            all(torch.allclose(a.float(), b.float(), 0.05, 0.5) for a, b in zip(*observed, strict=True)),
        )
        lab.close(name, observed[0][0].float(), roundings=64, dtype=torch.bfloat16)
