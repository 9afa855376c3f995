"""``subjects.overloads`` lists the functions of ``torch.ops.aten``, and finds the in-place and ``out=``
overload of each.
"""

import pytest
import torch

from conformance.subjects import overloads, torch_databases

aten = torch.ops.aten


@pytest.mark.parametrize(
    ("op", "in_place", "out"),
    [
        (aten.add.Tensor, aten.add_.Tensor, aten.add.out),
        (aten.relu.default, aten.relu_.default, aten.relu.out),
        (aten.sum.dim_IntList, None, aten.sum.IntList_out),
        (aten.max.dim, None, aten.max.dim_max),
        (aten.transpose.int, aten.transpose_.default, None),
        (aten.eye.default, None, aten.eye.out),
        (aten.norm.ScalarOpt_dim, None, aten.norm.out),  # not dtype_out, which has one more argument
        (aten.norm.ScalarOpt_dim_dtype, None, aten.norm.dtype_out),
        (aten.rrelu_with_noise.default, aten.rrelu_with_noise_.default, aten.rrelu_with_noise.out),
    ],
)
def test_functional_in_place_and_out_overloads_are_found(op: object, in_place: object, out: object) -> None:
    assert overloads.in_place_form_of(op) is in_place
    assert overloads.out_form_of(op) is out
    for form in (in_place, out):
        if form is not None:
            assert overloads.functional_form_of(form) is op


def test_an_overload_without_a_functional_form_is_its_own_function() -> None:
    assert overloads.functional_form_of(aten.copy_.default) in (aten.copy.default, aten.copy_.default)
    assert overloads.functional_form_of(aten.add.Tensor) is aten.add.Tensor


def test_names_of_overloads() -> None:
    assert overloads.name_without_namespace(aten.add.Tensor) == "add.Tensor"
    assert overloads.name_without_namespace(aten.relu.default) == "relu"


def test_the_table_contains_functions_of_torch() -> None:
    table = overloads.overload_table()
    assert len(table) > 450
    for name, row in table.items():
        assert overloads.name_without_namespace(row.op) == name
        assert row.operators and row.dtypes
        assert (row.out is None) == (not row.outs)
    assert table["uniform"].random and not table["add.Tensor"].random
    assert table["convolution_backward"].backward and not table["convolution"].backward


def test_operators_that_torch_lacks_are_omitted(monkeypatch: pytest.MonkeyPatch) -> None:
    remaining_subjects = {
        name: subject for name, subject in torch_databases._by_name("operator").items() if name != "add"
    }
    whole = {overload.name: overload.info.operators for overload in torch_databases._overloads()}
    monkeypatch.setattr(torch_databases, "_by_name", lambda kind: remaining_subjects)
    operators_of = {overload.name: overload.info.operators for overload in torch_databases._overloads()}
    assert all("add" not in names for names in operators_of.values())
    assert all(operators_of[name] == names for name, names in whole.items() if "add" not in names)
    assert (
        set(whole) - set(operators_of)
        == {name for name, names in whole.items() if set(names) == {"add"}}
        != set()
    )
