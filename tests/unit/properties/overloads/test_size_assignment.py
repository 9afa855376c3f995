"""Each overload is checked with one size of every size distribution. The sizes are divided among the
overload's dtypes, memory layouts and call forms.
"""

import itertools

from conformance.properties.operators.sizes import DISTRIBUTIONS_BY_ROW, sizes_to_check
from conformance.properties.overloads._size_assignment import SIZE_DISTRIBUTIONS, assignments_for
from conformance.properties.shared.memory_layouts import LAYOUTS
from conformance.samples.sizes import draw_sizes

_DTYPES = ("bfloat16", "float32", "int64")
_OVERLOADS = [f"operator{number}.Tensor" for number in range(400)]


def test_each_overload_is_assigned_a_size_of_every_distribution_and_every_layout():
    for overload in _OVERLOADS:
        assigned = list(
            itertools.chain.from_iterable(assignments_for(overload, _DTYPES, dtype) for dtype in _DTYPES)
        )
        sizes = sorted(draw_sizes(overload, SIZE_DISTRIBUTIONS))
        assert sorted(assignment.size for assignment in assigned) == sizes
        assert {assignment.layout for assignment in assigned} == {None, *LAYOUTS}


def test_one_dtype_has_every_size_in_ascending_order():
    assignments = assignments_for("add.Tensor", ("float32",), "float32")
    assert [assignment.size for assignment in assignments] == sorted(
        draw_sizes("add.Tensor", SIZE_DISTRIBUTIONS)
    )


def test_over_all_overloads_each_distribution_meets_each_dtype_layout_and_form():
    combinations = set()
    for overload in _OVERLOADS:
        sizes = draw_sizes(overload, SIZE_DISTRIBUTIONS)
        distribution_of_size = dict(zip(sizes, SIZE_DISTRIBUTIONS, strict=True))
        combinations |= {
            (distribution_of_size[assignment.size].name, dtype, assignment.layout, assignment.form % 3)
            for dtype in _DTYPES
            for assignment in assignments_for(overload, _DTYPES, dtype)
        }
    names = {distribution.name for distribution in SIZE_DISTRIBUTIONS}
    assert {(name, dtype) for name, dtype, _, _ in combinations} == set(itertools.product(names, _DTYPES))
    assert {(name, layout) for name, _, layout, _ in combinations} == set(
        itertools.product(names, [None, *LAYOUTS])
    )
    assert {(name, form) for name, _, _, form in combinations} == set(itertools.product(names, range(3)))


def test_the_assignment_is_reproducible():
    assert assignments_for("mul.Tensor", _DTYPES, "int64") == assignments_for("mul.Tensor", _DTYPES, "int64")


def test_fewer_dtypes_share_all_sizes():
    whole = list(sizes_to_check("add", 0, 1))
    assert len(whole) == sum(map(len, DISTRIBUTIONS_BY_ROW))
    for count in (2, 3):
        assert (
            sorted(itertools.chain.from_iterable(sizes_to_check("add", i, count) for i in range(count)))
            == whole
        )
