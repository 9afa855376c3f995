"""List all forms of program steps: a table from the text of a form to its operands and arguments."""

from __future__ import annotations

from conformance.samples.random_programs.step_arguments import (
    FLOATS,
    MASK,
    NUMBERS,
    SAME,
    VALUE,
    Form,
    a_diagonal,
    a_dim,
    a_dim_and_number,
    a_larger_shape,
    a_number,
    a_part,
    a_slice,
    a_stride,
    a_window,
    an_element,
    an_order,
    another_shape,
    dimension_sum_bound,
    matmul_bound,
    no_arguments_of_a_matrix,
    number_bound,
    product_bound,
    sum_bound,
    the_first_dim,
    total_sum_bound,
    two_dims,
)

_LINE, _LINES = (("order", "line"),), (("order", "line"), ("value", "same"))
_INDICES, _SCATTER = (("order", "same"),), (("order", "same"), ("value", "same"))
_TWO = (("value", "same"), ("value", "same"))

_CALLS: dict[str, Form] = {
    "{0} + {1}": Form("call", VALUE, growth=sum_bound, dtypes=NUMBERS),
    "{1} - {0}": Form("call", VALUE, growth=sum_bound, dtypes=NUMBERS),
    "{0} * {1}": Form("call", VALUE, growth=product_bound, dtypes=NUMBERS),
    "torch.add({0}, {1}, alpha=2)": Form("call", VALUE, growth=lambda s, *_: s[0] + 2 * s[1], dtypes=NUMBERS),
    "torch.addcmul({0}, {1}, {2})": Form(
        "call", _TWO, growth=lambda s, *_: s[0] + s[1] * s[2], dtypes=NUMBERS
    ),
    "-{0}": Form("call", dtypes=NUMBERS),
    "{0}.abs()": Form("call", dtypes=NUMBERS),
    "{0}.square()": Form("call", growth=lambda s, *_: s[0] ** 2, dtypes=NUMBERS),
    "torch.relu({0})": Form("call", dtypes=NUMBERS),
    "{0}.clamp(-1, 2)": Form("call", dtypes=NUMBERS),
    "torch.div({0}, 2, rounding_mode='floor')": Form("call", dtypes=NUMBERS),
    "torch.maximum({0}, {1})": Form("call", VALUE),
    "torch.minimum({0}, {1})": Form("call", VALUE),
    "torch.where({1}, {0}, {2})": Form("call", (("mask", "like"), ("value", "like"))),
    "{0}.masked_fill({1}, {2})": Form("call", MASK, a_number, number_bound),
    "{0} > {1}": Form("call", VALUE, dtypes=NUMBERS),
    "{0} == {1}": Form("call", VALUE),
    "torch.logical_xor({0}, {1})": Form("call", VALUE),
    "~{0}": Form("call", dtypes=("int64", "bool"), growth=lambda s, *_: s[0] + 1),
    "{0} | {1}": Form("call", VALUE, dtypes=("bool",)),
    "{0}.any({1})": Form("call", (), a_dim),
    "{0}.all()": Form("call"),
    "{0}.sum()": Form("call", (), growth=total_sum_bound, dtypes=NUMBERS),
    "{0}.sum({1}, keepdim=True)": Form("call", (), a_dim, dimension_sum_bound(0), NUMBERS),
    "{0}.sum({1})": Form("call", (), a_dim, dimension_sum_bound(0), NUMBERS),
    "{0}.amax({1}, keepdim=True)": Form("call", (), a_dim),
    "{0}.amin({1})": Form("call", (), a_dim),
    "{0}.cumsum({1})": Form("call", (), a_dim, dimension_sum_bound(0), NUMBERS),
    "torch.sort({0}, {1}).values": Form("call", (), a_dim, dtypes=NUMBERS),
    "{0}.flip({1})": Form("call", (), a_dim),
    "{0}.roll(1, {1})": Form("call", (), a_dim),
    "{0}.tril()": Form("call", (), no_arguments_of_a_matrix),
    "torch.nn.functional.pad({0}, (1, 0))": Form("call", (), lambda chance, x: the_first_dim(chance, x)[:0]),
    "{0}.clone()": Form("call"),
    "{0}.transpose({1}, {2}).clone()": Form("call", (), two_dims),
    "{0}.repeat({1})": Form("call", (), lambda chance, x: ((2, *(1,) * max(x.dim() - 1, 0)),)),
    "torch.cat([{0}, {1}], {2})": Form("call", SAME, a_dim),
    "torch.stack([{0}, {1}], {2})": Form("call", SAME, lambda chance, x: (chance.randint(0, x.dim()),)),
    "{0}.gather({2}, {1})": Form("call", _INDICES, a_dim),
    "{0}.index_select({2}, {1})": Form("call", _LINE, a_dim),
    "{0}[{1}]": Form("call", _LINE, the_first_dim),
    "{0}.scatter({3}, {1}, {2})": Form("call", _SCATTER, a_dim),
    "{0}.index_add({3}, {1}, {2})": Form("call", _LINES, a_dim, sum_bound, NUMBERS),
    "torch.matmul({0}, {1})": Form("call", (("value", "columns"),), growth=matmul_bound(0), dtypes=FLOATS),
}

