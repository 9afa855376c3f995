"""Behaviours of custom operators with derivatives, fake kernels, batching rules, autocast and modes."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.library import custom_op
from torch.utils._python_dispatch import TorchDispatchMode

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api.custom_operators.definition import SPACE


def _define_square(name: str) -> Any:
    """Define and return a custom operator that computes x² on the host, without a derivative or a fake
    kernel.
    """

    @custom_op(f"{SPACE}::{name}", mutates_args=())
    def squared(x: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(x.cpu().numpy() ** 2).to(x.device)

    return squared


@behaviour("custom-operators", capabilities=("autograd",), level="training", must_detect=("value", "error"))
def gradients_of_operators(lab: Lab) -> None:
    """``register_autograd`` defines the backward of an operator. The backward can use the values that
    ``setup_context`` saved. Operators with lists and keyword arguments are allowed.
    """
    calls: list[str] = []

    def save_first_input(ctx: Any, inputs: Any, output: Any) -> None:
        calls.append("setup")
        ctx.save_for_backward(inputs[0])

    def square_backward(ctx: Any, grad: Any) -> Any:
        calls.append("backward")
        (x,) = ctx.saved_tensors
        return grad * 2 * x

    x = lab.integers(3, requires_grad=True)
    bare = _define_square("squared_bare")
    lab.raises("no formula", lambda: bare(x).sum().backward(), match="autograd formula")
    for way, register in {
        "method": lambda op, name: op.register_autograd(square_backward, setup_context=save_first_input),
        "function": lambda op, name: torch.library.register_autograd(
            op, square_backward, setup_context=save_first_input
        ),
        "name": lambda op, name: torch.library.register_autograd(
            f"{SPACE}::{name}", square_backward, setup_context=save_first_input
        ),
        "overload": lambda op, name: torch.library.register_autograd(
            getattr(getattr(torch.ops, SPACE), name).default, square_backward, setup_context=save_first_input
        ),
    }.items():
        name = f"squared_by_{way}"
        op = _define_square(name)
        register(op, name)
        lab.same(f"gradient, registered by {way}", torch.autograd.grad(op(x).sum(), x)[0])
    before = len(calls)
    with torch.no_grad():
        lab.same("without gradients", op(x))
    lab.same("result for an input that does not require grad", op(x.detach()))
    with lab.parity("No page says how often setup_context and backward are called"):
        lab.same("calls", [calls, len(calls) - before])

    @custom_op(f"{SPACE}::summed", mutates_args=())
    def scaled_sum(xs: list[torch.Tensor], scale: float = 2.0) -> torch.Tensor:
        return torch.stack(xs).sum(0) * scale

    scaled_sum.register_autograd(
        lambda ctx, grad: ([grad * ctx.scale for _ in range(ctx.count)], None),
        setup_context=lambda ctx, inputs, output: (
            setattr(ctx, "count", len(inputs[0])),  # type: ignore[func-returns-value]
            setattr(ctx, "scale", inputs[1]),  # type: ignore[func-returns-value]
            None,
        )[2],
    )
    y = lab.integers(3, requires_grad=True)
    lab.same("of a list", torch.autograd.grad(scaled_sum([x, y], 3.0).sum(), (x, y)))

    @custom_op(f"{SPACE}::keyworded", mutates_args=())
    def multiply_by_keyword(x: torch.Tensor, *, by: float) -> torch.Tensor:
        return x * by

    def save_keyword(ctx: Any, inputs: Any, keyword_only_inputs: Any, output: Any) -> None:
        ctx.by = keyword_only_inputs["by"]

    multiply_by_keyword.register_autograd(lambda ctx, grad: grad * ctx.by, setup_context=save_keyword)
    lab.same("of keywords", torch.autograd.grad(multiply_by_keyword(x, by=4.0).sum(), x)[0])
    wrong = _define_square("squared_wrong")
    wrong.register_autograd(lambda ctx, grad: (), setup_context=save_first_input)
    lab.raises("too few gradients", lambda: wrong(x).sum().backward(), match="gradients")


@behaviour("custom-operators", capabilities=("fake_tensors",), level="core", must_detect=("value", "error"))
def fake_kernels_of_operators(lab: Lab) -> None:
    """``register_fake`` defines how an operator treats fake and meta tensors. Without a fake kernel, the
    operator refuses these tensors.
    """
    x = lab.integers(2, 3)
    op = _define_square("faked")

    def call_on_fake_tensor() -> Any:
        with FakeTensorMode() as mode:
            return op(mode.from_tensor(x))

    lab.raises("no fake kernel", call_on_fake_tensor, match="fake")
    calls: list[Any] = []

    @op.register_fake  # type: ignore[untyped-decorator]
    def fake_square(x: torch.Tensor) -> torch.Tensor:
        calls.append(tuple(x.shape))
        return torch.empty_like(x)

    fake = call_on_fake_tensor()
    lab.same(
        "metadata of the fake result, and the fake kernel's calls",
        [fake.shape, fake.dtype, fake.device.type == lab.device.type, calls],
    )
    lab.same("on meta", op(torch.empty(4, device="meta")).shape)
    torch.library.register_fake(f"{SPACE}::faked", lambda x: x.new_empty(7))
    lab.same("registered again", call_on_fake_tensor().shape)
    lab.same("the result for a real tensor", op(x))

    @custom_op(f"{SPACE}::positive", mutates_args=())
    def positive_elements(x: torch.Tensor) -> torch.Tensor:
        return x[x > 0].clone()

    @positive_elements.register_fake
    def fake_positive(x: torch.Tensor) -> torch.Tensor:
        return x.new_empty(torch.library.get_ctx().new_dynamic_size())

    lab.same("a result whose size depends on data", positive_elements(x))
    with lab.parity("No page says that a fake kernel with a dynamic size fails on meta tensors"):
        lab.raises("a dynamic size on meta", lambda: positive_elements(torch.empty(3, device="meta")))
    with torch.library._scoped_library(SPACE, "FRAGMENT") as library:
        library.define("by_meta(Tensor x) -> Tensor")
        library.impl("by_meta", lambda x: x.new_empty(x.shape[0]), "Meta")
        by_meta = getattr(torch.ops, SPACE).by_meta
        lab.same("a meta kernel", by_meta(torch.empty(5, 2, device="meta")).shape)
        with FakeTensorMode() as mode:
            lab.same("serves fake tensors", by_meta(mode.from_tensor(x)).shape)


@behaviour("custom-operators", capabilities=("functorch",), must_detect=("value",))
def batching_rules_of_operators(lab: Lab) -> None:
    """``register_vmap`` defines the batching rule of an operator. ``vmap`` uses this rule for any batch
    dimension, and also when nested. A later registration replaces the rule.
    """

    @custom_op(f"{SPACE}::times", mutates_args=())
    def multiply(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x * y

    calls: list[Any] = []

    def batching_rule(info: Any, in_dims: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
        calls.append((info.batch_size, in_dims))
        x = x.movedim(in_dims[0], -1) if in_dims[0] is not None else x.unsqueeze(-1)
        y = y.movedim(in_dims[1], -1) if in_dims[1] is not None else y.unsqueeze(-1)
        return (x * y).movedim(-1, 0), 0

    multiply.register_vmap(batching_rule)
    x, y = lab.integers(2, 2), lab.integers(2, 2)
    lab.same("first", torch.vmap(multiply)(x, y))
    lab.same("other dimension", torch.vmap(multiply, in_dims=1)(x, y))
    lab.same("out_dims", torch.vmap(multiply, out_dims=1)(x, y))
    lab.same("one fixed", torch.vmap(multiply, in_dims=(0, None))(x, y[0]))
    lab.same("nested", torch.vmap(torch.vmap(multiply, in_dims=(0, None)), in_dims=(None, 0))(x[0], y[0]))
    with lab.parity("No page says how often, and with which in_dims, a nested vmap calls the rule"):
        lab.same("calls", calls)
    torch.library.register_vmap(f"{SPACE}::times", lambda info, dims, x, y: (x + y, 0))
    with lab.parity("No page says that a second batching rule replaces the first"):
        lab.same("replaced", torch.vmap(multiply)(x, y))
    lab.same("without vmap", multiply(x, y))


@behaviour("custom-operators", capabilities=("autocast",), must_detect=("value",))
def autocast_of_operators(lab: Lab) -> None:
    """After ``register_autocast``, autocast of the device casts the operator's inputs, also inputs in lists.
    A second registration is allowed.
    """
    kind = lab.device.type
    dtypes: list[Any] = []

    @custom_op(f"{SPACE}::cast", mutates_args=())
    def double_and_record_dtype(x: torch.Tensor) -> torch.Tensor:
        dtypes.append(x.dtype)
        return x * 2

    @custom_op(f"{SPACE}::cast_list", mutates_args=())
    def add_first_two(xs: list[torch.Tensor]) -> torch.Tensor:
        return xs[0] + xs[1]

    x = lab.integers(3)
    for op, argument in ((double_and_record_dtype, x), (add_first_two, [x, x + 1])):
        for times in (1, 2):
            torch.library.register_autocast(op, kind, torch.float16)
            with torch.autocast(kind, dtype=torch.float16):
                lab.same(f"{op._name} under autocast, registered {times} times", op(argument))
        lab.same(f"{op._name} outside", op(argument))
    lab.same("seen", dtypes)


@behaviour("custom-operators", must_detect=("value",))
def modes_and_operators(lab: Lab) -> None:
    """``register_torch_dispatch`` defines the result of an operator under a dispatch mode. Without the mode,
    the operator is unchanged.
    """
    calls: list[str] = []

    class PassThroughMode(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return function(*args, **(kwargs or {}))

    op = _define_square("under_mode")

    @op.register_torch_dispatch(PassThroughMode)  # type: ignore[untyped-decorator]
    def scale_under_mode(mode: Any, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        calls.append(function.overloadpacket.__name__)
        return args[0] * 10

    x = lab.integers(3)
    lab.same("without the mode", op(x))
    with PassThroughMode():
        lab.same("under the mode", op(x))
        lab.same("another operator", x + 1)
    lab.same("calls", calls)


@behaviour("custom-operators", level="core", must_detect=("value", "error"))
def opcheck_of_operators(lab: Lab) -> None:
    """``opcheck`` accepts operators that match their schema, and rejects operators with undeclared writes,
    with undeclared aliases, or with a wrong fake result.
    """
    x = lab.integers(3, dtype=torch.float32).requires_grad_()
    checked = _define_square("checked")
    checked.register_fake(lambda x: torch.empty_like(x))
    checked.register_autograd(
        lambda ctx, grad: grad * 2 * ctx.saved_tensors[0],
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
    )
    lab.same("a correct operator", torch.library.opcheck(checked, (x.detach(),)))
    lab.same(
        "an operator of torch",
        torch.library.opcheck(
            torch.ops.aten.sin.default, (x,), test_utils=("test_schema", "test_faketensor")
        ),
    )
    lab.raises("no operator", lambda: torch.library.opcheck(torch.sin, (x,)), ValueError, match="OpOverload")  # type: ignore[arg-type]
    with lab.parity("The page lists the tests, and does not say that an unknown name is refused"):
        lab.raises(
            "an unknown check",
            lambda: torch.library.opcheck(checked, (x,), test_utils="nonsense"),
            ValueError,
        )
    strided = _define_square("checked_stride")
    strided.register_fake(lambda x: x.new_empty(x.shape[0], 1))
    lab.raises(
        "another shape",
        lambda: torch.library.opcheck(strided, (x.detach(),), test_utils="test_faketensor"),
        Exception,
    )
    with torch.library._scoped_library(SPACE, "FRAGMENT") as library:
        library.define("mutates(Tensor x) -> Tensor")
        library.impl("mutates", lambda x: x.mul_(2).clone(), "CompositeExplicitAutograd")
        library.define("aliases(Tensor x) -> Tensor")
        library.impl("aliases", lambda x: x[:], "CompositeExplicitAutograd")
        space = getattr(torch.ops, SPACE)
        for name, text in {"mutates": "mutated", "aliases": "alias"}.items():
            op = getattr(space, name).default
            lab.raises(
                f"an operator that {name}",
                lambda: torch.library.opcheck(op, (lab.integers(3),), test_utils="test_schema"),
                Exception,
                match=text,
            )
        result = torch.library.opcheck(
            space.aliases.default, (lab.integers(3),), test_utils="test_schema", raise_exception=False
        )
        lab.same("without raising", isinstance(result["test_schema"], Exception))
    lab.same("value", checked(x.detach()))
