"""``report.causes`` groups unexpected results by cause."""

from __future__ import annotations

from typing import Any

from expecttest import assert_expected_inline

from conformance.report import causes, summary
from conformance.report.families import operator_family, property_family
from conformance.results import document
from tests.support.sample_legs import leg

BROKEN = "the call on (({}, 4) float32 on hpu:0) raised RuntimeError: allocator is out of {} blocks at {}"


def test_families_of_subjects_and_properties() -> None:
    subjects = [
        "fft.rfft2",
        "nn.functional.conv2d",
        "nn.ConvTranspose3d",
        "nn.functional.nll_loss",
        "index_add",
    ]
    subjects += ["_foreach_add", "linalg.lu.grad", "sum", "nn.Flatten", "index_select"]
    assert list(map(operator_family, subjects)) == [
        "fft", "nn conv", "nn conv", "nn loss", "index", "_foreach", "linalg", "sum", "flatten", "index"
    ]  # fmt: skip
    names = ("compile_value", "compile_views", "value", "non-contiguous")
    assert list(map(property_family, names)) == [
        "compile", "compile", "value", "non-contiguous"
    ]  # fmt: skip


def leg_with_rows(*rows: tuple[str, str, str, str], passing: int = 0) -> list[dict[str, Any]]:
    """Return a list with one leg. Its rows are the given (id, verdict, kind, message), and passing rows of
    ``passing`` other subjects.
    """
    rows_in_leg = [
        {"id": name, "verdict": verdict, "seconds": 0.1, "failures": [{"kind": kind, "message": message}]}
        for name, verdict, kind, message in rows
    ]
    rows_in_leg += [
        {"id": f"value/pass{i}@float32", "verdict": "pass", "seconds": 0.1} for i in range(passing)
    ]
    cases = {row["id"].rpartition("@")[0]: row["verdict"] for row in rows_in_leg}
    return [leg("eager", results=rows_in_leg, cases=cases, exit=1)]


OPERATORS = [f"{prefix}{i}" for prefix in ("add_", "fft.", "linalg.", "index_", "sum_") for i in range(20)]


def test_a_broken_allocator_is_one_cause() -> None:
    rows = [
        (f"{name}/{subject}@float32", "fail", "exception", BROKEN.format(number, 17 * number, hex(number)))
        for name in ("value", "out", "gradient", "backward-cpu")
        for number, subject in enumerate(OPERATORS)
    ]
    unrelated = ("value/cumsum@int64", "crash", "crash", "the process ended: Segmentation fault\n  in f")
    groups = causes.causes_of(leg_with_rows(*rows, unrelated))
    assert [(group.count, group.name()) for group in groups] == [(400, "100 subjects"), (1, "cumsum")]
    assert groups[0].example[1]["id"] == "value/add_0@float32"


def test_wrong_values_are_grouped_by_family_unless_nearly_all_fail() -> None:
    def wrong(subject: str) -> tuple[str, str, str, str]:
        return f"value/{subject}@float32", "fail", "value", f"{subject} is 3.5 at [0], expected 4"

    few = [wrong(name) for name in ("fft.fft", "fft.rfft", "linalg.lu", "sum", "cumsum", "index_add")]
    groups = causes.causes_of(leg_with_rows(*few, passing=100))
    assert [(group.count, group.name()) for group in groups] == [
        (2, "fft, 2 subjects"), (1, "linalg.lu"), (1, "sum"), (1, "cumsum"), (1, "index_add")
    ]  # fmt: skip
    groups = causes.causes_of(leg_with_rows(*map(wrong, OPERATORS), passing=50))
    assert [(group.count, group.name()) for group in groups] == [(100, "100 subjects")]
    assert len(causes.causes_of(leg_with_rows(*map(wrong, OPERATORS), passing=101))) == 5


def test_failure_kinds_and_property_families_are_separate_causes() -> None:
    rows = [
        ("value/sum@d", "fail", "value", "differs"), ("value/sum@e", "fail", "metadata", "differs"),
        ("out/sum@d", "fail", "value", "differs"), ("compile_value/sum@d", "fail", "value", "differs"),
        ("compile_views/sum@d", "fail", "value", "differs"),
    ]  # fmt: skip
    assert sorted(group.count for group in causes.causes_of(leg_with_rows(*rows, passing=9))) == [1, 1, 1, 2]


