"""Check attributes, types and equality of tensors, and conversions to Python numbers, subclasses and
pickles.
"""

from __future__ import annotations

import operator
import pickle
import warnings
from typing import Any

import torch

from conformance.behaviours.behaviour import ALL, FLOATS, INTEGERS, behaviour
from conformance.behaviours.lab import Lab


@behaviour(
    "tensor",
    dtypes=ALL,
    level="bringup",
    must_detect=("shape", "dtype"),
    capabilities=("strides",),
    page="tensor_attributes.html",
)
def tensor_facts(lab: Lab) -> None:
    """Shape, strides, number of elements and bytes, dtype and device of a tensor match the arguments that
    created it.
    """
    for shape in ((), (0,), (4,), (2, 0, 3), (2, 3, 4)):
        tensor = lab.integers(*shape)
        item = tensor.element_size()
        lab.same(f"{shape}", [tensor.shape, tensor.size(), lab.strides(tensor), tensor.dtype, tensor.layout])
        lab.same(
            f"{shape} counted",
            [tensor.dim(), tensor.ndim, tensor.numel(), tensor.nelement(), torch.numel(tensor)],
        )
        lab.same(f"{shape} in bytes", [item, tensor.itemsize, tensor.nbytes, tensor.numel() * item])
        lab.same(
            f"{shape} elsewhere",
            [tensor.is_contiguous(), tensor.storage_offset(), tensor.is_leaf, tensor.requires_grad],
        )
        lab.same(
            f"the kinds of {shape}", [tensor.is_floating_point(), tensor.is_complex(), tensor.is_signed()]
        )
        lab.same(
            f"flags of a plain tensor, {shape}",
            [tensor.is_sparse, tensor.is_quantized, tensor.is_meta, tensor.is_nested],
        )
        lab.holds(f"{shape} is on the device", tensor.device.type == lab.device.type)
        lab.holds(
            "get_device returns the index of the device",
            lab.device.type == "cpu" or tensor.get_device() == tensor.device.index,
        )
    grown = torch.cat((lab.integers(2, 3), lab.integers(1, 3)))
    lab.same("after an operator", [grown.shape, grown.dtype, grown.numel(), grown.nbytes])
    part = lab.integers(4, 6)[1:3, ::2]
    lab.same(
        "of a part", [part.shape, lab.strides(part), part.storage_offset(), part.nbytes, part.is_contiguous()]
    )
    lab.same("sizes one by one", [part.size(0), part.size(-1), part.stride(0), part.stride(-1)])
    with lab.parity("No page says that a dimension out of range is refused"):
        lab.raises("a size too far", lambda: part.size(2), IndexError, match="(?i)dimension out of range")
        lab.raises(
            "a stride too far", lambda: part.stride(-3), IndexError, match="(?i)dimension out of range"
        )
    lab.same("the order of dimensions", [part.dim_order(), part.t().dim_order(), lab.integers().dim_order()])


@behaviour(
    "tensor",
    dtypes=ALL,
    level="bringup",
    must_detect=("value", "error"),
    page="generated/torch.Tensor.item.html",
)
def python_numbers(lab: Lab) -> None:
    """``item``, ``tolist``, ``bool``, ``int``, ``float`` and ``complex`` convert a tensor with one element to
    a Python number. All except ``tolist`` raise an error for tensors with any other number of elements.
    """
    number = lab.put(1, dtype=lab.dtype)
    lab.expect("item of a scalar", number.item(), 1)
    lab.same("its type", type(number.item()))
    lab.expect("item of one element", (number + 0).reshape(1, 1, 1).item(), 1)
    lab.expect("bool", bool(number.clone()), True)
    lab.expect("bool of none", bool(lab.put(0, dtype=lab.dtype).clone()), False)
    if not lab.dtype.is_complex:
        lab.expect("float", float(number.clone()), 1.0)
        lab.expect("int", int(number.clone()), 1)
    lab.expect("complex", complex(number.clone()), 1 + 0j)
    rows = lab.put([[0, 1], [1, 1]], dtype=lab.dtype)
    lab.expect("tolist", (rows + 0).tolist(), [[0, 1], [1, 1]])
    lab.expect("tolist of a transposed part", rows.t()[0].clone().tolist(), [0, 1])
    lab.expect("tolist of nothing", rows[:0].tolist(), [])
    lab.expect("tolist of a scalar", number.clone().tolist(), 1)
    lab.raises("item of two", lambda: rows[0].item(), RuntimeError, match="cannot be converted to Scalar")
    lab.raises("item of none", lambda: rows[:0].item(), RuntimeError, match="cannot be converted to Scalar")
    with lab.parity(
        "No page says that bool of several elements is refused; only is_nonzero documents an error"
    ):
        lab.raises("bool of two", lambda: bool(rows[0]), RuntimeError, match="ambiguous")
    with lab.parity("No page says that bool of no elements is refused; only is_nonzero documents an error"):
        lab.raises("bool of none", lambda: bool(rows[:0]), RuntimeError, match="ambiguous")
    with lab.parity("No page says that float of several elements is refused"):
        lab.raises("float of two", lambda: float(rows[0]), RuntimeError, ValueError)
    lab.expect("is_nonzero", torch.is_nonzero(number.clone()), True)
    lab.raises(
        "is_nonzero of two",
        lambda: torch.is_nonzero(rows[0]),
        RuntimeError,
        match="ambiguous",
        type_is_documented=True,
        text_is_documented=True,
    )
    if not (lab.dtype.is_floating_point or lab.dtype.is_complex):
        with lab.parity("No page says that a tensor can be a Python index"):
            lab.expect("as an index", operator.index(number.clone()), 1)
        with lab.parity("No page says that a tensor can be a bound of range"):
            lab.expect(
                "in a range", list(range(number.clone() + number)), list(range(int((number + number).item())))
            )
    else:
        with lab.parity("No page says that a floating tensor is refused as an index"):
            lab.raises(
                "a float tensor as a Python index",
                lambda: operator.index(number),
                TypeError,
                match="only integer tensors",
            )


