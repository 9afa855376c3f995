"""Behaviours of composed transforms, ``functionalize``, stacked modules, traced transforms and
``autograd.Function`` under ``vmap``.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.func import (
    functional_call,
    functionalize,
    grad,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    stack_module_state,
    vjp,
    vmap,
)

from conformance import torch_testing_internals
from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab


@behaviour("functorch", level="full", capabilities=("double_backward", "autograd"), page="func.html")
def transforms_of_transforms(lab: Lab) -> None:
    """``grad``, ``vjp``, ``jvp`` and ``vmap`` can be nested in any order, two and three levels deep."""
    x, t = lab.integers(3), lab.integers(3)
    rows = lab.integers(4, 3)

    def cube(a: torch.Tensor) -> torch.Tensor:
        return a * a * a

    def sum_of_cubes(a: torch.Tensor) -> torch.Tensor:
        return cube(a).sum()

    lab.expect("grad of grad", grad(lambda a: grad(sum_of_cubes)(a).sum())(x), 6 * x.cpu())
    lab.same("grad of vmap", grad(lambda a: vmap(sum_of_cubes)(a).sum())(rows))
    lab.expect("vmap of grad", vmap(grad(sum_of_cubes))(rows), 3 * rows.cpu() ** 2)
    lab.same("vmap of vmap", vmap(vmap(cube))(rows))
    lab.same("grad of vjp", grad(lambda a: vjp(cube, a)[1](t)[0].sum())(x))
    lab.same("vmap of vjp", vmap(lambda a: vjp(cube, a)[1](t)[0])(rows))
    lab.same("vjp of grad", vjp(grad(sum_of_cubes), x)[1](t))
    lab.same("vjp of vmap", vjp(vmap(cube), rows)[1](rows))
    lab.same("vjp of vjp", vjp(vjp(cube, x)[1], t)[1]((t,)))
    lab.same("grad of vjp of grad", grad(lambda a: vjp(grad(sum_of_cubes), a)[1](t)[0].sum())(x))
    lab.same("vmap of vjp of grad", vmap(lambda a: vjp(grad(sum_of_cubes), a)[1](t)[0])(rows))
    lab.same("vmap of hessian", vmap(hessian(sum_of_cubes))(rows))
    lab.same("jacrev of vmap", jacrev(vmap(sum_of_cubes))(rows))
    lab.same("jvp of vmap of grad", jvp(vmap(grad(sum_of_cubes)), (rows,), (rows + 1,)))
    lab.same("vmap of jvp of vjp", vmap(lambda a: jvp(lambda b: vjp(cube, b)[1](t)[0], (a,), (t,)))(rows))

    def sum_after_write_through_view(a: torch.Tensor) -> torch.Tensor:
        base = a.clone()
        base[1:].mul_(a[:-1])
        return base.sum()

    lab.same("per-sample gradients of a write through a view", vmap(grad(sum_after_write_through_view))(rows))
    lab.same("hessians of a write through a view", vmap(hessian(sum_after_write_through_view))(rows))
    lab.same("an index", vmap(grad(lambda a: cube(a[lab.put([0, 2])]).sum()))(rows))
    copied = vmap(grad(lambda a: (a.new_zeros(3).copy_(a) * a).sum()))(rows)
    lab.expect("new zeros that are written", copied, 2 * rows.cpu())
    with lab.parity("The page of grad does not mention keyword arguments"):
        lab.same("keyword arguments", grad(lambda a, *, k: (a * k).sum())(x, k=t))
    with torch.no_grad():
        lab.same("vjp under no_grad", vjp(cube, x)[1](t))
    (outside,) = torch.autograd.grad(grad(sum_of_cubes)(y := x.clone().requires_grad_()).sum(), y)
    lab.expect("the engine outside", outside, 6 * x.cpu())


@behaviour(
    "functorch",
    level="full",
    page="func.ux_limitations.html",
    ground="batched tensors look like single elements, and only vmap refuses to read values",
)
def tensors_inside_of_transforms(lab: Lab) -> None:
    """Inside a transform, a tensor reports the same shape, dtype, device, number of elements and values as
    outside. Printing the tensor does not fail.
    """
    x = lab.integers(2, 3)
    records: list[Any] = []
    printed: list[bool] = []

    def record_metadata_and_sum_squares(a: torch.Tensor) -> torch.Tensor:
        records.append(
            [a.shape, a.dtype, a.numel(), a.dim(), a.device.type == lab.device.type, str(a.layout)]
        )
        printed.append("tensor" in repr(a).lower())
        return (a * a).sum()

    for transform in (grad, jacrev, jacfwd, lambda f: vmap(f), lambda f: grad(lambda a: vmap(f)(a).sum())):
        transform(record_metadata_and_sum_squares)(x)
    lab.same("seen", records)
    with lab.parity("No page describes the repr of a tensor inside of a transform"):
        lab.same("printed", printed)
    lists: list[Any] = []
    grad(lambda a: (lists.append(a.tolist()), a.sum())[1])(x)  # type: ignore[func-returns-value]
    grad(lambda a: grad(lambda b: (lists.append((b * 2).tolist()), b.sum())[1])(a).sum())(x)  # type: ignore[func-returns-value]
    jvp(lambda a: (lists.append(a[0].tolist()), a)[1], (x,), (x,))  # type: ignore[func-returns-value]
    lab.expect("lists", lists, [x.tolist(), (x * 2).tolist(), x[0].tolist()])
    lab.same("a factory inside", grad(lambda a: (a * torch.ones(3, device=a.device)).sum())(x))
    lab.same(
        "a tensor that is created inside", grad(lambda a: (a * torch.tensor(3.0, device=a.device)).sum())(x)
    )
    with lab.parity("No page says that the use of an escaped tensor is an error"):
        lab.raises(
            "use of a tensor that escaped from vmap", lambda: _use_an_element_after_vmap(x) * 2, RuntimeError
        )


def _use_an_element_after_vmap(x: torch.Tensor) -> torch.Tensor:
    """Store the batched tensor that the mapped function receives, and use it after ``vmap`` has returned."""
    elements: list[torch.Tensor] = []
    vmap(lambda a: (elements.append(a), a)[1])(x)  # type: ignore[func-returns-value]
    return elements[0].sin()


@behaviour(
    "functorch", level="full", must_detect=("value", "alias"), page="generated/torch.func.functionalize.html"
)
def functionalize_keeps_meaning(lab: Lab) -> None:
    """``functionalize`` does not change the results of a function that creates views or writes in place, also
    if it writes into its inputs. This also holds under ``grad``, ``vmap`` and ``jvp``. The graph of a
    functionalized function contains no writes.
    """
    x = lab.integers(4, 2)

    def square_after_write_through_view(a: torch.Tensor) -> torch.Tensor:
        b = torch.ones(4, 2, device=a.device)
        c = a.view(4, 2)
        c.add_(b)
        return a * a

    def square_after_writes_through_many_views(a: torch.Tensor) -> torch.Tensor:
        base = a * 1
        first, second = base[:2], base[2:]
        diagonal = first.diagonal()
        diagonal.add_(1)
        second.view(-1)[1:].mul_(3)
        base.unsqueeze_(0)
        base.transpose_(0, 1)
        return base * base

    def write_by_index(a: torch.Tensor) -> torch.Tensor:
        b = a.clone()
        b[lab.put([0, 2])] = 7
        b[1:, 0] += 1
        return b

    def call_with_out_arguments(a: torch.Tensor) -> torch.Tensor:
        buffer = torch.empty(4, 2, device=a.device)
        torch.add(a, 1, out=buffer)
        value, index = buffer.clone()[0], torch.zeros(4, dtype=torch.int64, device=a.device)
        top = torch.empty(4, device=a.device)
        torch.max(buffer, 1, out=(top, index))
        return buffer + top[:, None] + index[:, None] + value

    for name, function in {
        "simple": square_after_write_through_view,
        "several": square_after_writes_through_many_views,
        "by index": write_by_index,
        "out": call_with_out_arguments,
    }.items():
        for remove in ("mutations", "mutations_and_views"):
            mine, yours = x.clone(), x.clone()
            result = functionalize(function, remove=remove)(mine)
            expected = function(yours)
            lab.same(f"{name}, {remove}", (result, mine))
            lab.holds(
                f"{name}, {remove}: as without", torch.equal(result, expected) and torch.equal(mine, yours)
            )
            graph = torch_testing_internals.graph_of_function(
                functionalize(function, remove=remove), x.clone()
            )
            operators = [
                str(node.target) for node in graph.graph.nodes if str(node.target).startswith("aten.")
            ]
            writes = [
                name
                for name in operators
                if name.split(".")[1].endswith("_") and name != "aten.copy_.default"
            ]
            lab.holds(f"{name}, {remove}: no writes in the graph", not writes)
            if remove == "mutations_and_views":
                lab.holds(
                    f"{name}: no views in the graph",
                    not [
                        operator
                        for operator in operators
                        if operator.split(".")[1] in ("view", "split", "diagonal", "transpose")
                    ],
                )
            lab.same(f"{name}, {remove}: result of the graph", graph(x.clone()))
    lab.same("under grad", grad(lambda a: functionalize(square_after_writes_through_many_views)(a).sum())(x))
    lab.same("of grad", functionalize(grad(lambda a: square_after_writes_through_many_views(a).sum()))(x))  # type: ignore[misc]
    lab.same("under vmap", vmap(functionalize(square_of_copy_with_doubled_row))(x))
    lab.same(
        "of vmap and jvp",
        functionalize(lambda a: vmap(lambda b: jvp(square_of_copy_with_doubled_row, (b,), (b,))[1])(a))(x),
    )
    lab.same(
        "a linear map",
        functionalize(lambda a, weight: torch.nn.functional.linear(a, weight))(x, lab.integers(3, 2)),
    )
    with lab.parity("The page names two values of remove=, and does not say that other values are an error"):
        lab.raises(
            "a word", lambda: functionalize(square_after_write_through_view, remove="views")(x), RuntimeError
        )


def square_of_copy_with_doubled_row(a: torch.Tensor) -> torch.Tensor:
    """Copy ``a``, double the first row of the copy through a view, and return the square of the copy."""
    b = a * 1
    b[:1].mul_(2)
    return b * b


@behaviour(
    "functorch",
    level="full",
    capabilities=("autograd",),
    page="generated/torch.fx.experimental.proxy_tensor.make_fx.html",
    basis="consistency",
    ground="The traced graph and the original function must agree",
)
def graphs_of_transforms(lab: Lab) -> None:
    """A graph that is traced from a transformed function returns the results of this function also for other
    inputs.
    """
    x, second = lab.integers(3, 2), lab.integers(3, 2)
    transformed = {
        "vmap": vmap(lambda a: a.sum() * a),
        "grad": grad(lambda a: (a * a * a).sum()),
        "jacrev": jacrev(lambda a: a * a),
        "jacfwd": jacfwd(lambda a: a * a),
        "vjp": lambda a: vjp(lambda b: b * b * b, a)[1](a)[0],
        "jvp": lambda a: jvp(lambda b: b * b * b, (a,), (a,))[1],
        "hessian": hessian(lambda a: (a * a * a).sum()),
        "vmap of grad": vmap(grad(lambda a: (a * a * a).sum())),
    }
    for name, function in transformed.items():
        for sizes in ("real", "symbolic"):
            result = torch_testing_internals.graph_of_function(function, x, sizes=sizes)(second)
            lab.same(f"{name}, {sizes} sizes", result)
            lab.holds(
                f"{name}, {sizes} sizes: graph and function agree", torch.equal(result, function(second))
            )


class _ScaleWithRecordedVmapRule(torch.autograd.Function):
    """An ``autograd.Function`` that computes ``x * k`` and whose ``vmap`` rule records its arguments."""

    rule_arguments: list[Any]

    @staticmethod
    def forward(x: torch.Tensor, k: Any) -> Any:
        return x * k

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        x, k = ctx.saved_tensors
        return grad * k, grad * x

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: torch.Tensor, k: torch.Tensor) -> Any:
        _ScaleWithRecordedVmapRule.rule_arguments.append((info.batch_size, info.randomness, tuple(in_dims)))
        moved = [v if d is None else v.movedim(d, 0) for v, d in zip((x, k), in_dims, strict=True)]
        return moved[0] * moved[1], 0


class _NoVmapRule(torch.autograd.Function):
    @staticmethod
    def forward(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad * 2


class _GeneratedVmapRule(_NoVmapRule):
    generate_vmap_rule = True


class _GeneratedAndHandwrittenVmapRules(_GeneratedVmapRule):
    @staticmethod
    def vmap(info: Any, in_dims: Any, x: torch.Tensor) -> Any:
        return x * 2, in_dims[0]


class _VmapRuleWithoutOutDims(_NoVmapRule):
    @staticmethod
    def vmap(info: Any, in_dims: Any, x: torch.Tensor) -> Any:
        return x * 2


class _VmapRuleWithWrongOutDims(_NoVmapRule):
    @staticmethod
    def vmap(info: Any, in_dims: Any, x: torch.Tensor) -> Any:
        return x * 2, (0, 0)


class _FunctionWithoutSetupContext(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad * 2


@behaviour("functorch", level="full", capabilities=("autograd",), page="notes/extending.func.html")
def functions_under_vmap(lab: Lab) -> None:
    """``vmap`` of an ``autograd.Function`` calls the handwritten ``vmap`` rule with the batch size,
    ``randomness`` and ``in_dims``, or uses the generated rule. A missing rule, two rules and a wrong result
    of a rule raise errors.
    """
    x, k = lab.integers(4, 3), lab.integers(4, 3)
    _ScaleWithRecordedVmapRule.rule_arguments = []
    lab.expect("both mapped", vmap(_ScaleWithRecordedVmapRule.apply)(x, k), (x * k).cpu())
    lab.expect(
        "one mapped",
        vmap(_ScaleWithRecordedVmapRule.apply, in_dims=(0, None), randomness="same")(x, k[0]),
        (x * k[0]).cpu(),
    )
    lab.expect(
        "another dimension",
        vmap(_ScaleWithRecordedVmapRule.apply, in_dims=(1, 0))(x.T.contiguous(), k),
        (x * k).cpu(),
    )
    lab.same("the arguments of the rule", _ScaleWithRecordedVmapRule.rule_arguments)
    lab.same("nested", vmap(vmap(_ScaleWithRecordedVmapRule.apply))(x, k))
    count = len(_ScaleWithRecordedVmapRule.rule_arguments)
    vmap(lambda a: _ScaleWithRecordedVmapRule.apply(k, k).sum() + a)(x)
    with lab.parity("No page says that the rule is not called at a level that maps nothing"):
        lab.holds(
            "the rule is not called at a level that maps nothing",
            len(_ScaleWithRecordedVmapRule.rule_arguments) == count,
        )
    lab.expect("under grad", grad(lambda a: _ScaleWithRecordedVmapRule.apply(a, k).sum())(x), k.cpu())
    lab.expect("a generated rule", vmap(_GeneratedVmapRule.apply)(x), (x * 2).cpu())
    lab.same("its gradient", vmap(grad(lambda a: (_GeneratedVmapRule.apply(a) * a).sum()))(x))
    lab.raises("no rule", lambda: vmap(_NoVmapRule.apply)(x), RuntimeError, match="vmap")
    lab.raises(
        "two rules", lambda: vmap(_GeneratedAndHandwrittenVmapRules.apply)(x), RuntimeError, match="vmap"
    )
    lab.raises(
        "a rule that returns only the result", lambda: vmap(_VmapRuleWithoutOutDims.apply)(x), RuntimeError
    )
    lab.raises(
        "a rule that returns wrong out_dims", lambda: vmap(_VmapRuleWithWrongOutDims.apply)(x), RuntimeError
    )
    for transform in (vmap, lambda f: grad(lambda a: f(a).sum())):
        lab.raises(
            "no setup_context",
            lambda: transform(_FunctionWithoutSetupContext.apply)(x),
            RuntimeError,
            match="setup_context",
        )


@behaviour(
    "functorch", level="full", capabilities=("autograd",), page="generated/torch.func.stack_module_state.html"
)
def stacked_modules(lab: Lab) -> None:
    """``stack_module_state`` stacks parameters and buffers. Stacked parameters are leaves that keep
    ``requires_grad``. Modules of different classes or modes and an empty list raise an error.
    ``functional_call`` accepts several dicts, tied parameters and buffers.
    """
    models = [lab.to(torch.nn.BatchNorm1d(3)) for _ in range(3)]
    with torch.no_grad():
        for number, model in enumerate(models):
            model.weight.fill_(number)
    parameters, buffers = stack_module_state(models)
    lab.same("parameters", {name: value.detach() for name, value in parameters.items()})
    lab.same("buffers", buffers)
    lab.holds("leaves that require grad", all(v.is_leaf and v.requires_grad for v in parameters.values()))
    lab.holds("buffers do not", not any(v.requires_grad for v in buffers.values()))
    linear = [lab.to(torch.nn.Linear(2, 2)) for _ in range(2)]
    with lab.parity("No page says that this call is an error"):
        lab.raises("none", lambda: stack_module_state([]), RuntimeError)
    lab.raises("two kinds", lambda: stack_module_state([models[0], linear[0]]), RuntimeError)
    linear[0].eval()
    lab.raises("two modes", lambda: stack_module_state(linear), RuntimeError)
    layer = linear[1]
    before = layer.weight.detach().clone()
    x, weight, bias = lab.integers(3, 2), lab.integers(2, 2), lab.integers(2)
    layer_output = x @ weight.T + bias
    lab.expect(
        "two dicts", functional_call(layer, ({"weight": weight}, {"bias": bias}), (x,)), layer_output.cpu()
    )
    lab.raises(
        "a name in two dicts",
        lambda: functional_call(layer, ({"weight": weight}, {"weight": weight}), (x,)),
        ValueError,
    )
    # Two layers share their parameters. If the module contained one layer twice, functional_call of torch
    # 2.13 would leave the replaced parameters in this layer, also on the CPU.
    linear[0].weight, linear[0].bias = layer.weight, layer.bias
    tied = torch.nn.Sequential(layer, linear[0])
    lab.expect(
        "tied",
        functional_call(tied, {"0.weight": weight, "0.bias": bias}, (x,)),
        (layer_output @ weight.T + bias).cpu(),
    )
    gradients = grad(lambda p: functional_call(tied, p, (x,)).sum())({"0.weight": weight, "0.bias": bias})
    lab.same("gradients of tied parameters", gradients)
    lab.holds("the module's own parameters are unchanged", torch.equal(layer.weight, before))