def test_the_summary_shows_ten_causes_and_counts_the_rest(tmp_path: Any) -> None:
    rows = [(f"value/op{'abcdefghijklm'[i]}@d", "fail", "value", f"word{chr(97 + i)}") for i in range(13)]
    rows += [("value/opa@e", "fail", "value", "worda"), ("value/opb@e", "crash", "value", "wordb")]
    text = list(summary.summary_lines(document.results_document(leg_with_rows(*rows)), folder=tmp_path))
    assert_expected_inline(
        "\n".join(text[1:8] + text[-4:-1]),
        """\
15 unexpected, by cause (largest first):
  opb: 1 crash, 1 fail
    value/opb@e (value) wordb
    conformance repro value/opb@e --target cpu --mode eager
  opa: 2 fail
    value/opa@d (value) worda
    conformance repro value/opa@d --target cpu --mode eager
    conformance repro value/opj@d --target cpu --mode eager
  and 3 more, of 3 other causes; report.html lists all causes
unexpected results: exit 1""",
    )


WRONG = "{} is {} at {}, expected {} (allowed difference 1e-05, found 1; 4 of 9 elements are wrong)."


def test_wrong_values_of_one_operator_are_one_cause() -> None:
    def wrong(name: str, label: str, value: str = "1.5", expected: str = "0.5") -> tuple[str, str, str, str]:
        return f"{name}", "fail", "value", WRONG.format(label, value, "[0, 1]", expected)

    rows = [
        wrong("value/sigmoid@float32", "the result"),
        wrong("value/sigmoid@complex64", "the result", "(1.5-0.25j)", "(0.5-0.25j)"),
        wrong("overload-layouts/sigmoid@float16", "the result of the function with gaps for tensor 0"),
        wrong("non-contiguous/nn.Sigmoid@float32", "strided output 0 of Sigmoid() in train mode"),
        wrong("compile_value/sigmoid@float32", "the result"),
        wrong("value/tanh@float32", "the result"),
    ]
    groups = causes.causes_of(leg_with_rows(*rows, passing=40))
    assert sorted((group.count, group.name()) for group in groups) == [
        (1, "sigmoid"), (1, "tanh"), (4, "sigmoid, 2 subjects")
    ]  # fmt: skip


def test_results_of_one_operator_on_a_wrong_device_are_one_cause() -> None:
    rows = [
        ("value/rsub@float32", "fail", "metadata", "the result is on device cpu, expected hpu."),
        (
            "out/rsub@float32",
            "fail",
            "metadata",
            "the result of the function is on device cpu, expected hpu.",
        ),
        ("value/median@float32", "fail", "metadata", "part 1 of the result is on device cpu, expected hpu."),
    ]
    groups = causes.causes_of(leg_with_rows(*rows, passing=20))
    assert [(group.shape, group.count) for group in groups] == [
        ("a result on a wrong device", 2),
        ("a result on a wrong device", 1),
    ]


def test_results_of_a_wrong_shape_of_one_operator_family_are_one_cause() -> None:
    rows = [
        (
            "overload-values/logical_not@int32",
            "fail",
            "metadata",
            "the result has shape [0], expected [5, 5].",
        ),
        (
            "layout/logical_or@bool",
            "fail",
            "metadata",
            "the operator at an offset has shape [0], expected [2].",
        ),
        ("value/tanh@float32", "fail", "metadata", "the result has shape [1], expected []."),
    ]
    groups = causes.causes_of(leg_with_rows(*rows, passing=20))
    assert [(group.shape, group.count) for group in groups] == [
        ("a result of a wrong shape", 2),
        ("a result of a wrong shape", 1),
    ]


