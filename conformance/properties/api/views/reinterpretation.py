"""Check views of the same memory as another dtype, as a conjugate or as a negative, and the ``*_copy``
functions.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch

from conformance.behaviours.behaviour import ALL, COMPLEX, behaviour
from conformance.behaviours.lab import Lab

_NARROW_DTYPES = {1: ("int8", "uint8", "bool"), 2: ("int16", "float16", "bfloat16"), 4: ("int32", "float32")}
_WIDE_DTYPES = {8: ("int64", "float64", "complex64")}


@behaviour(
    "views",
    dtypes=ALL,
    level="core",
    must_detect=("value", "alias"),
    capabilities=("storage", "strides"),
    page="generated/torch.Tensor.view.html",
)
def views_of_another_dtype(lab: Lab) -> None:
    """``view(dtype)`` shares the memory of the tensor. If the element size is equal, the shape and strides
    are equal too. A smaller element size lengthens the last dimension, and a larger element size shortens it.
    Viewing the result in the original dtype restores the tensor.
    """
    base = lab.integers(2, 4, low=0, high=2)
    size = base.element_size()
    dtypes_by_size = {**_NARROW_DTYPES, **_WIDE_DTYPES}
    for other_size, names in dtypes_by_size.items():
        for name in names:
            if not lab.target.declares(name) or (other_size > size and base.shape[1] * size % other_size):
                continue
            view = base.view(getattr(torch, name))
            lab.shares(f"{name} and the base", base, view)
            lab.same(f"shape and strides viewed as {name}", (list(view.shape), lab.strides(view)))
            lab.expect(f"length as {name}", view.shape[-1], base.shape[-1] * size // other_size)
            lab.same(f"viewed as {name} and back", view.view(lab.dtype), strides=True)
    view = base[1].view(torch.uint8)
    lab.same("offset of the bytes of a row", view.storage_offset())
    with (
        lab.parity("No page says which byte stores True")
        if lab.dtype == torch.bool
        else contextlib.nullcontext()
    ):
        lab.same("bytes of a row at an offset", view)
    bytes_of = base.view(torch.uint8)
    bytes_of.zero_()
    lab.same("base after its bytes were zeroed", base)
    lab.holds(
        "a view of the same dtype shares the memory", base.view(lab.dtype).data_ptr() == base.data_ptr()
    )


@behaviour("views", must_detect=("error", "message"), page="generated/torch.Tensor.view.html")
def views_of_a_larger_dtype_need_room(lab: Lab) -> None:
    """``view(dtype)`` to a dtype with larger elements raises an error if the last dimension is not
    contiguous. It also raises an error if the last size, the offset or another stride is not divisible by the
    ratio of the element sizes. A dimensionless tensor cannot be viewed as a dtype of another element size.
    """
    base = lab.integers(4, 6, dtype=torch.int16)
    lab.raises("5 elements", lambda: base[:, :5].view(torch.int32), match="(?i)divisible")
    if lab.target.capable("strides"):
        lab.raises("an odd offset", lambda: base.view(-1)[1:5].view(torch.int32), match="(?i)divisible")
        lab.raises("a transposed matrix", lambda: base.t().view(torch.int32), match="(?i)stride")
        lab.raises(
            "odd rows",
            lambda: lab.integers(4, 5, dtype=torch.int16)[:, :4].view(torch.int32),
            match="(?i)divisible",
        )
        lab.raises(
            "a transposed matrix viewed as a smaller dtype",
            lambda: base.t().view(torch.int8),
            match="(?i)stride",
        )
    scalar = lab.put(3, dtype=torch.int16)
    lab.raises("no dimensions to smaller", lambda: scalar.view(torch.int8), match="(?i)dim")
    lab.raises("no dimensions to larger", lambda: scalar.view(torch.int32), match="(?i)dim")
    lab.expect(
        "a dimensionless tensor viewed as a dtype of the same size",
        scalar.view(torch.float16).view(torch.int16),
        3,
    )


@behaviour(
    "views",
    dtypes=COMPLEX,
    level="core",
    capabilities=("conj_neg_views",),
    must_detect=("value", "alias"),
    page="complex_numbers.html",
)
def parts_of_complex_tensors(lab: Lab) -> None:
    """``view_as_real``, ``view_as_complex``, ``real`` and ``imag`` return views. A write to such a view
    changes the complex tensor.
    """
    base = lab.integers(3, 2)
    pairs = torch.view_as_real(base)
    lab.same("view_as_real", pairs, strides=True)
    lab.shares("view_as_real and its base", base, pairs)
    pairs[0, 1, 1] = 9
    lab.same("base after a write to its view_as_real", base)
    back: Any = torch.view_as_complex(pairs)
    lab.same("view_as_complex", back, strides=True)
    lab.shares("view_as_complex and its base", pairs, back)
    back[2] = 1 - 1j
    lab.same("view_as_real after a write to its view_as_complex", pairs)
    for name, part in {"real": base.real, "imag": base.imag}.items():
        lab.same(name, part, strides=True)
        lab.shares(f"{name} and its base", base, part)
        part.fill_(5)
        lab.same(f"base after a write to {name}", base)
    lab.same("imag of a column", base[:, 1].imag, strides=True)


@behaviour(
    "views",
    dtypes=COMPLEX,
    capabilities=("conj_neg_views",),
    must_detect=("value",),
    page="generated/torch.Tensor.imag.html",
    basis="consistency",
    ground="the assigned part must agree with the values of the tensor and its conjugate afterwards",
)
def setting_parts_of_complex_tensors(lab: Lab) -> None:
    """Assignment to ``real`` or ``imag`` sets this part of a complex tensor. This also holds for a lazy
    conjugate, whose imaginary part is negated in memory.
    """
    base: Any = lab.integers(4)
    base.real = lab.put([1.0, 2, 3, 4])
    base.imag = lab.put([5.0, 6, 7, 8])
    lab.expect("both parts", base, [1 + 5j, 2 + 6j, 3 + 7j, 4 + 8j])
    base.imag = 0
    base.real = -1
    lab.expect("numbers", base, [-1 + 0j] * 4)
    lazy = base.conj()
    lazy.imag = lab.put([1.0, 2, 3, 4])
    lab.expect("the conjugate", lazy.resolve_conj(), [-1 + 1j, -1 + 2j, -1 + 3j, -1 + 4j])
    lab.expect("its base", base, [-1 - 1j, -1 - 2j, -1 - 3j, -1 - 4j])


@behaviour(
    "views",
    dtypes=COMPLEX,
    level="core",
    capabilities=("conj_neg_views",),
    must_detect=("value", "alias"),
    page="generated/torch.conj.html",
)
def lazy_conjugates(lab: Lab) -> None:
    """``conj`` returns a view with the conjugate bit. The imaginary part of this view has the negative bit.
    ``resolve_conj`` copies a conjugate view, ``conj`` twice clears the bit, and ``conj_physical`` copies.
    """
    base = lab.integers(3, 2)
    lazy = base.conj()
    lab.shares("conj and its base", base, lazy)
    lab.expect(
        "bits",
        (base.is_conj(), lazy.is_conj(), lazy.conj().is_conj(), lazy.imag.is_neg()),
        (False, True, False, True),
    )
    lab.same("values", lazy)
    lab.same("imag of the conjugate", lazy.imag)
    lab.same("imag resolved", lazy.imag.resolve_neg())
    resolved = lazy.resolve_conj()
    lab.apart("resolve_conj and the base", base, resolved)
    lab.expect("bit after resolve_conj", resolved.is_conj(), False)
    lab.same("resolved", resolved)
    lab.holds("resolve_conj without a conjugate bit returns the tensor", base.resolve_conj() is base)
    lab.apart("conj_physical and the base", base, base.conj_physical())
    lab.same("conj_physical", torch.conj_physical(base))
    lazy.add_(1 + 2j)
    lab.same("base after a sum into the conjugate", base)
    lazy[0].copy_(lab.integers(2))
    lab.same("base after a copy into the conjugate", base)
    lab.same("rows of conjugates", torch.cat([base.conj(), lazy]))


@behaviour(
    "views", dtypes=("float32", "int64", "bool"), must_detect=("error",), page="generated/torch.imag.html"
)
def real_numbers_have_no_imaginary_part(lab: Lab) -> None:
    """``real`` and ``conj`` of a real tensor return the tensor itself. ``imag`` and ``view_as_real`` of a
    real tensor raise an error. ``view_as_complex`` raises an error unless the last dimension has size 2 and
    is contiguous.
    """
    base = lab.integers(3, 2)
    with lab.parity("The page promises a tensor of the same storage, not the tensor itself"):
        lab.holds("real is the tensor", base.real is base)
    lab.holds("conj is the tensor", base.conj() is base)
    lab.holds("resolve_conj is the tensor", base.resolve_conj() is base)
    lab.expect("bits", (base.is_conj(), base.is_neg()), (False, False))
    lab.same("conj_physical", base.conj_physical())
    lab.raises("imag", lambda: base.imag, match="(?i)imag")
    lab.raises("view_as_real", lambda: torch.view_as_real(base), match="(?i)complex")
    if not lab.target.declares("complex64"):
        return
    if not base.is_floating_point():
        lab.raises("view_as_complex", lambda: torch.view_as_complex(base))
    else:
        lab.raises(
            "view_as_complex of threes", lambda: torch.view_as_complex(lab.integers(2, 3)), match="(?i)size 2"
        )
        if lab.target.capable("strides"):
            lab.raises(
                "view_as_complex of a transpose", lambda: torch.view_as_complex(lab.integers(2, 4).t())
            )
        lab.raises("view_as_complex of no dimension", lambda: torch.view_as_complex(lab.put(1.0)))


@behaviour(
    "views",
    dtypes=COMPLEX,
    capabilities=("conj_neg_views",),
    must_detect=("error",),
    page="generated/torch.Tensor.numpy.html",
)
def lazy_bits_and_numpy(lab: Lab) -> None:
    """``numpy()`` of a tensor with a lazy conjugate or negative bit raises an error. After ``resolve_conj``
    or ``resolve_neg``, or with ``force=True``, it returns the array.
    """
    base = lab.integers(3)
    host = base.cpu()
    lab.raises("numpy of a conjugate", lambda: host.conj().numpy(), match="(?i)conj")
    with lab.parity("The page names the conjugate bit, but not the negative bit, as an obstacle"):
        lab.raises("numpy of a negative view", lambda: host.conj().imag.numpy(), match="(?i)neg")
    lab.same("resolved", base.conj().resolve_conj().cpu().numpy(), host=True)
    lab.same("resolved negative", base.conj().imag.resolve_neg().cpu().numpy(), host=True)
    lab.same("numpy by force", base.conj().numpy(force=True), host=True)


_COPIES: dict[str, Callable[..., torch.Tensor]] = {
    "view_copy": lambda x, **o: torch.view_copy(x, (4, 3), **o),
    "transpose_copy": lambda x, **o: torch.transpose_copy(x, 0, 1, **o),
    "t_copy": lambda x, **o: torch.t_copy(x, **o),
    "select_copy": lambda x, **o: torch.select_copy(x, 0, 1, **o),
    "slice_copy": lambda x, **o: torch.slice_copy(x, 1, 0, 4, 2, **o),
    "permute_copy": lambda x, **o: torch.permute_copy(x, (1, 0), **o),
    "diagonal_copy": lambda x, **o: torch.diagonal_copy(x, 1, **o),
    "expand_copy": lambda x, **o: torch.expand_copy(x, (2, 3, 4), **o),
    "unsqueeze_copy": lambda x, **o: torch.unsqueeze_copy(x, 1, **o),
    "as_strided_copy": lambda x, **o: torch.as_strided_copy(x, (2, 3), (1, 4), **o),
    "unfold_copy": lambda x, **o: torch.unfold_copy(x, 1, 2, 2, **o),
}


@behaviour(
    "views",
    dtypes=("float32", "int64"),
    level="core",
    must_detect=("value",),
    page="generated/torch.view_copy.html",
)
def copying_twins_of_views(lab: Lab) -> None:
    """The ``*_copy`` functions return the values of the corresponding views in new, contiguous memory. With
    ``out=``, they write into ``out=`` and return it.
    """
    base = lab.integers(3, 4)
    for name, function in _COPIES.items():
        copy = function(base)
        lab.apart(f"{name} and its base", base, copy)
        lab.same(name, copy)
        with lab.parity("No page says that the copies are contiguous"):
            lab.holds(f"{name} is contiguous", copy.is_contiguous())
        out = torch.empty(0, dtype=base.dtype, device=base.device)
        lab.holds(f"{name} returns out", function(base, out=out) is out)
        lab.same(f"{name} with out", out)
        copy.fill_(7)
    in_parts: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
        "split_copy": (torch.split_copy, (2, 1)),
        "unbind_copy": (torch.unbind_copy, (1,)),
        "split_with_sizes_copy": (torch.split_with_sizes_copy, ([1, 3], 1)),
    }
    for name, (function, arguments) in in_parts.items():
        parts = function(base, *arguments)
        lab.same(name, list(parts))
        for part in parts:
            lab.apart(f"a part of {name} and its base", base, part)
    outs = [torch.empty(3, 2, dtype=base.dtype, device=base.device) for _ in range(2)]
    torch.split_copy(base, 2, 1, out=outs)
    lab.same("split_copy with out", outs)
    lab.same("base", base)
