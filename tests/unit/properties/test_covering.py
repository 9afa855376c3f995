"""Sizes dealt to dtypes, layouts and forms."""

import itertools

from conformance.properties.operators.sizes import LADDER, sizes_of
from conformance.properties.overloads._size_assignment import FURTHER, assignments_for
from conformance.properties.shared.memory_layouts import LAYOUTS

_DTYPES = ("bfloat16", "float32", "int64")
_OVERLOADS = [f"operator{number}.Tensor" for number in range(400)]


def test_each_overload_has_every_size_once_and_every_layout():
    for overload in _OVERLOADS:
        dealt = list(
            itertools.chain.from_iterable(assignments_for(overload, _DTYPES, one) for one in _DTYPES)
        )
        assert sorted(one.size for one in dealt) == sorted(FURTHER)
        assert {one.layout for one in dealt} == {None, *LAYOUTS}


def test_one_dtype_has_every_size_in_ascending_order():
    assert [one.size for one in assignments_for("add.Tensor", ("float32",), "float32")] == sorted(FURTHER)


def test_over_all_overloads_each_size_meets_each_dtype_layout_and_form():
    met = {
        (one.size, dtype, one.layout, one.form % 3)
        for overload in _OVERLOADS
        for dtype in _DTYPES
        for one in assignments_for(overload, _DTYPES, dtype)
    }
    assert {(size, dtype) for size, dtype, _, _ in met} == set(itertools.product(FURTHER, _DTYPES))
    assert {(size, layout) for size, _, layout, _ in met} == set(itertools.product(FURTHER, [None, *LAYOUTS]))
    assert {(size, form) for size, _, _, form in met} == set(itertools.product(FURTHER, range(3)))


def test_the_deal_is_the_same_every_time():
    assert assignments_for("mul.Tensor", _DTYPES, "int64") == assignments_for("mul.Tensor", _DTYPES, "int64")


def test_fewer_dtypes_share_the_rows_of_the_ladder_among_them():
    whole = sorted(itertools.chain.from_iterable(LADDER))
    for count in (1, 2, 3):
        assert sorted(itertools.chain.from_iterable(sizes_of(i, count) for i in range(count))) == whole