@behaviour(
    "tensor",
    level="core",
    must_detect=("value", "warning"),
    capabilities=("autograd",),
    page="generated/torch.Tensor.item.html",
    ground="The pages of item and tolist demand no detach; no page describes float",
)
def numbers_and_gradients(lab: Lab) -> None:
    """A tensor that requires grad can be converted to a Python number. ``item`` does not warn, and ``float``
    warns.
    """
    grown = lab.put([2.0], requires_grad=True)
    lab.expect("item", lab.silent("item", (grown * 1).item), 2.0)
    lab.expect("tolist", (grown * 1).tolist(), [2.0])
    lab.expect("detached", float((grown * 1).detach()), 2.0)
    result = lab.warns("float", lambda: float(grown * 1), match="requires_grad")
    lab.expect("float", result, 2.0)


@behaviour(
    "tensor",
    level="core",
    dtypes=(*FLOATS, *INTEGERS),
    must_detect=("value", "error"),
    basis="consistency",
    ground="iterated rows must agree with indexed rows, and membership with comparison of elements",
)
def iteration_and_membership(lab: Lab) -> None:
    """Iteration over a tensor runs over its first dimension, also reversed. ``in`` tests whether a number is
    one of the elements.
    """
    rows = lab.put([[1, 2], [3, 4], [5, 6]], dtype=lab.dtype)
    lab.expect("length", len(rows), 3)
    lab.same("iterated", [row.clone() for row in rows])
    lab.expect("unpacked", [pair.clone().tolist() for pair in rows], [[1, 2], [3, 4], [5, 6]])
    lab.expect("reversed", reversed(rows), [[5, 6], [3, 4], [1, 2]])
    lab.expect("the others with it", [3 in rows, 7 in rows, rows[0] in rows], [True, False, True])
    with lab.parity("No page says that a string is refused"):
        lab.raises("a string in it", lambda: "a" in rows, RuntimeError)
    with lab.parity("No page says that a tensor without dimensions cannot be iterated"):
        lab.raises("iterating a scalar", lambda: list(rows[0, 0]), TypeError, match="0-d")
    with lab.parity("No page says that a tensor without dimensions has no length"):
        lab.raises("the length of a scalar", lambda: len(rows[0, 0]), TypeError, match="0-d")
    lab.expect("enumerated", [index for index, _ in enumerate(rows)], [0, 1, 2])
    empty = rows[:0]
    lab.expect("nothing", [list(empty), len(empty)], [[], 0])
    first, second, third = rows
    lab.shares("a tensor and an iterated row", rows, second)
    lab.same("three", [first + 0, third + 0])
    lab.same("a set of hashes", len({first, first, second}))


