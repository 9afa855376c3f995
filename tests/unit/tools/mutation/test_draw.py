"""``tools.mutation.draw`` draws mutants by a fixed rule. Each pair of mutation point and mutation operator is
drawn once before any pair is drawn twice. A larger draw begins with the mutants of a smaller draw.
"""

from tools.mutation import draw
from tools.mutation.mutant import Mutant

FAULTS = [
    str(Mutant(point, kind, position))
    for point in ("aten::a", "aten::b", "aten::c")
    for kind in ("last-element", "strides-ignored")
    for position in range(4)
]


def test_every_operator_at_every_point_is_drawn_once_before_any_twice() -> None:
    drawn = draw.draw_mutants(FAULTS, 6)
    assert len({(fault.point, fault.operator) for fault in drawn}) == 6


def test_a_larger_catalogue_begins_with_a_smaller_one() -> None:
    assert draw.draw_mutants(FAULTS, 20)[:9] == draw.draw_mutants(reversed(FAULTS), 9)
    assert len(draw.draw_mutants(FAULTS, 1000)) == len(FAULTS)


def test_a_quarter_of_the_mutants_contains_all_mutants_of_small_families() -> None:
    few = str(Mutant("module::a", "value-zero"))
    kernels = [str(Mutant(f"aten::{number}", "last-element")) for number in range(997)]
    drawn = draw.draw_mutants([*kernels, few], 250)
    assert few in map(str, drawn)
    both = [
        str(Mutant(point, "value-zero"))
        for number in range(500)
        for point in (f"module::{number}", f"aten::{number}")
    ]
    of_kernels = [fault for fault in draw.draw_mutants(both, 100) if fault.is_of_kernel]
    assert 5 < len(of_kernels) < 40


def test_about_half_of_the_mutants_are_confined_to_a_dtype_of_calls() -> None:
    calls = {("aten::a", "called"): {"float32", "int64", "none"}}
    confined = [draw.confine_to_dtype(Mutant("aten::a", "rank", 0, rank), calls) for rank in range(200)]
    dtypes = [fault.dtype for fault in confined]
    assert set(dtypes) == {None, "float32", "int64"}
    assert 60 < dtypes.count(None) < 140


def test_a_mutant_of_floating_results_is_confined_to_floating_dtypes() -> None:
    calls = {("aten::a", "called"): {"int64", "float32"}, ("aten::a", "returns-floating"): {"float32"}}
    confined = [
        draw.confine_to_dtype(Mutant("aten::a", "nan-lost", value=value), calls) for value in range(50)
    ]
    assert {fault.dtype for fault in confined} == {None, "float32"}
