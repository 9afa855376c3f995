"""Behaviours of type promotion: the result dtypes of tensors, dimensionless tensors and Python numbers."""

from __future__ import annotations

import itertools
from typing import Any

import numpy
import torch

from conformance.behaviours.behaviour import ANY, behaviour
from conformance.behaviours.lab import Lab

_ORDER = (
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
    torch.complex128,
)


def declared_dtypes(lab: Lab) -> list[torch.dtype]:
    """Return the dtypes that the target declares, in the order of promotion."""
    return [dtype for dtype in _ORDER if lab.target.declares(str(dtype).removeprefix("torch."))]


def dtype_category(dtype: torch.dtype) -> int:
    """Return 0 for bool, 1 for integers, 2 for floating and 3 for complex dtypes."""
    if dtype.is_complex:
        return 3
    return 2 if dtype.is_floating_point else int(dtype != torch.bool)


def promoted_dtype(
    left: torch.dtype, right: torch.dtype, left_has_dimensions: bool = True, right_has_dimensions: bool = True
) -> torch.dtype:
    """Return the documented result dtype of two operands.

    An operand without dimensions (a dimensionless tensor or a Python number) changes the dtype of an operand
    with dimensions only if its category is higher.
    """
    if left_has_dimensions == right_has_dimensions:
        return torch.promote_types(left, right)
    strong, weak = (left, right) if left_has_dimensions else (right, left)
    if dtype_category(weak) <= dtype_category(strong):
        return strong
    if dtype_category(weak) == 3 and dtype_category(strong) == 2:
        return torch.complex128 if strong == torch.float64 else torch.complex64
    return weak


def _promotes_to_half_complex(left: torch.dtype, right: torch.dtype) -> bool:
    """Return whether ``left`` is a floating-point dtype of 16 bits and ``right`` is a complex dtype. Such
    operands can promote to complex32, which few devices support.
    """
    return left.is_floating_point and left.itemsize == 2 and right.is_complex


def _integers_of_dtype(lab: Lab, dtype: torch.dtype, *shape: int) -> torch.Tensor:
    return lab.integers(*shape, low=1, high=3, dtype=dtype)


@behaviour("promotion", dtypes=ANY, level="core", must_detect=("dtype",))
def arithmetic_of_mixed_dtypes(lab: Lab) -> None:
    """Sums, differences, products, maxima, comparisons and selections of tensors of two dtypes are computed
    in the dtype that ``promote_types`` returns. True division returns a floating dtype.
    """
    for left, right in itertools.product(declared_dtypes(lab), repeat=2):
        a, b = _integers_of_dtype(lab, left, 3), _integers_of_dtype(lab, right, 3)
        name = f"{left} and {right}"
        both = torch.promote_types(left, right)
        lab.expect(f"result_type of {name}", torch.result_type(a, b), both)
        lab.expect(f"sum of {name}", (a + b).dtype, both)
        lab.expect(f"product of {name}", (a * b).dtype, both)
        if torch.bool not in (left, right):
            lab.expect(f"difference of {name}", (a - b).dtype, both)
        lab.expect(f"quotient of {name}", (a / b).dtype, both if dtype_category(both) > 1 else torch.float32)
        lab.expect(f"comparison of {name}", (a == b).dtype, torch.bool)
        with lab.parity("No page says that this function promotes the dtypes of its inputs"):
            lab.expect(f"choice of {name}", torch.where(a == a, a, b).dtype, both)
            lab.expect(f"joined {name}", torch.cat([a, b]).dtype, both)
        if dtype_category(both) < 3:
            with lab.parity("No page says that this function promotes the dtypes of its inputs"):
                lab.expect(f"maximum of {name}", torch.maximum(a, b).dtype, both)
            lab.expect(f"order of {name}", (a < b).dtype, torch.bool)


