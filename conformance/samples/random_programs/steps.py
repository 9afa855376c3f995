"""List all forms of program steps: a table from the text of a form to its operands and arguments."""

from __future__ import annotations

from conformance.samples.random_programs.step_arguments import (
    FLOATS,
    MASK,
    NUMBERS,
    SAME,
    VALUE,
    StepForm,
    choose_as_strided,
    choose_diagonal,
    choose_dim,
    choose_dim_and_number,
    choose_dimension_zero,
    choose_expanded_shape,
    choose_narrow,
    choose_number,
    choose_permutation,
    choose_reshaped_shape,
    choose_select,
    choose_slice,
    choose_two_dims,
    choose_unfold,
    dimension_sum_bound,
    matmul_bound,
    number_bound,
    product_bound,
    require_matrix,
    sum_bound,
    total_sum_bound,
)

_LINE, _LINES = (("order", "line"),), (("order", "line"), ("value", "same"))
_INDICES, _SCATTER = (("order", "same"),), (("order", "same"), ("value", "same"))
_TWO = (("value", "same"), ("value", "same"))

_CALLS: dict[str, StepForm] = {
    "{0} + {1}": StepForm("call", VALUE, growth=sum_bound, dtypes=NUMBERS),
    "{1} - {0}": StepForm("call", VALUE, growth=sum_bound, dtypes=NUMBERS),
    "{0} * {1}": StepForm("call", VALUE, growth=product_bound, dtypes=NUMBERS),
    "torch.add({0}, {1}, alpha=2)": StepForm(
        "call", VALUE, growth=lambda s, *_: s[0] + 2 * s[1], dtypes=NUMBERS
    ),
    "torch.addcmul({0}, {1}, {2})": StepForm(
        "call", _TWO, growth=lambda s, *_: s[0] + s[1] * s[2], dtypes=NUMBERS
    ),
    "-{0}": StepForm("call", dtypes=NUMBERS),
    "{0}.abs()": StepForm("call", dtypes=NUMBERS),
    "{0}.square()": StepForm("call", growth=lambda s, *_: s[0] ** 2, dtypes=NUMBERS),
    "torch.relu({0})": StepForm("call", dtypes=NUMBERS),
    "{0}.clamp(-1, 2)": StepForm("call", dtypes=NUMBERS),
    "torch.div({0}, 2, rounding_mode='floor')": StepForm("call", dtypes=NUMBERS),
    "torch.maximum({0}, {1})": StepForm("call", VALUE),
    "torch.minimum({0}, {1})": StepForm("call", VALUE),
    "torch.where({1}, {0}, {2})": StepForm("call", (("mask", "like"), ("value", "like"))),
    "{0}.masked_fill({1}, {2})": StepForm("call", MASK, choose_number, number_bound),
    "{0} > {1}": StepForm("call", VALUE, dtypes=NUMBERS),
    "{0} == {1}": StepForm("call", VALUE),
    "torch.logical_xor({0}, {1})": StepForm("call", VALUE),
    "~{0}": StepForm("call", dtypes=("int64", "bool"), growth=lambda s, *_: s[0] + 1),
    "{0} | {1}": StepForm("call", VALUE, dtypes=("bool",)),
    "{0}.any({1})": StepForm("call", (), choose_dim),
    "{0}.all()": StepForm("call"),
    "{0}.sum()": StepForm("call", (), growth=total_sum_bound, dtypes=NUMBERS),
    "{0}.sum({1}, keepdim=True)": StepForm("call", (), choose_dim, dimension_sum_bound(0), NUMBERS),
    "{0}.sum({1})": StepForm("call", (), choose_dim, dimension_sum_bound(0), NUMBERS),
    "{0}.amax({1}, keepdim=True)": StepForm("call", (), choose_dim),
    "{0}.amin({1})": StepForm("call", (), choose_dim),
    "{0}.cumsum({1})": StepForm("call", (), choose_dim, dimension_sum_bound(0), NUMBERS),
    "torch.sort({0}, {1}).values": StepForm("call", (), choose_dim, dtypes=NUMBERS),
    "{0}.flip({1})": StepForm("call", (), choose_dim),
    "{0}.roll(1, {1})": StepForm("call", (), choose_dim),
    "{0}.tril()": StepForm("call", (), require_matrix),
    "torch.nn.functional.pad({0}, (1, 0))": StepForm(
        "call", (), lambda chance, x: choose_dimension_zero(chance, x)[:0]
    ),
    "{0}.clone()": StepForm("call"),
    "{0}.transpose({1}, {2}).clone()": StepForm("call", (), choose_two_dims),
    "{0}.repeat({1})": StepForm("call", (), lambda chance, x: ((2, *(1,) * max(x.dim() - 1, 0)),)),
    "torch.cat([{0}, {1}], {2})": StepForm("call", SAME, choose_dim),
    "torch.stack([{0}, {1}], {2})": StepForm("call", SAME, lambda chance, x: (chance.randint(0, x.dim()),)),
    "{0}.gather({2}, {1})": StepForm("call", _INDICES, choose_dim),
    "{0}.index_select({2}, {1})": StepForm("call", _LINE, choose_dim),
    "{0}[{1}]": StepForm("call", _LINE, choose_dimension_zero),
    "{0}.scatter({3}, {1}, {2})": StepForm("call", _SCATTER, choose_dim),
    "{0}.index_add({3}, {1}, {2})": StepForm("call", _LINES, choose_dim, sum_bound, NUMBERS),
    "torch.matmul({0}, {1})": StepForm(
        "call", (("value", "columns"),), growth=matmul_bound(0), dtypes=FLOATS
    ),
}