def test_an_out_argument_that_is_not_resized_is_one_cause_for_all_operators() -> None:
    rows = [
        ("out/nonzero@int64", "fail", "metadata", "an out= of zero elements has shape [0], expected [3, 1]."),
        (
            "overload-forms/log2@float32",
            "fail",
            "metadata",
            "the out= that was empty before the call has shape [0], expected [5].",
        ),
        ("out/sort@float32", "fail", "metadata", "the out= argument has shape [4], expected [5]."),
    ]
    groups = causes.causes_of(leg_with_rows(*rows, passing=20))
    assert [(group.shape, group.count) for group in groups] == [
        ("an out= without elements is not resized", 2),
        ("a result of a wrong shape", 1),
    ]


def test_different_patterns_of_samples_are_different_causes() -> None:
    all_legs = leg_with_rows(
        *[
            (f"value/sigmoid@float{size}", "fail", "value", WRONG.format("the result", 1, "[0]", 2))
            for size in (16, 32, 64)
        ],
        passing=40,
    )
    for row, when in zip(
        all_legs[0]["results"], ("an input holds NaN", "an input is expanded"), strict=False
    ):
        row["pattern"] = {"when": when, "failed": 2, "such": 2, "others": 5}
    assert sorted(group.sample_pattern_sentence() for group in causes.causes_of(all_legs)) == [
        "",
        "fails in 2 of 2 samples in which an input holds NaN, and in 0 of 5 others",
        "fails in 2 of 2 samples in which an input is expanded, and in 0 of 5 others",
    ]


def test_one_error_is_one_cause_whether_refused_or_raised() -> None:
    rows = [
        ("value/cumsum@float16", "fail", "exception", "the call raised RuntimeError: lost a lane at 0x7f"),
        ("dtypes/cumsum@any", "fail", "refused",
         "declared dtype float16 is refused: RuntimeError: lost a lane at 0x8f"),
    ]  # fmt: skip
    (group,) = causes.causes_of(leg_with_rows(*rows, passing=3))
    assert group.count == 2


def test_a_missing_error_is_one_cause_for_all_operators() -> None:
    rows = [
        (f"cpu-arguments/{name}@float32", "fail", "error-type", "a CPU tensor as input 1 was accepted")
        for name in ("add", "linalg.lu", "fft.fft", "index_add")
    ]
    (group,) = causes.causes_of(leg_with_rows(*rows, passing=90))
    assert (group.count, group.name()) == (4, "4 subjects")


def test_each_missing_kernel_is_one_cause_whatever_calls_it() -> None:
    text = "the operator on (float32[2]) was refused: NotImplementedError: Could not run '{}' with arguments"
    rows = [
        ("value/clamp@float32", "fail", "refused", text.format("aten::clamp.Tensor_out")),
        ("layout/clip@float16", "fail", "exception", text.format("aten::clamp.Tensor_out")),
        ("value/addr@float32", "fail", "refused", text.format("aten::addr.out")),
    ]
    groups = causes.causes_of(leg_with_rows(*rows, passing=3))
    assert [(group.count, group.name()) for group in groups] == [
        (2, "kernel aten::clamp.Tensor_out"),
        (1, "kernel aten::addr.out"),
    ]


def test_the_example_of_a_cause_is_not_blocked() -> None:
    text = "the operator raised IndexError: list index out of range"
    legs = leg_with_rows(
        ("layout/t@float32", "fail", "exception", text),
        ("value/t@float32", "fail", "exception", text),
        passing=3,
    )
    legs[0]["results"][0]["blocked_by"] = "value/t@float32"
    (group,) = causes.causes_of(legs)
    assert (group.example[1]["id"], group.blocked_count) == ("value/t@float32", 1)


def test_an_undeclared_capability_is_one_cause() -> None:
    legs = leg_with_rows(
        ("layout/t@float32", "fail", "exception", "the call raised RuntimeError: no data pointer"),
        ("value/add@float32", "fail", "refused", "refused: NotImplementedError: cannot access storage of it"),
        passing=3,
    )
    for row in legs[0]["results"][:2]:
        row["blocked_by"] = "capability storage"
    (group,) = causes.causes_of(legs)
    assert (group.count, group.name()) == (2, "capability storage")