@behaviour("promotion", dtypes=ANY, level="core", must_detect=("dtype",))
def numbers_without_dimensions(lab: Lab) -> None:
    """A dimensionless tensor or a Python number changes the dtype of a tensor with dimensions only if its
    category (bool, integer, floating, complex) is higher.
    """
    numbers = {True: torch.bool, 2: torch.int64, 1.5: torch.float32, 1 + 1j: torch.complex64}
    for left in declared_dtypes(lab):
        a = _integers_of_dtype(lab, left, 3)
        for right in declared_dtypes(lab):
            if _promotes_to_half_complex(left, right):
                continue
            b = _integers_of_dtype(lab, right, 1)[0]
            expected_dtype = promoted_dtype(left, right, True, False)
            lab.expect(
                f"{left} and a dimensionless {right}",
                (torch.result_type(a, b), (a + b).dtype, (b * a).dtype),
                (expected_dtype,) * 3,
            )
            two = torch.promote_types(left, right)
            lab.expect(f"dimensionless {left} and {right}", (a[0] + b).dtype, two)
        for number, number_dtype in numbers.items():
            if _promotes_to_half_complex(left, number_dtype):
                continue
            expected_dtype = promoted_dtype(left, number_dtype, True, False)
            lab.expect(
                f"{left} and {number}",
                (torch.result_type(a, number), (a + number).dtype, (number * a).dtype),
                (expected_dtype,) * 3,
            )
            lab.expect(f"a dimensionless {left} and {number}", (a[0] + number).dtype, expected_dtype)
    lab.expect(
        "two Python numbers",
        (torch.result_type(1, 2), torch.result_type(1, 2.0)),
        (torch.int64, torch.float32),
    )
    lab.expect(
        "dtype of int32 with dimensions plus dimensionless int64",
        (_integers_of_dtype(lab, torch.int32, 2) + _integers_of_dtype(lab, torch.int64, 1)[0]).dtype,
        torch.int32,
    )
    lab.expect("with no elements", (_integers_of_dtype(lab, torch.int32, 2)[:0] + 1.5).dtype, torch.float32)


@behaviour("promotion", dtypes=ANY, level="core", must_detect=("value", "dtype"))
def values_of_mixed_dtypes(lab: Lab) -> None:
    """Operators of mixed dtypes compute their results in the common dtype. This holds for large with small
    integers, half precision with integers, and signed with unsigned integers.
    """
    byte, short = lab.put([200, 255], dtype=torch.uint8), lab.put([-1, 100], dtype=torch.int8)
    lab.expect("uint8 + int8", byte + short, [199, 355])
    with lab.parity("No page says that integers wrap at the limits of their dtype"):
        lab.expect("uint8 + 1 wraps", byte + 1, [201, 0])
        lab.expect("int8 + 100 wraps", short + 100, [99, -56])
    lab.expect("uint8 * int32", byte * lab.put([2, 2], dtype=torch.int32), [400, 510])
    lab.expect("int64 / int64", lab.put([7, 8]) / lab.put([2, 4]), [3.5, 2.0])
    lab.expect("int32 * 0.5", lab.put([3, 4], dtype=torch.int32) * 0.5, [1.5, 2.0])
    lab.expect("bool + bool", lab.put([True, True]) + lab.put([True, False]), [True, True])
    lab.expect("bool * 3", lab.put([True, False]) * 3, [3, 0])
    lab.expect("bool + 0.5", lab.put([True, False]) + 0.5, [1.5, 0.5])
    lab.expect(
        "float32 + float64",
        lab.put([0.5], dtype=torch.float32) + lab.put([2.0**-40], dtype=torch.float64),
        numpy.array([0.5 + 2.0**-40]),
    )
    lab.expect("int64 + float16", lab.put([2, 3]) + lab.put([0.5, 0.25], dtype=torch.float16), [2.5, 3.25])
    lab.expect(
        "float16 + bfloat16",
        lab.put([0.5], dtype=torch.float16) + lab.put([256.0], dtype=torch.bfloat16),
        [256.5],
    )
    lab.expect("complex64 * int32", lab.put([1 + 2j]) * lab.put([3], dtype=torch.int32), [3 + 6j])
    lab.expect("int64 + 1j", lab.put([2, 3]) + 1j, [2 + 1j, 3 + 1j])
    lab.expect("float64 + 1j", (lab.put([2.0], dtype=torch.float64) + 1j).dtype, torch.complex128)
    lab.expect("a comparison of int64 and float32", lab.put([1, 2]) < lab.put([1.5, 1.5]), [True, False])
    lab.expect(
        "a comparison of int8 and uint8",
        lab.put([-1, 1], dtype=torch.int8) < lab.put([1, 200], dtype=torch.uint8),
        [True, True],
    )
    lab.expect(
        "an outer sum of a transpose",
        lab.put([[1, 2], [3, 4]]).t() + lab.put([[0.5], [0.25]]),
        [[1.5, 3.5], [2.25, 4.25]],
    )


