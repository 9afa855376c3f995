"""Behaviours of custom operators with the tags ``inplace`` and ``out``."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.library import custom_op

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api.custom_operators.definition import SPACE


@behaviour(
    "custom-operators",
    capabilities=(
        "autograd",
        "fake_tensors",
    ),
    must_detect=("error",),
)
def operators_in_place_by_tag(lab: Lab) -> None:
    """An operator with the tag ``inplace`` changes its first argument and returns this argument. The
    operator's schema declares the write. A definition without these properties is refused.
    """

    @custom_op(f"{SPACE}::adds_", mutates_args={"x"}, tags=torch.Tag.inplace)
    def add_in_place(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(y)
        return x

    x, y = lab.integers(3), lab.integers(3)
    result = add_in_place(x, y)
    lab.holds("the argument itself is returned", result is x)
    lab.same("value", x)
    schema = add_in_place._opoverload._schema
    lab.holds(
        "the schema says that it writes",
        schema.arguments[0].alias_info.is_write and schema.returns[0].alias_info.is_write,  # type: ignore[union-attr]
    )
    lab.holds("the overload has the tag inplace", torch.Tag.inplace in add_in_place._opoverload.tags)
    with FakeTensorMode() as mode:
        fake = mode.from_tensor(x)
        lab.holds("a fake argument itself is returned", add_in_place(fake, mode.from_tensor(y)) is fake)

    @custom_op(f"{SPACE}::wrong_", mutates_args={"x"}, tags=torch.Tag.inplace)
    def return_second_argument(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return y

    with lab.parity(
        "The page describes these operators, and does not say that other definitions are refused"
    ):
        lab.raises("a kernel that returns a wrong tensor", lambda: return_second_argument(x, y))

    @custom_op(
        f"{SPACE}::given_", mutates_args={"x"}, tags=torch.Tag.inplace, schema="(Tensor(a!) x) -> Tensor(a!)"
    )
    def double_by_given_schema(x: Any) -> Any:
        return x.mul_(2)

    lab.holds("an operator with an explicit schema returns its argument", double_by_given_schema(x) is x)
    lab.same("its value", x)

    def definition_call(function: Any, **options: Any) -> Any:
        return lambda: custom_op(f"{SPACE}::refused", function, tags=torch.Tag.inplace, **options)

    def no_return(x: torch.Tensor) -> None:
        pass

    def return_tensor_twice(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x, x

    def take_number_first(x: int, y: torch.Tensor) -> torch.Tensor:
        return y

    def write_second_argument(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return y

    def take_keyword_only(*, x: torch.Tensor) -> torch.Tensor:
        return x

    with lab.parity(
        "The page describes these operators, and does not say that other definitions are refused"
    ):
        lab.raises("no result", definition_call(no_return, mutates_args={"x"}), ValueError)
        lab.raises("two results", definition_call(return_tensor_twice, mutates_args={"x"}), ValueError)
        lab.raises(
            "a first argument that is not a tensor",
            definition_call(take_number_first, mutates_args={"y"}),
            ValueError,
        )
        lab.raises(
            "a second argument that is changed",
            definition_call(write_second_argument, mutates_args={"y"}),
            ValueError,
        )
        lab.raises(
            "no positional argument", definition_call(take_keyword_only, mutates_args={"x"}), ValueError
        )
        lab.raises(
            "a schema without alias",
            definition_call(
                double_by_given_schema._init_fn, mutates_args={"x"}, schema="(Tensor(a!) x) -> Tensor"
            ),
            ValueError,
        )
    leaf = lab.integers(3, requires_grad=True)
    lab.raises("its backward", lambda: add_in_place(leaf * 1, y).sum().backward(), match="autograd formula")


@behaviour("custom-operators", capabilities=("fake_tensors",), must_detect=("error",))
def operators_with_out_by_tag(lab: Lab) -> None:
    """An operator with the tag ``out`` writes to its keyword-only tensors and returns these tensors. The
    operator does not support autograd. A definition without these properties is refused.
    """

    @custom_op(f"{SPACE}::sums_out", mutates_args={"out"}, tags=torch.Tag.out)
    def sum_into_out(x: torch.Tensor, y: torch.Tensor, *, out: torch.Tensor) -> torch.Tensor:
        out.copy_(x + y)
        return out

    x, y, out = lab.integers(3), lab.integers(3), lab.integers(3)
    lab.holds("out is returned itself", sum_into_out(x, y, out=out) is out)
    lab.same("value", out)
    argument = sum_into_out._opoverload._schema.arguments[2]
    lab.holds("the schema says that out is written", argument.kwarg_only and argument.alias_info.is_write)  # type: ignore[union-attr]

    @custom_op(f"{SPACE}::two_out", mutates_args={"a", "b"}, tags=torch.Tag.out)
    def multiples_into_outs(
        x: torch.Tensor, *, a: torch.Tensor, b: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        a.copy_(x * 2)
        b.copy_(x * 3)
        return a, b

    second_out = lab.integers(3)
    result = multiples_into_outs(x, a=out, b=second_out)
    lab.holds("both out tensors themselves are returned", result[0] is out and result[1] is second_out)
    lab.same("both values", [out, second_out])
    with FakeTensorMode() as mode:
        fakes = [mode.from_tensor(t) for t in (x, y, out)]
        lab.holds(
            "a fake out tensor itself is returned", sum_into_out(fakes[0], fakes[1], out=fakes[2]) is fakes[2]
        )

    @custom_op(f"{SPACE}::wrong_out", mutates_args={"out"}, tags=torch.Tag.out)
    def ignore_out(x: torch.Tensor, *, out: torch.Tensor) -> torch.Tensor:
        return x

    with lab.parity(
        "The page describes these operators, and does not say that other definitions are refused"
    ):
        lab.raises("a kernel that returns a wrong tensor", lambda: ignore_out(x, out=out))
    leaf = lab.integers(3, requires_grad=True)
    lab.raises("an input that requires grad", lambda: sum_into_out(leaf, y, out=out), match="out=")
    lab.raises("an out tensor that requires grad", lambda: sum_into_out(x, y, out=leaf), match="out=")
    with torch.no_grad():
        lab.same("without gradients", sum_into_out(leaf, y, out=out))
    with lab.parity(
        "The page says that out operators do not support autograd, not that register_autograd is refused"
    ):
        lab.raises(
            "register_autograd for an out operator",
            lambda: sum_into_out.register_autograd(lambda ctx, grad: grad),
            match="[Oo]ut",
        )

    def take_positional_out(x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        return out

    def take_list_of_outs(x: torch.Tensor, *, out: list[torch.Tensor]) -> torch.Tensor:
        return out[0]

    def return_one_of_two_outs(x: torch.Tensor, *, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a

    def definition_call(function: Any, names: Any) -> Any:
        return lambda: custom_op(f"{SPACE}::refused", function, tags=torch.Tag.out, mutates_args=names)

    with lab.parity(
        "The page describes these operators, and does not say that other definitions are refused"
    ):
        lab.raises("a positional out", definition_call(take_positional_out, {"out"}), ValueError)
        lab.raises("a list of outs", definition_call(take_list_of_outs, {"out"}), ValueError)
        lab.raises("fewer results than outs", definition_call(return_one_of_two_outs, {"a", "b"}), ValueError)
        lab.raises("no out", definition_call(return_one_of_two_outs, ()), ValueError)
