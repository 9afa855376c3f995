"""Operators over lists of tensors, compared with the operator of a single tensor."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api._numpy_values import values

_DTYPES = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "complex64", "bool")

#: Operators of one list, without their prefix; all but zero have an in-place and an out-of-place form.
UNARY = (
    "abs",
    "acos",
    "asin",
    "atan",
    "ceil",
    "cos",
    "cosh",
    "erf",
    "erfc",
    "exp",
    "expm1",
    "floor",
    "frac",
    "lgamma",
    "log",
    "log10",
    "log1p",
    "log2",
    "neg",
    "reciprocal",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
)
#: Operators of a list and another, a number, or a list of numbers.
BINARY = ("add", "sub", "mul", "div", "pow", "maximum", "minimum", "clamp_max", "clamp_min")
POINTWISE = ("addcmul", "addcdiv")


def lists(lab: Lab, *, low: int = 1, high: int = 4, gaps: bool = False) -> list[torch.Tensor]:
    """Tensors of several shapes, one of them without elements and one without dimensions."""
    groups = []
    for shape in ((3, 2), (5,), (0, 4), (2, 1, 3), ()):
        tensor = lab.integers(*shape, low=low, high=high) if shape else lab.integers(1, low=low, high=high)[0]
        groups.append(tensor.repeat_interleave(2, -1)[..., ::2] if gaps and shape else tensor)
    return groups


def foreach(name: str) -> Callable[..., Any]:
    """The operator over lists of a name."""
    return getattr(torch, f"_foreach_{name}")  # type: ignore[no-any-return]


def plain_form(name: str) -> Callable[..., Any]:
    """The operator of single tensors of a name."""
    function: Callable[..., Any] = getattr(torch, name)
    return function


def agree(
    lab: Lab,
    name: str,
    call: Callable[[], Sequence[torch.Tensor]],
    loop: Callable[[], Sequence[torch.Tensor]],
) -> bool:
    """Compare a call over lists with the loop, or expect a refusal if the loop is refused."""
    try:
        expected = loop()
    except (RuntimeError, NotImplementedError):
        lab.raises(name, call, RuntimeError, NotImplementedError)
        return False
    result = call()
    lab.holds(f"{name} gives as many", len(result) == len(expected))
    for place, (value, due) in enumerate(zip(result, expected, strict=False)):
        lab.holds(
            f"{name} [{place}] has the dtype and shape of the loop's",
            value.dtype == due.dtype and value.shape == due.shape,
        )
        if value.is_floating_point() or value.is_complex():
            lab.expect(f"{name} [{place}]", value, values(due), roundings=8.0)
        else:
            lab.expect(f"{name} [{place}]", value, values(due))
    return True


@behaviour("foreach", dtypes=_DTYPES, level="core", sees=("value",))
def one_list(lab: Lab) -> None:
    """Each operator of one list gives what the operator gives for each tensor, contiguous or not, and in
    place writes to each and raises its version.
    """
    for name, gaps in itertools.product(UNARY, (False, True)[: 2 if lab.dtype == torch.float32 else 1]):
        high = 2 if name in ("acos", "asin") else 4
        given = lists(lab, high=high, gaps=gaps)
        word = f"{name}{' with gaps' if gaps else ''}"
        if not agree(
            lab,
            word,
            lambda: foreach(name)(given),
            lambda: [plain_form(name)(x) for x in given],
        ):
            continue
        copies, others = [x.clone() for x in given], [x.clone() for x in given]
        versions = [x._version for x in copies]

        def in_place(name: str = name, copies: list[torch.Tensor] = copies) -> list[torch.Tensor]:
            foreach(f"{name}_")(copies)
            return copies

        if agree(lab, f"{word} in place", in_place, lambda: [getattr(x, f"{name}_")() for x in others]):
            lab.holds(
                f"{word} in place raises the versions",
                all(x._version > v for x, v in zip(copies, versions, strict=True) if x.numel()),
            )
    zeroed = lists(lab)
    torch._foreach_zero_(zeroed)
    lab.same("zero_", zeroed)


@behaviour("foreach", dtypes=_DTYPES, level="core", sees=("value",))
def two_lists(lab: Lab) -> None:
    """Each operator of two lists, of a list and a number, of a list and numbers, gives what the operator
    gives for each pair, and in place writes to the first.
    """
    for name, gaps in itertools.product(BINARY, (False, True)[: 2 if lab.dtype == torch.float32 else 1]):
        given, second = lists(lab, gaps=gaps), lists(lab, gaps=not gaps)
        word = f"{name}{' with gaps' if gaps else ''}"
        numbers = [2, 3, 1, 2, 1]
        forms: dict[str, tuple[Any, Sequence[Any]]] = {
            "lists": (second, second),
            "a number": (2, [2] * 5),
            "numbers": (numbers, numbers),
            "a fraction": (0.5, [0.5] * 5),
            "mixed numbers": ([2, 0.5, 1, 2, True], [2, 0.5, 1, 2, True]),
        }
        for form, (right, each) in forms.items():
            plain = plain_form(name)
            if name in ("maximum", "minimum") and form != "lists":
                plain = torch.clamp_min if name == "maximum" else torch.clamp_max
            if form == "mixed numbers" and lab.dtype in (torch.bool, torch.int32, torch.int64):
                continue
            done = agree(
                lab,
                f"{word} of {form}",
                lambda: foreach(name)(given, right),
                lambda: [plain(x, y) for x, y in zip(given, each, strict=True)],
            )
            if not done:
                continue
            copies, seconds = [x.clone() for x in given], [x.clone() for x in given]

            def in_place(
                name: str = name, copies: list[torch.Tensor] = copies, right: Any = right
            ) -> list[torch.Tensor]:
                foreach(f"{name}_")(copies, right)
                return copies

            def loop(
                plain: Any = plain, seconds: list[torch.Tensor] = seconds, each: Sequence[Any] = each
            ) -> list[torch.Tensor]:
                return [
                    getattr(
                        x, f"{plain.__name__}_" if plain.__name__ not in ("maximum", "minimum") else "copy_"
                    )(*((plain(x, y),) if plain.__name__ in ("maximum", "minimum") else (y,)))
                    for x, y in zip(seconds, each, strict=True)
                ]

            agree(lab, f"{word} of {form} in place", in_place, loop)
    given, second = lists(lab), lists(lab)
    for name in ("add", "sub"):
        agree(
            lab,
            f"{name} by alpha",
            lambda: foreach(name)(given, second, alpha=2),
            lambda: [plain_form(name)(x, y, alpha=2) for x, y in zip(given, second, strict=True)],
        )
    if lab.dtype != torch.bool:
        agree(
            lab,
            "a number to the power of a list",
            lambda: torch._foreach_pow(2, given),
            lambda: [torch.pow(2, x) for x in given],
        )
        scale = lab.put(2, dtype=lab.dtype)
        for name in ("add", "mul", "div"):
            agree(
                lab,
                f"{name} of a tensor without dimensions",
                lambda: foreach(name)(given, scale),
                lambda: [plain_form(name)(x, scale) for x in given],
            )
    targets = lists(lab)
    torch._foreach_copy_(targets, second)
    lab.same("copy_", targets)


def _pointwise(lab: Lab, name: str, gaps: bool) -> None:
    a, b, c = (lists(lab, gaps=gaps) for _ in range(3))
    function, plain = foreach(name), plain_form(name)
    several = [2.0, 0.5, 1.0, 3.0, 1.0]
    forms: dict[str, tuple[tuple[Any, ...], Sequence[float]]] = {
        "no value": ((), [1.0] * 5),
        "a value": ((2.0,), [2.0] * 5),
        "values": ((several,), several),
        "a tensor of values": ((torch.tensor(several),), several),
    }

    def loop(each: Sequence[float]) -> list[torch.Tensor]:
        return [plain(x, y, z, value=v) for x, y, z, v in zip(a, b, c, each, strict=True)]

    for form, (given, each) in forms.items():
        word = f"{name} with {form}{' with gaps' if gaps else ''}"
        agree(lab, word, lambda: function(a, b, c, *given), lambda: loop(each))
        copies = [x.clone() for x in a]
        function_in_place = foreach(f"{name}_")
        function_in_place(copies, b, c, *given)
        agree(lab, f"{word} in place", lambda: copies, lambda: loop(each))
    row, column = lab.integers(3, 1, low=1), lab.integers(1, 2, low=1)
    agree(
        lab,
        f"{name} that broadcasts",
        lambda: function([a[0]], [row], [column]),
        lambda: [plain(a[0], row, column)],
    )


@behaviour("foreach", dtypes=("float32", "float64", "complex64", "bfloat16"), level="core", sees=("value",))
def three_lists(lab: Lab) -> None:
    """addcmul, addcdiv and lerp of three lists, with a value, a list of values or a tensor of them, give what
    they give for each, in place as well; tensors that broadcast do.
    """
    for name, gaps in itertools.product(POINTWISE, (False, True)):
        _pointwise(lab, name, gaps)
    a, b, w = (lists(lab) for _ in range(3))
    agree(
        lab,
        "lerp by lists",
        lambda: torch._foreach_lerp(a, b, w),
        lambda: [torch.lerp(x, y, z) for x, y, z in zip(a, b, w, strict=True)],
    )
    agree(
        lab,
        "lerp by a number",
        lambda: torch._foreach_lerp(a, b, 0.25),
        lambda: [torch.lerp(x, y, 0.25) for x, y in zip(a, b, strict=True)],
    )
    copies = [x.clone() for x in a]
    torch._foreach_lerp_(copies, b, 0.25)
    agree(
        lab,
        "lerp_ by a number",
        lambda: copies,
        lambda: [torch.lerp(x, y, 0.25) for x, y in zip(a, b, strict=True)],
    )