@behaviour("promotion", dtypes=ANY, level="core", must_detect=("value", "error"))
def in_place_keeps_the_dtype(lab: Lab) -> None:
    """The result of an in-place operator has the dtype of its tensor. If the result has a higher category
    than this dtype (bool, integer, floating, complex), the operator raises an error.
    """
    for left, right in itertools.product(declared_dtypes(lab), repeat=2):
        a, b = _integers_of_dtype(lab, left, 3), _integers_of_dtype(lab, right, 3)
        both = torch.promote_types(left, right)
        if torch.can_cast(both, left):
            a += b
            lab.same(f"{left} += {right}", a)
        else:
            lab.raises(
                f"{left} += {right}",
                lambda: a.add_(b),
                match="(?i)can't be cast",
                text_is_documented=True,
                type_is_documented=True,
            )
    small = _integers_of_dtype(lab, torch.int64, 3)
    small.mul_(_integers_of_dtype(lab, torch.int64, 1)[0].to(torch.int8)).add_(True)
    lab.same("int64 by numbers", small)
    lab.raises(
        "int64 += 0.5",
        lambda: small.add_(0.5),
        match="(?i)can't be cast",
        text_is_documented=True,
        type_is_documented=True,
    )
    lab.raises(
        "int64 /= int64",
        lambda: small.div_(small),
        match="(?i)can't be cast",
        text_is_documented=True,
        type_is_documented=True,
    )
    lab.raises(
        "bool += int64",
        lambda: (small > 0).add_(small),
        match="(?i)can't be cast",
        text_is_documented=True,
        type_is_documented=True,
    )
    lab.raises(
        "float32 += 1j",
        lambda: _integers_of_dtype(lab, torch.float32, 2).add_(1j),
        match="(?i)can't be cast",
        text_is_documented=True,
        type_is_documented=True,
    )
    half = _integers_of_dtype(lab, torch.float16, 3)
    half += _integers_of_dtype(lab, torch.float64, 3)
    lab.same("float16 += float64", half)


@behaviour("promotion", dtypes=ANY, level="core", must_detect=("value", "error"), page="notes/out.html")
def results_are_cast_into_out(lab: Lab) -> None:
    """A result is computed in its promoted dtype and then cast to the dtype of ``out=``. The dtype of
    ``out=`` does not change the computation. An ``out=`` of a lower category (bool, integer, floating,
    complex) raises an error.
    """
    for source, target in itertools.product(declared_dtypes(lab), repeat=2):
        a = _integers_of_dtype(lab, source, 3)
        out = torch.empty(3, dtype=target, device=lab.device)
        if torch.can_cast(source, target):
            lab.same(f"{source} + {source} into {target}", torch.add(a, a, out=out))
        else:
            lab.raises(
                f"{source} + {source} into {target}",
                lambda: torch.add(a, a, out=out),
                match="(?i)can't be cast",
                text_is_documented=True,
                type_is_documented=True,
            )
        if torch.can_cast(torch.promote_types(source, torch.float32), target) and source.itemsize != 2:
            result = torch.square(a if dtype_category(source) > 1 else a.to(torch.float32), out=out)
            lab.expect(f"square of {source} into {target}", result.dtype, target)
    lab.expect(
        "square roots of int64 into float64",
        torch.sqrt(lab.put([4, 9]), out=torch.empty(2, dtype=torch.float64, device=lab.device)),
        [2.0, 3],
    )
    lab.raises(
        "square roots of int64 into int64",
        lambda: torch.sqrt(lab.put([4]), out=lab.put([0])),
        match="(?i)can't be cast",
        text_is_documented=True,
        type_is_documented=True,
    )
    big = lab.put([2**24 + 1, 3], dtype=torch.int32)
    lab.expect(
        "int32 sums into float64",
        torch.add(big, 0, out=torch.empty(2, dtype=torch.float64, device=lab.device)),
        [2**24 + 1, 3],
    )
    wide = torch.empty(2, dtype=torch.int64, device=lab.device)
    top = lab.put([2**31 - 1, 1], dtype=torch.int32)
    with lab.parity("No page says that int32 sums wrap"):
        lab.expect("int32 sums wrap before the cast to int64", torch.add(top, 1, out=wide), [-(2**31), 2])
    floats = torch.empty(2, dtype=torch.float64, device=lab.device)
    lab.expect("float32 thirds into float64", torch.div(lab.put([1.0, 2]), 4, out=floats), [0.25, 0.5])
    lab.same("comparisons into float32", torch.lt(big, 5, out=torch.empty(2, device=lab.device)))
    with lab.parity("No page says that clamp promotes the dtypes of its bounds"):
        lab.expect("clamp of int64 by floats", lab.put([1, 5]).clamp(1.5, 3.5).dtype, torch.float32)
        lab.expect(
            "clamp of int32 by int64", lab.put([1, 5], dtype=torch.int32).clamp(lab.put([2, 2])), [2, 5]
        )
    with lab.parity("No page says that clamp takes part in type promotion"):
        lab.raises(
            "clamp of int64 into int64 by floats",
            lambda: lab.put([1, 5]).clamp_(1.5),
            match="(?i)can't be cast",
        )
    mixed = torch.addcmul(
        lab.put([1.0]), lab.put([2], dtype=torch.int32), lab.put([3.0], dtype=torch.float64)
    )
    with lab.parity("No page says that addcmul promotes the dtypes of its inputs"):
        lab.expect("addcmul of three dtypes", (mixed.dtype, mixed.item()), (torch.float64, 7.0))
    lab.raises(
        "addcmul of floats into int64",
        lambda: torch.addcmul(lab.put([1.0]), lab.put([1.0]), lab.put([1.0]), out=wide[:1]),
        match="(?i)can't be cast|dtype",
        text_is_documented=True,
        type_is_documented=True,
    )


