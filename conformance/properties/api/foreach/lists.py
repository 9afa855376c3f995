"""Behaviours of foreach operators, compared with calls of the single-tensor operators."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api._numpy_values import to_widest_numpy_array

_DTYPES = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "complex64", "bool")

#: The names of foreach operators whose only operand is one list, without the prefix ``_foreach_``. Each
#: operator exists in place and out of place.
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
#: The names of foreach operators with a list and a second operand: a list of tensors, a number, or a list of
#: numbers.
BINARY = ("add", "sub", "mul", "div", "pow", "maximum", "minimum", "clamp_max", "clamp_min")
POINTWISE = ("addcmul", "addcdiv")
#: The operators of ``UNARY`` that the page of torch does not list.
_UNLISTED_UNARY = ("rsqrt", "sign", "tanh")
_UNLISTED = "No page lists this list operator, and a device may refuse it"
_AGREEMENT = "List operator and single-tensor operator must give the same result for each tensor"


def tensors_of_several_shapes(
    lab: Lab, *, low: int = 1, high: int = 4, gaps: bool = False
) -> list[torch.Tensor]:
    """Return tensors of several shapes, including one without elements and one without dimensions. If
    ``gaps`` is set, the tensors have memory gaps.
    """
    groups = []
    for shape in ((3, 2), (5,), (0, 4), (2, 1, 3), ()):
        tensor = lab.integers(*shape, low=low, high=high) if shape else lab.integers(1, low=low, high=high)[0]
        groups.append(tensor.repeat_interleave(2, -1)[..., ::2] if gaps and shape else tensor)
    return groups


def foreach_function(name: str) -> Callable[..., Any]:
    """Return the function ``torch._foreach_<name>``."""
    return getattr(torch, f"_foreach_{name}")  # type: ignore[no-any-return]


def single_tensor_function(name: str) -> Callable[..., Any]:
    """Return the function ``torch.<name>``, which takes single tensors."""
    function: Callable[..., Any] = getattr(torch, name)
    return function


def compare_with_loop(
    lab: Lab,
    name: str,
    call: Callable[[], Sequence[torch.Tensor]],
    loop: Callable[[], Sequence[torch.Tensor]],
    *,
    is_listed: bool = True,
) -> bool:
    """Compare a foreach call with a loop of single calls. Return False if the loop raises an error, and
    otherwise True.

    If the loop raises an error, the foreach call must raise an error too. ``is_listed`` is False if no page
    lists the foreach operator, so that a device may refuse it.
    """
    with contextlib.nullcontext() if is_listed else lab.consistent(_AGREEMENT):
        expected, error = lab.value_or_error(f"the loop of {name}", loop, RuntimeError, TypeError)
        if expected is None or error is not None:
            lab.raises(name, call, RuntimeError, NotImplementedError)
            return False
        with contextlib.nullcontext() if is_listed else lab.parity(_UNLISTED):
            result = call()
        lab.holds(f"{name} gives as many", len(result) == len(expected))
        for index, (value, expected_tensor) in enumerate(zip(result, expected, strict=False)):
            lab.holds(
                f"{name} [{index}] has the loop result's dtype and shape",
                value.dtype == expected_tensor.dtype and value.shape == expected_tensor.shape,
            )
            if value.is_floating_point() or value.is_complex():
                lab.expect(f"{name} [{index}]", value, to_widest_numpy_array(expected_tensor), roundings=8.0)
            else:
                lab.expect(f"{name} [{index}]", value, to_widest_numpy_array(expected_tensor))
    return True


@behaviour(
    "foreach",
    dtypes=_DTYPES,
    level="core",
    must_detect=("value",),
    ground="Each operator's page applies the single-tensor operator to each tensor",
)
def one_list(lab: Lab) -> None:
    """Each foreach operator of one list returns the single-tensor operator's result for each tensor,
    contiguous or not. The in-place variant writes to each tensor and increases the tensor's version.
    """
    for name, gaps in itertools.product(UNARY, (False, True)[: 2 if lab.dtype == torch.float32 else 1]):
        high = 2 if name in ("acos", "asin") else 4
        tensors = tensors_of_several_shapes(lab, high=high, gaps=gaps)
        case_name = f"{name}{' with gaps' if gaps else ''}"
        if not compare_with_loop(
            lab,
            case_name,
            lambda: foreach_function(name)(tensors),
            lambda: [single_tensor_function(name)(x) for x in tensors],
            is_listed=name not in _UNLISTED_UNARY,
        ):
            continue
        copies, loop_copies = [x.clone() for x in tensors], [x.clone() for x in tensors]
        versions = [x._version for x in copies]

        def call_in_place(name: str = name, copies: list[torch.Tensor] = copies) -> list[torch.Tensor]:
            foreach_function(f"{name}_")(copies)
            return copies

        if compare_with_loop(
            lab,
            f"{case_name} in place",
            call_in_place,
            lambda: [getattr(x, f"{name}_")() for x in loop_copies],
            is_listed=name not in _UNLISTED_UNARY,
        ):
            lab.holds(
                f"{case_name} in place increases the versions",
                all(x._version > v for x, v in zip(copies, versions, strict=True) if x.numel()),
            )
    zeroed = tensors_of_several_shapes(lab)
    torch._foreach_zero_(zeroed)
    lab.same("zero_", zeroed)


@behaviour(
    "foreach",
    dtypes=_DTYPES,
    level="core",
    must_detect=("value",),
    basis="consistency",
    ground="List operator and single-tensor operator must give the same result for each tensor",
)
def two_lists(lab: Lab) -> None:
    """Each foreach operator of two lists, of a list and a number, or of a list and a list of numbers returns
    the single-tensor operator's result for each pair. The in-place variant writes to the first list.
    """
    for name, gaps in itertools.product(BINARY, (False, True)[: 2 if lab.dtype == torch.float32 else 1]):
        first, second = (
            tensors_of_several_shapes(lab, gaps=gaps),
            tensors_of_several_shapes(lab, gaps=not gaps),
        )
        case_name = f"{name}{' with gaps' if gaps else ''}"
        numbers = [2, 3, 1, 2, 1]
        forms: dict[str, tuple[Any, Sequence[Any]]] = {
            "lists": (second, second),
            "a number": (2, [2] * 5),
            "numbers": (numbers, numbers),
            "a fraction": (0.5, [0.5] * 5),
            "mixed numbers": ([2, 0.5, 1, 2, True], [2, 0.5, 1, 2, True]),
        }
        for form, (right, each) in forms.items():
            single_function = single_tensor_function(name)
            if name in ("maximum", "minimum") and form != "lists":
                single_function = torch.clamp_min if name == "maximum" else torch.clamp_max
            if form == "mixed numbers" and lab.dtype in (torch.bool, torch.int32, torch.int64):
                continue
            done = compare_with_loop(
                lab,
                f"{case_name} of {form}",
                lambda: foreach_function(name)(first, right),
                lambda: [single_function(x, y) for x, y in zip(first, each, strict=True)],
                is_listed=False,
            )
            if not done:
                continue
            copies, seconds = [x.clone() for x in first], [x.clone() for x in first]

            def call_in_place(
                name: str = name, copies: list[torch.Tensor] = copies, right: Any = right
            ) -> list[torch.Tensor]:
                foreach_function(f"{name}_")(copies, right)
                return copies

            def results_of_single_calls(
                single_function: Any = single_function,
                seconds: list[torch.Tensor] = seconds,
                each: Sequence[Any] = each,
            ) -> list[torch.Tensor]:
                return [
                    getattr(
                        x,
                        f"{single_function.__name__}_"
                        if single_function.__name__ not in ("maximum", "minimum")
                        else "copy_",
                    )(
                        *(
                            (single_function(x, y),)
                            if single_function.__name__ in ("maximum", "minimum")
                            else (y,)
                        )
                    )
                    for x, y in zip(seconds, each, strict=True)
                ]

            compare_with_loop(
                lab,
                f"{case_name} of {form} in place",
                call_in_place,
                results_of_single_calls,
                is_listed=False,
            )
    first, second = tensors_of_several_shapes(lab), tensors_of_several_shapes(lab)
    for name in ("add", "sub"):
        compare_with_loop(
            lab,
            f"{name} by alpha",
            lambda: foreach_function(name)(first, second, alpha=2),
            lambda: [single_tensor_function(name)(x, y, alpha=2) for x, y in zip(first, second, strict=True)],
            is_listed=False,
        )
    if lab.dtype != torch.bool:
        compare_with_loop(
            lab,
            "a number to the power of a list",
            lambda: torch._foreach_pow(2, first),
            lambda: [torch.pow(2, x) for x in first],
            is_listed=False,
        )
        scale = lab.put(2, dtype=lab.dtype)
        for name in ("add", "mul", "div"):
            compare_with_loop(
                lab,
                f"{name} of a tensor without dimensions",
                lambda: foreach_function(name)(first, scale),
                lambda: [single_tensor_function(name)(x, scale) for x in first],
                is_listed=False,
            )
    targets = tensors_of_several_shapes(lab)
    with lab.parity("No page describes torch._foreach_copy_"):
        torch._foreach_copy_(targets, second)
        lab.same("copy_", targets)


def _check_three_list_operators(lab: Lab, name: str, gaps: bool) -> None:
    """Compare a foreach operator of three lists with single calls, for each type of the operator's value
    argument: none, a number, a list or a tensor.
    """
    a, b, c = (tensors_of_several_shapes(lab, gaps=gaps) for _ in range(3))
    function, single_function = foreach_function(name), single_tensor_function(name)
    several = [2.0, 0.5, 1.0, 3.0, 1.0]
    forms: dict[str, tuple[tuple[Any, ...], Sequence[float]]] = {
        "no value": ((), [1.0] * 5),
        "a value": ((2.0,), [2.0] * 5),
        "values": ((several,), several),
        "a tensor of values": ((torch.tensor(several),), several),
    }

    def results_of_single_calls(each: Sequence[float]) -> list[torch.Tensor]:
        return [single_function(x, y, z, value=v) for x, y, z, v in zip(a, b, c, each, strict=True)]

    for form, (extra_arguments, each) in forms.items():
        case_name = f"{name} with {form}{' with gaps' if gaps else ''}"
        compare_with_loop(
            lab,
            case_name,
            lambda: function(a, b, c, *extra_arguments),
            lambda: results_of_single_calls(each),
            is_listed=False,
        )
        copies = [x.clone() for x in a]
        function_in_place = foreach_function(f"{name}_")
        with lab.parity(_UNLISTED):
            function_in_place(copies, b, c, *extra_arguments)
        compare_with_loop(lab, f"{case_name} in place", lambda: copies, lambda: results_of_single_calls(each))
    row, column = lab.integers(3, 1, low=1), lab.integers(1, 2, low=1)
    compare_with_loop(
        lab,
        f"{name} that broadcasts",
        lambda: function([a[0]], [row], [column]),
        lambda: [single_function(a[0], row, column)],
        is_listed=False,
    )


@behaviour(
    "foreach",
    dtypes=("float32", "float64", "complex64", "bfloat16"),
    level="core",
    must_detect=("value",),
    basis="consistency",
    ground="List operator and single-tensor operator must give the same result for each tensor",
)
def three_lists(lab: Lab) -> None:
    """``addcmul``, ``addcdiv`` and ``lerp`` of three lists return the single-tensor operator's result for
    each triple, also in place. ``addcmul`` and ``addcdiv`` accept one value, a list of values or a tensor of
    values. Tensors are broadcast.
    """
    for name, gaps in itertools.product(POINTWISE, (False, True)):
        _check_three_list_operators(lab, name, gaps)
    a, b, w = (tensors_of_several_shapes(lab) for _ in range(3))
    compare_with_loop(
        lab,
        "lerp by lists",
        lambda: torch._foreach_lerp(a, b, w),
        lambda: [torch.lerp(x, y, z) for x, y, z in zip(a, b, w, strict=True)],
        is_listed=False,
    )
    compare_with_loop(
        lab,
        "lerp by a number",
        lambda: torch._foreach_lerp(a, b, 0.25),
        lambda: [torch.lerp(x, y, 0.25) for x, y in zip(a, b, strict=True)],
        is_listed=False,
    )
    copies = [x.clone() for x in a]
    with lab.parity(_UNLISTED):
        torch._foreach_lerp_(copies, b, 0.25)
    compare_with_loop(
        lab,
        "lerp_ by a number",
        lambda: copies,
        lambda: [torch.lerp(x, y, 0.25) for x, y in zip(a, b, strict=True)],
    )