@behaviour("tensor", dtypes=ALL, level="core", must_detect=("value",), page="generated/torch.equal.html")
def whole_equality(lab: Lab) -> None:
    """``torch.equal`` compares shapes and values. ``is_same_size`` compares only the sizes."""
    a = lab.integers(3, 4)
    lab.expect("itself", torch.equal(a, a), True)
    lab.expect("a copy", [torch.equal(a, a + 0), a.clone().equal(a)], [True, True])
    copied = a.clone()
    copied[1, 2] = 1 - copied[1, 2] if lab.dtype != torch.bool else ~copied[1, 2]
    lab.expect("one element off", [torch.equal(a, copied), torch.equal(copied, a)], [False, False])
    lab.expect("another shape", torch.equal(a, a.reshape(4, 3)), False)
    lab.expect("other strides", torch.equal(a, a.t().clone().t()), True)
    lab.expect("parts", torch.equal(a[:, ::2], a.clone()[:, ::2]), True)
    lab.expect("nothing", [torch.equal(a[:0], a[:0]), torch.equal(a[:0], a)], [True, False])
    lab.expect("scalars", torch.equal(a[0, 0], a[0, 0].clone()), True)
    if lab.dtype.is_floating_point or lab.dtype.is_complex:
        undefined = torch.full((2,), float("nan"), dtype=lab.dtype, device=lab.device)
        lab.expect("NaN", torch.equal(undefined, undefined.clone()), False)
    with lab.parity("is_same_size is undocumented"):
        lab.expect("sizes", [a.is_same_size(copied), a.is_same_size(a.t())], [True, False])
    elementwise = (a == copied).sum()
    lab.expect("all but one", elementwise, 11)


@behaviour("tensor", must_detect=("dtype", "error"), page="generated/torch.Tensor.type.html")
def type_words(lab: Lab) -> None:
    """``type()``, the conversion methods (such as ``float`` and ``long``) and the ``is_*`` functions agree
    about the dtype of a tensor.
    """
    base = lab.floats(2, 2)
    conversions = (
        "float",
        "double",
        "half",
        "bfloat16",
        "int",
        "long",
        "short",
        "char",
        "byte",
        "bool",
        "cfloat",
        "cdouble",
    )
    for method_name in conversions:
        converted = getattr(base, method_name)()
        lab.same(f"{method_name}()", [converted.dtype, converted.shape])
        lab.same(f"type after {method_name}()", converted.type().rsplit(".", 1)[1])
    lab.same("type(dtype)", base.type(torch.float64))
    lab.same("type(word)", base.type(torch.int32).dtype)
    lab.holds("the same type is the tensor itself", base.type(base.dtype) is base)
    lab.holds("float of float is the tensor itself", base.float() is base)
    lab.holds(
        "the tensor is an instance of torch.Tensor", isinstance(base, torch.Tensor) and torch.is_tensor(base)
    )
    lab.holds("type names the dtype", base.type().endswith("FloatTensor"))
    lab.same("type_as", base.double().type_as(base))
    with lab.parity("No page says that an unknown name is refused"):
        lab.raises(
            "an unknown type", lambda: base.type("torch.NoSuchTensor"), ValueError, match="invalid type"
        )
    with lab.parity("No page says that a number is refused as dtype"):
        lab.raises("a number as dtype", lambda: base.to(dtype=3), TypeError)  # type: ignore[call-overload]
    for dtype in (torch.float32, torch.int64, torch.bool, torch.uint8, torch.complex64):
        zeros = torch.zeros(1, dtype=dtype, device=lab.device)
        lab.same(
            f"predicates of {dtype}",
            [torch.is_floating_point(zeros), torch.is_complex(zeros), zeros.is_signed()],
        )


@behaviour(
    "tensor",
    must_detect=("value", "alias", "error"),
    dtypes=("complex64", "complex128"),
    page="complex_numbers.html",
)
def complex_parts(lab: Lab) -> None:
    """``real`` and ``imag`` of a complex tensor are views that can be written. Numbers and tensors can be
    assigned to them.
    """
    base: Any = lab.integers(2, 3)
    lab.same("parts", [base.real.clone(), base.imag.clone()])
    lab.shares("a tensor and its imaginary part", base, base.imag)
    base.real = 3
    base.imag = lab.integers(2, 3, dtype=base.imag.dtype)
    with lab.consistent("the values assigned to a part must agree with the values read from this part"):
        lab.same("after both were set", base)
    base.imag[0] = 0
    lab.same("after a row was", base)
    lab.same("conj and back", base.conj().conj())
    lab.expect("conjugate numbers", lab.put([1 + 2j, -3j], dtype=lab.dtype).conj().tolist(), [1 - 2j, 3j])
    lab.expect("imaginary parts of those", lab.put([1 + 2j], dtype=lab.dtype).conj().imag.tolist(), [-2.0])
    lab.same("as pairs", torch.view_as_real(base + 0))
    real_tensor = lab.floats(2, dtype=torch.float32)
    lab.raises("imag of a real tensor", lambda: real_tensor.imag, match="imag is not implemented")
    lab.holds(
        "real of a real tensor equals the tensor",
        real_tensor.real is real_tensor or torch.equal(real_tensor.real, real_tensor),
    )