@behaviour(
    "promotion",
    dtypes=ANY,
    level="core",
    must_detect=("value", "error"),
    page="generated/torch.add.html",
    basis="parity",
    ground="No page restricts alpha, or says that these calls are errors",
)
def scaling_factors_fit_the_dtype(lab: Lab) -> None:
    """``alpha`` of ``add`` and ``sub`` raises an error if it is a fraction for integers, a bool for integers
    or a complex number for floats. ``addcdiv`` of integers and subtraction of booleans raise an error.
    Operators that require one dtype raise an error for mixed dtypes.
    """
    whole, truth, real = lab.put([1, 2]), lab.put([True, False]), lab.put([0.5, 1.5])
    with lab.documented():
        lab.expect("integers", whole.add(whole, alpha=3), [4, 8])
        lab.expect("floats", real.add(real, alpha=2), [1.5, 4.5])
        lab.expect("booleans", truth.add(truth, alpha=True), [True, False])
    lab.raises("integers by True", lambda: whole.add(whole, alpha=True), match="(?i)alpha")
    lab.raises("integers by 1.5", lambda: whole.add(whole, alpha=1.5), match="(?i)alpha")
    lab.raises("floats by 1j", lambda: real.add(real, alpha=1j), match="(?i)alpha|complex")
    lab.raises("booleans subtracted", lambda: truth - truth, match="(?i)bool")
    lab.raises("booleans negated", lambda: -truth, match="(?i)bool")
    with lab.documented():
        lab.raises(
            "integer addcdiv", lambda: torch.addcdiv(whole, whole, whole), match="(?i)integer division"
        )
    with lab.documented():
        lab.expect(
            "addcdiv of integers and floats", torch.addcdiv(real, whole, lab.put([2.0, 4])), [1.0, 2.0]
        )
    lab.raises(
        "complex numbers in order", lambda: lab.put([1j]) < lab.put([1j]), match="(?i)complex|not implemented"
    )
    lab.raises("complex clamp", lambda: lab.put([1j]).clamp(0, 1), RuntimeError, match="(?i)complex")
    lab.raises("lerp of two dtypes", lambda: torch.lerp(real, real.double(), 0.5), match="(?i)dtype")
    lab.raises("dot of two dtypes", lambda: torch.dot(real, real.double()), match="(?i)dtype|scalar type")
    lab.raises(
        "mm of two dtypes", lambda: torch.mm(real.view(1, 2), whole.view(2, 1)), match="(?i)dtype|scalar type"
    )