_VIEWS: dict[str, StepForm] = {
    "{0}.transpose({1}, {2})": StepForm("view", (), choose_two_dims),
    "{0}.permute({1})": StepForm("view", (), choose_permutation),
    "{0}.narrow({1}, {2}, {3})": StepForm("view", (), choose_narrow),
    "{0}[{1}::{2}]": StepForm("view", (), choose_slice),
    "{0}[..., {1}::{2}]": StepForm("view", (), choose_slice),
    "{0}.select({1}, {2})": StepForm("view", (), choose_select),
    "{0}.unbind({1})[0]": StepForm("view", (), choose_dim),
    "{0}.split(1, {1})[-1]": StepForm("view", (), choose_dim),
    "{0}.unsqueeze({1})": StepForm("view", (), lambda chance, x: (chance.randint(0, x.dim()),)),
    "{0}.expand({1})": StepForm("view", (), choose_expanded_shape),
    "{0}.view({1})": StepForm("view", (), choose_reshaped_shape, packed=True),
    "{0}.diagonal({1})": StepForm("view", (), choose_diagonal),
    "{0}.unfold({1}, {2}, {3})": StepForm("view", (), choose_unfold),
    "{0}.as_strided({1}, {2}, {3})": StepForm("view", (), choose_as_strided, packed=True),
    "{0}.detach()": StepForm("view"),
}

_WRITES: dict[str, StepForm] = {
    "{0}.add_({1})": StepForm("write", VALUE, growth=sum_bound, dtypes=NUMBERS),
    "{0}.sub_({1})": StepForm("write", VALUE, growth=sum_bound, dtypes=NUMBERS),
    "{0}.mul_({1})": StepForm("write", VALUE, growth=product_bound, dtypes=NUMBERS),
    "{0}.mul_(2)": StepForm("write", growth=lambda s, *_: 2 * s[0], dtypes=NUMBERS),
    "{0}.addcmul_({1}, {2})": StepForm(
        "write", _TWO, growth=lambda s, *_: s[0] + s[1] * s[2], dtypes=NUMBERS
    ),
    "{0}.neg_()": StepForm("write", dtypes=NUMBERS),
    "{0}.abs_()": StepForm("write", dtypes=NUMBERS),
    "{0}.clamp_(-1, 2)": StepForm("write", growth=number_bound, dtypes=NUMBERS),
    "{0}.logical_not_()": StepForm("write", growth=number_bound),
    "{0}.logical_and_({1})": StepForm("write", VALUE, growth=number_bound),
    "{0}.zero_()": StepForm("write"),
    "{0}.fill_({1})": StepForm("write", (), choose_number, number_bound),
    "{0}.copy_({1})": StepForm("write", VALUE, elementwise=False),
    "{0}.masked_fill_({1}, {2})": StepForm("write", MASK, choose_number, number_bound, elementwise=False),
    "{0}.scatter_({3}, {1}, {2})": StepForm("write", _SCATTER, choose_dim, elementwise=False),
    "{0}.scatter_add_({3}, {1}, {2})": StepForm(
        "write", _SCATTER, choose_dim, sum_bound, NUMBERS, elementwise=False
    ),
    "{0}.index_copy_({3}, {1}, {2})": StepForm("write", _LINES, choose_dim, elementwise=False),
    "{0}.index_fill_({2}, {1}, {3})": StepForm("write", _LINE, choose_dim_and_number, number_bound),
    "{0}.index_add_({3}, {1}, {2})": StepForm(
        "write", _LINES, choose_dim, sum_bound, NUMBERS, elementwise=False
    ),
    "{0}.index_put_(({1},), {2})": StepForm("write", _LINES, choose_dimension_zero, elementwise=False),
    "{0}.tril_()": StepForm("write", (), require_matrix),
    "torch.add({1}, {2}, out={0})": StepForm("write", _TWO, growth=lambda s, *_: s[1] + s[2], dtypes=NUMBERS),
    "torch.maximum({1}, {2}, out={0})": StepForm("write", _TWO),
    "torch.cumsum({1}, {2}, out={0})": StepForm(
        "write", SAME, choose_dim, dimension_sum_bound(1), NUMBERS, elementwise=False
    ),
    "torch.where({1}, {2}, {3}, out={0})": StepForm("write", (("mask", "same"), *_TWO), elementwise=False),
}

FORMS: dict[str, StepForm] = {**_CALLS, **_VIEWS, **_WRITES}


def step_form_texts(kind: str, dtype: str) -> list[str]:
    """Return the texts of all forms of a kind (call, view or write) that support a dtype."""
    return [text for text, form in FORMS.items() if form.kind == kind and dtype in form.dtypes]