@behaviour("tensor", level="core", must_detect=("value", "shape"), page="generated/torch.where.html")
def where_of_numbers(lab: Lab) -> None:
    """``torch.where`` accepts numbers and dimensionless tensors. The result dtype is promoted as in
    arithmetic.
    """
    condition = lab.put([[True, False], [False, True]])
    x = lab.put([[1.0, 2.0], [3.0, 4.0]])
    lab.expect("a number for a false condition", torch.where(condition, x, 0), [[1.0, 0.0], [0.0, 4.0]])
    lab.expect("a number for a true condition", torch.where(condition, 5.5, x), [[5.5, 2.0], [3.0, 5.5]])
    with lab.parity("No page says which dtype torch.where returns for two integers"):
        lab.same("two numbers", torch.where(condition, 1, 0))
    lab.same("two floats", torch.where(condition, 1.0, -1.0))
    with lab.parity("No page says which dtype torch.where returns for operands of different dtypes"):
        lab.same("an integer and a float", torch.where(condition, 1, 0.5))
        lab.same("a complex one", torch.where(condition, x, 1j))
        lab.same(
            "a scalar tensor",
            torch.where(condition, x, torch.tensor(7.0, dtype=torch.float64, device=lab.device)),
        )
    lab.same("a condition of no dimensions", torch.where(condition[0, 0], x, -x))
    lab.same("broadcast", torch.where(condition[:, :1], x, x[0]))
    lab.same("special values", torch.where(condition, float("inf"), float("nan")))
    if lab.target.capable("data_dependent_shapes"):
        lab.same("places", list(torch.where(condition)))
    with lab.parity("The page describes a BoolTensor, but does not say that other dtypes are refused"):
        lab.raises("a condition of floats", lambda: torch.where(x, x, x), RuntimeError)


class PlainSubclass(torch.Tensor):
    """A tensor subclass without attributes or overrides."""


@behaviour(
    "tensor",
    capabilities=("autograd",),
    must_detect=("value",),
    page="generated/torch.Tensor.as_subclass.html",
)
def plain_subclasses(lab: Lab) -> None:
    """``as_subclass`` returns a view of the tensor as a subclass. Operators, views, copies and methods
    preserve the class.
    """
    base = lab.integers(2, 3)
    marked = base.as_subclass(PlainSubclass)
    lab.shares("a tensor and its subclass", base, marked)
    lab.holds("as_subclass returns the class", type(marked) is PlainSubclass)
    for name, result in {
        "sum": marked + 1,
        "other": 1 + marked,
        "row": marked[0],
        "view": marked.view(3, 2),
        "clone": marked.clone(),
        "cast": marked.double(),
        "copy": marked.to(lab.device, copy=True),
    }.items():
        lab.holds(f"{name} has the subclass", type(result) is PlainSubclass)
        lab.same(name, result.as_subclass(torch.Tensor))
    lab.holds(
        "as_subclass(torch.Tensor) returns a plain tensor",
        type(marked.as_subclass(torch.Tensor)) is torch.Tensor,
    )
    leaf = lab.floats(3, requires_grad=True)
    (leaf.as_subclass(PlainSubclass) * 2).sum().backward()
    lab.same("gradients", leaf.grad)
    lab.holds("the subclass can be constructed", type(PlainSubclass([1.0, 2.0])) is PlainSubclass)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with lab.parity("No page fixes the text of repr"):
            lab.holds("repr names the subclass", repr(marked).startswith("PlainSubclass("))


@behaviour(
    "tensor",
    must_detect=("value",),
    page="notes/randomness.html",
    basis="consistency",
    ground="the same seed must give the same numbers with and without the call after seeding",
)
def random_state_after_pickling(lab: Lab) -> None:
    """Copies to the CPU, pickling, printing and deterministic operators draw no random numbers. After the
    random state of the CPU is restored, the next draw of one normal number is the same again.
    """

    def draws_before_and_after(call: Any) -> torch.Tensor:
        torch.manual_seed(17)
        first = torch.randn(5, device=lab.device)
        call(first)
        return torch.cat((first, torch.randn(5, device=lab.device)))

    undisturbed = draws_before_and_after(lambda tensor: None)
    calls: dict[str, Any] = {
        "pickling": lambda tensor: pickle.loads(pickle.dumps(tensor)),
        "printing": repr,
        "moving": lambda tensor: tensor.cpu().to(lab.device),
        "arithmetic": lambda tensor: (tensor @ tensor) + tensor.sort().values.sum(),
        "factories": lambda tensor: (
            torch.zeros(3, device=lab.device) + torch.empty(3, device=lab.device).zero_()
        ),
    }
    for name, call in calls.items():
        lab.holds(f"{name} draws no random numbers", torch.equal(undisturbed, draws_before_and_after(call)))
    torch.manual_seed(17)
    state = torch.get_rng_state()
    odd = torch.randn(1)
    torch.set_rng_state(state)
    with lab.documented():
        lab.holds(
            "a restored CPU state repeats the draw of one normal number", torch.equal(odd, torch.randn(1))
        )
    lab.same("a result after the draws", lab.integers(3) + 1)