@behaviour(
    "promotion",
    dtypes=ANY,
    capabilities=("autograd",),
    level="training",
    must_detect=("value", "dtype"),
    page="generated/torch.Tensor.grad_dtype.html",
    ground="by default gradients are cast to the dtype of the tensor",
)
def gradients_have_the_dtype_of_inputs(lab: Lab) -> None:
    """In an operation of mixed dtypes, the gradient of each input has the dtype of the input."""
    for left, right in itertools.permutations(
        (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64), 2
    ):
        a, b = (
            _integers_of_dtype(lab, left, 2).requires_grad_(),
            _integers_of_dtype(lab, right, 2).requires_grad_(),
        )
        (a * b).abs().sum().backward()
        lab.expect(f"{left} and {right}", (a.grad.dtype, b.grad.dtype), (left, right))  # type: ignore[union-attr]
    x: Any = lab.put([2.0, 3], dtype=torch.float32, requires_grad=True)
    (x * lab.put([2, 5])).sum().backward()
    lab.expect("float32 and int64", x.grad, [2.0, 5])
    x = lab.put([2.0, 3], dtype=torch.float32, requires_grad=True)
    (x.double() * lab.put(0.5, dtype=torch.float64)).sum().backward()
    lab.expect("through float64", x.grad, [0.5, 0.5])
    x = lab.put([1.0, 2], requires_grad=True)
    with lab.parity("No page says that cat promotes the dtypes of its inputs"):
        torch.cat([x, lab.put([1.0], dtype=torch.float64)]).sum().backward()
        lab.expect("through cat", (x.grad.dtype, x.grad.tolist()), (torch.float32, [1.0, 1.0]))


@behaviour("promotion", dtypes=ANY, must_detect=("value", "error"), page="generated/torch.div.html")
def division_of_integers(lab: Lab) -> None:
    """True division of integers and booleans returns the default dtype. With ``rounding_mode``, the quotient
    of integers is an integer. A true quotient cannot be written into an integer ``out=`` or in place.
    """
    for left, right in itertools.product(
        [d for d in declared_dtypes(lab) if dtype_category(d) < 2], repeat=2
    ):
        a, b = _integers_of_dtype(lab, left, 4), lab.put([1, 1, 1, 1], dtype=right)
        lab.expect(
            f"{left} / {right}", ((a / b).dtype, torch.div(a, 1).dtype), (torch.float32, torch.float32)
        )
        if torch.bool not in (left, right):
            both = torch.promote_types(left, right)
            for mode in ("trunc", "floor"):
                lab.expect(
                    f"{left} / {right}, rounding_mode={mode}", torch.div(a, b, rounding_mode=mode).dtype, both
                )
    seven, two = lab.put([7, -7]), lab.put([2, 2])
    lab.expect("7 / 2", seven / two, [3.5, -3.5])
    lab.expect("trunc", torch.div(seven, two, rounding_mode="trunc"), [3, -3])
    lab.expect("floor", torch.div(seven, two, rounding_mode="floor"), [4 - 1, -4])
    lab.expect(
        "into float64",
        torch.true_divide(seven, two, out=torch.empty(2, dtype=torch.float64, device=lab.device)),
        [3.5, -3.5],
    )
    lab.raises(
        "into int64",
        lambda: torch.div(seven, two, out=torch.empty_like(seven)),
        match="(?i)can't be cast",
        text_is_documented=True,
        type_is_documented=True,
    )
    lab.raises(
        "in place",
        lambda: seven.true_divide_(two),
        match="(?i)can't be cast",
        text_is_documented=True,
        type_is_documented=True,
    )
    seven.div_(two, rounding_mode="floor")
    lab.expect("floor in place", seven, [3, -4])
    lab.raises("another mode", lambda: seven.div(two, rounding_mode="up"), match="(?i)rounding_mode")


