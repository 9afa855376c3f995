"""Custom operators with the tags inplace and out."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.library import custom_op

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api.custom_operators.definition import SPACE


@behaviour("custom-operators", sees=("error",))
def operators_in_place_by_tag(lab: Lab) -> None:
    """An operator tagged inplace returns its first argument, changed, and its schema declares the write.
    Definitions that violate this are refused.
    """

    @custom_op(f"{SPACE}::adds_", mutates_args={"x"}, tags=torch.Tag.inplace)
    def adds(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(y)
        return x

    x, y = lab.integers(3), lab.integers(3)
    result = adds(x, y)
    lab.holds("the argument itself is returned", result is x)
    lab.same("value", x)
    schema = adds._opoverload._schema
    lab.holds(
        "the schema says that it writes",
        schema.arguments[0].alias_info.is_write and schema.returns[0].alias_info.is_write,  # type: ignore[union-attr]
    )
    lab.holds("the tag is there", torch.Tag.inplace in adds._opoverload.tags)
    with FakeTensorMode() as mode:
        fake = mode.from_tensor(x)
        lab.holds("fake tensors are returned themselves too", adds(fake, mode.from_tensor(y)) is fake)

    @custom_op(f"{SPACE}::wrong_", mutates_args={"x"}, tags=torch.Tag.inplace)
    def wrong(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return y

    lab.raises("another tensor returned", lambda: wrong(x, y))

    @custom_op(
        f"{SPACE}::given_", mutates_args={"x"}, tags=torch.Tag.inplace, schema="(Tensor(a!) x) -> Tensor(a!)"
    )
    def given(x: Any) -> Any:
        return x.mul_(2)

    lab.holds("by a schema that was given", given(x) is x)
    lab.same("its value", x)

    def define(function: Any, **options: Any) -> Any:
        return lambda: custom_op(f"{SPACE}::refused", function, tags=torch.Tag.inplace, **options)

    def no_return(x: torch.Tensor) -> None:
        pass

    def two(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x, x

    def number(x: int, y: torch.Tensor) -> torch.Tensor:
        return y

    def second(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return y

    def keyword(*, x: torch.Tensor) -> torch.Tensor:
        return x

    lab.raises("no result", define(no_return, mutates_args={"x"}), ValueError)
    lab.raises("two results", define(two, mutates_args={"x"}), ValueError)
    lab.raises("a first argument that is not a tensor", define(number, mutates_args={"y"}), ValueError)
    lab.raises("a second argument that is changed", define(second, mutates_args={"y"}), ValueError)
    lab.raises("no positional argument", define(keyword, mutates_args={"x"}), ValueError)
    lab.raises(
        "a schema without alias",
        define(given._init_fn, mutates_args={"x"}, schema="(Tensor(a!) x) -> Tensor"),
        ValueError,
    )
    leaf = lab.integers(3, requires_grad=True)
    lab.raises("its backward", lambda: adds(leaf * 1, y).sum().backward(), match="autograd formula")


@behaviour("custom-operators", sees=("error",))
def operators_with_out_by_tag(lab: Lab) -> None:
    """An operator tagged out writes its keyword tensors and returns them. It does not support autograd."""

    @custom_op(f"{SPACE}::sums_out", mutates_args={"out"}, tags=torch.Tag.out)
    def sums(x: torch.Tensor, y: torch.Tensor, *, out: torch.Tensor) -> torch.Tensor:
        out.copy_(x + y)
        return out

    x, y, out = lab.integers(3), lab.integers(3), lab.integers(3)
    lab.holds("out is returned itself", sums(x, y, out=out) is out)
    lab.same("value", out)
    argument = sums._opoverload._schema.arguments[2]
    lab.holds("the schema says that out is written", argument.kwarg_only and argument.alias_info.is_write)  # type: ignore[union-attr]

    @custom_op(f"{SPACE}::two_out", mutates_args={"a", "b"}, tags=torch.Tag.out)
    def two(x: torch.Tensor, *, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        a.copy_(x * 2)
        b.copy_(x * 3)
        return a, b

    second_out = lab.integers(3)
    result = two(x, a=out, b=second_out)
    lab.holds("both are returned themselves", result[0] is out and result[1] is second_out)
    lab.same("both values", [out, second_out])
    with FakeTensorMode() as mode:
        fakes = [mode.from_tensor(t) for t in (x, y, out)]
        lab.holds("a fake out is returned itself", sums(fakes[0], fakes[1], out=fakes[2]) is fakes[2])

    @custom_op(f"{SPACE}::wrong_out", mutates_args={"out"}, tags=torch.Tag.out)
    def wrong(x: torch.Tensor, *, out: torch.Tensor) -> torch.Tensor:
        return x

    lab.raises("another tensor returned", lambda: wrong(x, out=out))
    leaf = lab.integers(3, requires_grad=True)
    lab.raises("an input that needs gradients", lambda: sums(leaf, y, out=out), match="out=")
    lab.raises("an out that needs gradients", lambda: sums(x, y, out=leaf), match="out=")
    with torch.no_grad():
        lab.same("without gradients", sums(leaf, y, out=out))
    lab.raises("a backward for it", lambda: sums.register_autograd(lambda ctx, grad: grad), match="[Oo]ut")

    def positional(x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        return out

    def listed(x: torch.Tensor, *, out: list[torch.Tensor]) -> torch.Tensor:
        return out[0]

    def mismatched(x: torch.Tensor, *, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a

    def define(function: Any, names: Any) -> Any:
        return lambda: custom_op(f"{SPACE}::refused", function, tags=torch.Tag.out, mutates_args=names)

    lab.raises("a positional out", define(positional, {"out"}), ValueError)
    lab.raises("a list of outs", define(listed, {"out"}), ValueError)
    lab.raises("fewer results than outs", define(mismatched, {"a", "b"}), ValueError)
    lab.raises("no out", define(mismatched, ()), ValueError)
