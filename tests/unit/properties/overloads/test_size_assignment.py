"""Each overload is checked with every size, and the sizes are distributed over its dtypes, memory layouts and
call forms.
"""

import itertools

from conformance.properties.operators.sizes import LADDER, sizes_of
from conformance.properties.overloads._size_assignment import SIZES, assignments_for
from conformance.properties.shared.memory_layouts import LAYOUTS

_DTYPES = ("bfloat16", "float32", "int64")
_OVERLOADS = [f"operator{number}.Tensor" for number in range(400)]


def test_each_overload_is_assigned_every_size_once_and_every_layout():
    for overload in _OVERLOADS:
        dealt = list(
            itertools.chain.from_iterable(
                assignments_for(overload, _DTYPES, assignment_or_dtype) for assignment_or_dtype in _DTYPES
            )
        )
        assert sorted(assignment_or_dtype.size for assignment_or_dtype in dealt) == sorted(SIZES)
        assert {assignment_or_dtype.layout for assignment_or_dtype in dealt} == {None, *LAYOUTS}


def test_one_dtype_has_every_size_in_ascending_order():
    assert [
        assignment.size for assignment in assignments_for("add.Tensor", ("float32",), "float32")
    ] == sorted(SIZES)


def test_over_all_overloads_each_size_meets_each_dtype_layout_and_form():
    combinations = {
        (assignment.size, dtype, assignment.layout, assignment.form % 3)
        for overload in _OVERLOADS
        for dtype in _DTYPES
        for assignment in assignments_for(overload, _DTYPES, dtype)
    }
    assert {(size, dtype) for size, dtype, _, _ in combinations} == set(itertools.product(SIZES, _DTYPES))
    assert {(size, layout) for size, _, layout, _ in combinations} == set(
        itertools.product(SIZES, [None, *LAYOUTS])
    )
    assert {(size, form) for size, _, _, form in combinations} == set(itertools.product(SIZES, range(3)))


def test_the_assignment_is_reproducible():
    assert assignments_for("mul.Tensor", _DTYPES, "int64") == assignments_for("mul.Tensor", _DTYPES, "int64")


def test_fewer_dtypes_share_all_sizes():
    whole = sorted(itertools.chain.from_iterable(LADDER))
    for count in (1, 2, 3):
        assert sorted(itertools.chain.from_iterable(sizes_of(i, count) for i in range(count))) == whole