@behaviour(
    "promotion",
    dtypes=ANY,
    must_detect=("value", "error"),
    page="generated/torch.cat.html",
    basis="parity",
    ground="No page says that cat and stack accept several dtypes and promote the dtypes",
)
def joining_mixed_dtypes(lab: Lab) -> None:
    """``cat``, ``stack`` and related functions return the common dtype of all tensors. ``out=`` may have a
    higher category (bool, integer, floating, complex) and not a lower category.
    """
    bytes_, halves = lab.put([1, 2], dtype=torch.int8), lab.put([0.5], dtype=torch.float16)
    result = torch.cat([bytes_, halves, lab.put([True])])
    lab.expect("cat", (result.dtype, result.tolist()), (torch.float16, [1.0, 2.0, 0.5, 1.0]))
    lab.expect("stack", torch.stack([bytes_[0], halves[0]]), [1.0, 0.5])
    lab.expect(
        "cat with an empty float64 tensor",
        torch.cat([bytes_, torch.empty(0, dtype=torch.float64, device=lab.device)]).dtype,
        torch.float64,
    )
    lab.expect(
        "into float64",
        torch.cat([bytes_, halves], out=torch.empty(3, dtype=torch.float64, device=lab.device)),
        [1.0, 2.0, 0.5],
    )
    lab.expect(
        "into complex64",
        torch.cat([bytes_, halves], out=torch.empty(3, dtype=torch.complex64, device=lab.device)),
        [1 + 0j, 2, 0.5],
    )
    with lab.documented():
        lab.raises(
            "floats into int64",
            lambda: torch.cat([bytes_, halves], out=torch.empty(3, dtype=torch.int64, device=lab.device)),
            TypeError,
            RuntimeError,
            match="(?i)cast",
        )
    base = lab.put([1.0, 2, 3])
    base[lab.put([0, 2])] = lab.put([7.0, 9])
    with lab.documented():
        lab.expect("assigned by index", base, [7.0, 2, 9])
    base[1] = lab.put(5)
    base[:1] = lab.put([4], dtype=torch.int8)
    lab.expect("assigned of integers", base, [4.0, 5, 9])
    with lab.documented():
        lab.raises(
            "index_put_ of another dtype",
            lambda: base.index_put_((lab.put([0]),), lab.put([1])),
            match="(?i)dtype|type",
        )


@behaviour(
    "promotion",
    dtypes=ANY,
    must_detect=("value",),
    basis="parity",
    ground="No page says how NumPy numbers promote",
)
def sums_with_numpy_numbers(lab: Lab) -> None:
    """NumPy numbers combined with a tensor promote like Python numbers."""
    cases: dict[str, Any] = {
        "int64": numpy.int64(3),
        "float32": numpy.float32(0.5),
        "float64": numpy.float64(0.25),
        "complex128": numpy.complex128(1j),
    }
    for name, number in cases.items():
        for dtype in (torch.int32, torch.float32, torch.complex64):
            result = lab.put([1, 2], dtype=dtype) + number
            lab.same(f"{dtype} + {name}", result)
            lab.same(f"{dtype} * {name}", lab.put([1, 2], dtype=dtype).mul(number))


@behaviour(
    "promotion",
    dtypes=ANY,
    capabilities=("sparse",),
    must_detect=("value",),
    page="sparse.html",
    ground="The page says that sparse layouts do not change the semantics of operators",
)
def mixed_dtypes_of_sparse_tensors(lab: Lab) -> None:
    """Sums, differences, products and quotients of sparse tensors of two dtypes have the dtype and the values
    of the results of dense tensors.
    """
    indices = lab.put([[0, 1, 1], [2, 0, 2]])
    for left, right in itertools.product((torch.int32, torch.int64, torch.float32, torch.float64), repeat=2):
        a = torch.sparse_coo_tensor(indices, lab.put([1, 2, 3], dtype=left), (2, 3)).coalesce()
        b = torch.sparse_coo_tensor(indices, lab.put([4, 5, 6], dtype=right), (2, 3)).coalesce()
        both = torch.promote_types(left, right)
        name = f"{left} and {right}"
        lab.expect(f"sum of {name}", (a + b).to_dense(), [[0, 0, 5], [7, 0, 9]])
        lab.expect(f"difference of {name}", (b - a).to_dense(), [[0, 0, 3], [3, 0, 3]])
        lab.expect(f"product of {name}", (a * b).to_dense(), [[0, 0, 4], [10, 0, 18]])
        lab.expect(f"dtypes of {name}", ((a + b).dtype, (a - b).dtype, (a * b).dtype), (both,) * 3)
        quotient = a / lab.put(2, dtype=right)
        lab.expect(f"quotient of {name}", quotient.to_dense(), [[0, 0, 0.5], [1, 0, 1.5]])