_VIEWS: dict[str, Form] = {
    "{0}.transpose({1}, {2})": Form("view", (), two_dims),
    "{0}.permute({1})": Form("view", (), an_order),
    "{0}.narrow({1}, {2}, {3})": Form("view", (), a_part),
    "{0}[{1}::{2}]": Form("view", (), a_slice),
    "{0}[..., {1}::{2}]": Form("view", (), a_slice),
    "{0}.select({1}, {2})": Form("view", (), an_element),
    "{0}.unbind({1})[0]": Form("view", (), a_dim),
    "{0}.split(1, {1})[-1]": Form("view", (), a_dim),
    "{0}.unsqueeze({1})": Form("view", (), lambda chance, x: (chance.randint(0, x.dim()),)),
    "{0}.expand({1})": Form("view", (), a_larger_shape),
    "{0}.view({1})": Form("view", (), another_shape, packed=True),
    "{0}.diagonal({1})": Form("view", (), a_diagonal),
    "{0}.unfold({1}, {2}, {3})": Form("view", (), a_window),
    "{0}.as_strided({1}, {2}, {3})": Form("view", (), a_stride, packed=True),
    "{0}.detach()": Form("view"),
}

_WRITES: dict[str, Form] = {
    "{0}.add_({1})": Form("write", VALUE, growth=sum_bound, dtypes=NUMBERS),
    "{0}.sub_({1})": Form("write", VALUE, growth=sum_bound, dtypes=NUMBERS),
    "{0}.mul_({1})": Form("write", VALUE, growth=product_bound, dtypes=NUMBERS),
    "{0}.mul_(2)": Form("write", growth=lambda s, *_: 2 * s[0], dtypes=NUMBERS),
    "{0}.addcmul_({1}, {2})": Form("write", _TWO, growth=lambda s, *_: s[0] + s[1] * s[2], dtypes=NUMBERS),
    "{0}.neg_()": Form("write", dtypes=NUMBERS),
    "{0}.abs_()": Form("write", dtypes=NUMBERS),
    "{0}.clamp_(-1, 2)": Form("write", growth=number_bound, dtypes=NUMBERS),
    "{0}.logical_not_()": Form("write", growth=number_bound),
    "{0}.logical_and_({1})": Form("write", VALUE, growth=number_bound),
    "{0}.zero_()": Form("write"),
    "{0}.fill_({1})": Form("write", (), a_number, number_bound),
    "{0}.copy_({1})": Form("write", VALUE, elementwise=False),
    "{0}.masked_fill_({1}, {2})": Form("write", MASK, a_number, number_bound, elementwise=False),
    "{0}.scatter_({3}, {1}, {2})": Form("write", _SCATTER, a_dim, elementwise=False),
    "{0}.scatter_add_({3}, {1}, {2})": Form("write", _SCATTER, a_dim, sum_bound, NUMBERS, elementwise=False),
    "{0}.index_copy_({3}, {1}, {2})": Form("write", _LINES, a_dim, elementwise=False),
    "{0}.index_fill_({2}, {1}, {3})": Form("write", _LINE, a_dim_and_number, number_bound),
    "{0}.index_add_({3}, {1}, {2})": Form("write", _LINES, a_dim, sum_bound, NUMBERS, elementwise=False),
    "{0}.index_put_(({1},), {2})": Form("write", _LINES, the_first_dim, elementwise=False),
    "{0}.tril_()": Form("write", (), no_arguments_of_a_matrix),
    "torch.add({1}, {2}, out={0})": Form("write", _TWO, growth=lambda s, *_: s[1] + s[2], dtypes=NUMBERS),
    "torch.maximum({1}, {2}, out={0})": Form("write", _TWO),
    "torch.cumsum({1}, {2}, out={0})": Form(
        "write", SAME, a_dim, dimension_sum_bound(1), NUMBERS, elementwise=False
    ),
    "torch.where({1}, {2}, {3}, out={0})": Form("write", (("mask", "same"), *_TWO), elementwise=False),
}

FORMS: dict[str, Form] = {**_CALLS, **_VIEWS, **_WRITES}


def form_texts(kind: str, dtype: str) -> list[str]:
    """Return the texts of all forms of a kind (call, view or write) that support a dtype."""
    return [text for text, form in FORMS.items() if form.kind == kind and dtype in form.dtypes]
