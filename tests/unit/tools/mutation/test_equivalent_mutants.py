"""Each rule for equivalent mutants excludes the mutants that it describes, and no similar mutants."""

import pytest

from tools.mutation import equivalent_mutants
from tools.mutation.campaign import Fate
from tools.mutation.mutant import Mutant

CALLED = {"float32", "int64", "bool"}
ASLEEP, SURVIVED = Fate.ASLEEP.value, Fate.SURVIVED.value


def equivalence_reason(
    overload_name: str,
    kind: str,
    value: int = 0,
    fate: str = ASLEEP,
    position: int = 0,
    dtype: str | None = None,
) -> str | None:
    calls = {
        (f"aten::{overload_name}", question): CALLED
        for question in ("called", "returns-floating", "returns-bool", "takes-int64")
    }
    return equivalent_mutants.equivalence_reason(
        Mutant(f"aten::{overload_name}", kind, position, value, dtype), fate, calls
    )


@pytest.mark.parametrize(
    ("kind", "value", "excused", "counted"),
    [
        (
            "rank",
            6,
            ["mm", "bmm.out", "convolution"],
            ["add.Tensor", "add_.Tensor", "cat", "sum.IntList_out"],
        ),
        ("scalar-only", 0, ["bmm", "convolution"], ["add.Tensor", "mul.out", "sum.dim_IntList"]),
        ("empty-input", 0, ["add.Tensor", "sin.out", "convolution_backward"], ["sum.dim_IntList", "cat"]),
        ("infinity-lost", 0, ["sin", "sigmoid.out"], ["exp", "reciprocal_", "sum.dim_IntList"]),
        ("nan-lost", 0, ["zeros_like"], ["add.Tensor", "clone", "bmm"]),
        ("subnormal-flushed", 0, ["cos"], ["mul.Tensor", "clone"]),
        ("bool-byte", 0, ["sin"], ["ne.Tensor", "isnan", "logical_or.out"]),
        ("int-53-bits", 0, ["linalg_inv_ex", "exp", "div.Tensor"], ["add.Tensor", "clone", "eq.Tensor"]),
        ("int-53-bits", 0, ["sign", "isnan", "any", "count_nonzero"], ["argmax", "index_select"]),
        ("low-precision", 0, ["sign", "ne.Tensor", "gt.Tensor"], ["sin", "ceil", "heaviside"]),
        ("swapped-arguments", 1, ["gather", "embedding"], ["mm", "sub.Tensor", "addcmul"]),
        ("strides-ignored", 0, ["zeros_like", "fill.Tensor"], ["add.Tensor", "clone", "where.self"]),
        ("offset-ignored", 0, ["zeros_like", "fill_.Scalar"], ["add.Tensor", "clone"]),
        ("offset-in-channels-last-ignored", 0, ["mm", "bmm.out"], ["add.Tensor", "sin.out", "convolution"]),
        (
            "aliasing-gained",
            0,
            ["_fft_r2c", "bucketize.Tensor"],
            ["add.Tensor", "sqrt", "relu", "prod.dim_int"],
        ),
        ("result-strides", 0, ["max", "any", "dot"], ["add.Tensor", "bmm", "max.dim"]),
        ("error-missing", 0, ["sin", "clone"], ["sum.dim_IntList", "mm", "sin.out", "sin_", "add.Tensor"]),
        ("last-element", 0, ["sum", "trace"], ["add.Tensor", "bmm", "convolution"]),
    ],
)
def test_mutants_of_unsupported_cpu_calls_are_equivalent(
    kind: str, value: int, excused: list[str], counted: list[str]
) -> None:
    assert [
        overload_name for overload_name in excused + counted if equivalence_reason(overload_name, kind, value)
    ] == excused


def test_signs_of_computed_zeros_are_not_documented() -> None:
    assert equivalence_reason("sin", "signed-zero-lost", fate=SURVIVED) is not None
    assert equivalence_reason("clone", "signed-zero-lost", fate=SURVIVED) is None
    assert equivalence_reason("cat.out", "signed-zero-lost") is None


def test_subnormal_results_are_documented_only_for_arithmetic_and_copies() -> None:
    for overload_name in ("sinc", "gelu_backward.grad_input", "igamma.out"):
        assert equivalence_reason(overload_name, "subnormal-flushed", fate=SURVIVED) is not None
    for overload_name in (
        "exp",
        "mul.out",
        "sum.dim_IntList",
        "prod.dim_int",
        "scatter_.src",
        "clone",
        "sort",
        "maximum.out",
        "_index_put_impl_",
    ):
        assert equivalence_reason(overload_name, "subnormal-flushed", fate=SURVIVED) is None


def test_swapping_arguments_of_commutative_operators_is_equivalent() -> None:
    for overload_name in ("add.Tensor", "maximum", "eq_.Tensor", "bitwise_or.Tensor_out"):
        assert equivalence_reason(overload_name, "swapped-arguments", 1, fate=SURVIVED) is not None
    for overload_name in ("sub.Tensor", "addcmul", "ge.Tensor", "mm"):
        assert equivalence_reason(overload_name, "swapped-arguments", 1, fate=SURVIVED) is None
    assert equivalence_reason("addcmul_", "swapped-arguments", 2, fate=SURVIVED, position=1) is not None
    assert equivalence_reason("addcdiv_", "swapped-arguments", 2, fate=SURVIVED, position=1) is None


def test_result_strides_count_only_if_a_meta_kernel_agrees_with_the_cpu() -> None:
    for fate in (SURVIVED, ASLEEP):
        assert (
            equivalence_reason("_dirichlet_grad", "result-strides", fate=fate) is not None
        )  # _dirichlet_grad has no Meta kernel
        assert equivalence_reason("add.Tensor", "result-strides", fate=fate) is None
    # For an input of four dimensions, the strides of the result of take are documented.
    assert equivalence_reason("take", "result-strides", fate=SURVIVED) is None


def test_a_rank_that_the_cpu_does_not_accept_is_excluded() -> None:
    assert equivalence_reason("upsample_trilinear3d", "rank", 4) is not None
    assert equivalence_reason("upsample_trilinear3d", "rank", 5) is None
    assert equivalence_reason("gather", "rank", 6) is None


def test_values_of_unwritten_memory_are_excluded() -> None:
    assert equivalence_reason("empty.memory_format", "last-element", fate=SURVIVED) is not None
    assert equivalence_reason("empty.memory_format", "leak", fate=SURVIVED) is None
    assert equivalence_reason("zeros_like", "last-element", fate=SURVIVED) is None


def test_a_mutant_that_altered_a_call_is_not_excluded_by_a_rule_about_inputs() -> None:
    assert equivalence_reason("mm", "rank", 6, fate=SURVIVED) is None
    assert equivalence_reason("sin", "infinity-lost", fate=SURVIVED) is None


def test_a_mutant_of_a_kind_of_values_needs_a_point_that_returns_them() -> None:
    calls = {
        ("aten::add.Tensor", "called"): {"float32"},
        ("aten::add.Tensor", "returns-floating"): {"float32"},
    }
    assert (
        equivalent_mutants.equivalence_reason(Mutant("aten::add.Tensor", "bool-byte"), ASLEEP, calls)
        is not None
    )
    assert (
        equivalent_mutants.equivalence_reason(Mutant("aten::add.Tensor", "nan-lost"), ASLEEP, calls) is None
    )


def test_layout_mutants_of_a_one_element_argument_are_excluded() -> None:
    assert (
        equivalence_reason("masked_fill.Tensor", "expanded-ignored", position=2) is not None
    )  # the value is documented as a scalar
    # Position 6 is total_weight, which has one element.
    assert equivalence_reason("nll_loss_backward", "strides-ignored", position=6) is not None


def test_mutants_of_an_ignored_argument_are_excluded() -> None:
    for kind in ("strides-ignored", "expanded-ignored", "offset-ignored"):
        assert equivalence_reason("avg_pool2d_backward", kind, position=1) is not None
        assert equivalence_reason("avg_pool2d_backward", kind, position=0) is None
        assert equivalence_reason("threshold_backward", kind, position=1) is None


def test_other_forms_of_a_subject_are_judged_by_its_calls() -> None:
    for point in ("aten::__ilshift__.Tensor", "aten::add_.Tensor", "aten::add.out"):
        assert equivalent_mutants.subject_of(point) is not None


def test_mutants_of_a_point_without_calls_are_not_excluded() -> None:
    point = "aten::_assert_async"
    assert equivalent_mutants.subject_of(point) is None
    for kind in ("rank", "scalar-only", "nan-lost", "bool-byte"):
        assert equivalent_mutants.equivalence_reason(Mutant(point, kind, 0, 6), ASLEEP, {}) is None


def test_an_empty_input_matters_if_a_result_has_elements() -> None:
    # With an empty batch, the gradient of the images (position 0) has no elements, and the gradient of the
    # weights (position 1) has elements.
    reasons = [
        equivalence_reason("convolution_backward", "empty-input", position=position) for position in (0, 1)
    ]
    assert reasons[0] is not None and reasons[1] is None


def test_empty_calls_of_unchecked_overloads_come_from_operators() -> None:
    # A padding refuses empty inputs. For an empty batch, a batch norm returns an empty output (position 0)
    # and statistics with elements (position 1).
    assert equivalence_reason("reflection_pad2d_backward", "empty-input") is not None
    assert equivalence_reason("native_batch_norm", "empty-input") is not None
    assert equivalence_reason("native_batch_norm", "empty-input", position=1) is None


def test_a_meta_kernel_decides_about_empty_calls_that_no_operator_makes() -> None:
    assert (
        equivalence_reason("_fft_c2c", "empty-input") is not None
    )  # an empty input transforms to an empty output
    assert equivalence_reason("unfold_backward", "empty-input") is None  # an argument sets the result's size
    assert equivalence_reason("_sobol_engine_draw", "empty-input") is None  # has no Meta kernel
    assert equivalence_reason("_sobol_engine_ff_", "empty-input") is not None  # returns its first argument


def test_a_result_that_torch_does_not_write_is_excluded() -> None:
    for fate in (SURVIVED, ASLEEP):
        assert equivalence_reason("multi_margin_loss", "empty-input", fate=fate) is not None
        assert equivalence_reason("sum.dim_IntList", "empty-input", fate=fate) is None


def test_empty_calls_count_in_the_call_form_that_the_cpu_accepts() -> None:
    # Without out= the result is a mean, which is NaN for no elements. The form with out= refuses the call.
    assert equivalence_reason("adaptive_avg_pool2d", "empty-input") is None
    assert equivalence_reason("adaptive_avg_pool2d.out", "empty-input") is not None


def test_layout_mutants_of_an_unsupported_argument_are_excluded() -> None:
    assert equivalence_reason("segment_reduce", "strides-ignored", position=3) is not None  # indices
    assert equivalence_reason("segment_reduce", "strides-ignored", position=2) is None  # lengths


def test_last_element_mutants_of_a_one_element_result_are_excluded() -> None:
    assert equivalence_reason("_amp_update_scale_", "last-element") is not None
    assert equivalence_reason("_fused_sgd_", "last-element") is None


def test_ignoring_hermitian_is_equivalent_for_real_matrices() -> None:
    kind = "option-ignored"
    assert equivalence_reason("linalg_ldl_factor_ex", kind, position=1, dtype="float64") is not None
    assert equivalence_reason("linalg_ldl_factor_ex", kind, position=1, dtype="complex128") is None
    assert equivalence_reason("linalg_pinv.atol_rtol_tensor", kind, position=3, dtype="float32") is None


def test_an_option_that_decides_about_an_error_is_not_excluded() -> None:
    assert equivalence_reason("leaky_relu_backward", "option-ignored", position=3) is None


def test_mutants_of_an_empty_out_are_excluded() -> None:
    # Argument 10 is the reserve buffer of a batch norm, which the CPU leaves empty. Argument 7 is the output.
    for kind in ("write-lost", "write-astray", "out-not-resized"):
        assert equivalence_reason("_batch_norm_with_update.out", kind, position=10) is not None
        assert equivalence_reason("_batch_norm_with_update.out", kind, position=7) is None


def test_partial_writes_of_a_one_element_out_are_excluded() -> None:
    assert equivalence_reason("isin.Scalar_Tensor_out", "write-partial", position=4) is not None
    assert equivalence_reason("isin.Tensor_Scalar_out", "write-partial", position=4) is None


def test_mutants_in_a_dtype_without_calls_are_not_excluded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(equivalent_mutants, "_examined_references", lambda subject, dtype: ())
    for kind in ("rank", "result-strides", "low-precision", "aliasing-gained", "empty-input", "nan-lost"):
        fault = Mutant("aten::count_nonzero.dim_IntList", kind, 0, 6, dtype="complex64")
        assert equivalent_mutants.equivalence_reason(fault, ASLEEP, {}) is None, kind


def test_a_dtype_that_torch_lists_for_no_operator_is_excluded() -> None:
    fault = Mutant("aten::rsub.Tensor", "scalar-only", 0, 0, "complex32")
    assert "lists that dtype" in str(equivalent_mutants.equivalence_reason(fault, SURVIVED, {}))
    assert (
        equivalent_mutants.equivalence_reason(
            Mutant("aten::rsub.Tensor", "scalar-only", 0, 0, "complex64"), SURVIVED, {}
        )
        is None
    )


def test_negative_dimensions_of_unchecked_overloads_are_excluded() -> None:
    assert "negative" in str(equivalence_reason("_fft_c2c", "negative-dimension", position=1))
    for overload_name in ("sum.dim_IntList", "glu_backward", "_softmax_backward_data"):
        assert equivalence_reason(overload_name, "negative-dimension", position=1) is None, overload_name


def test_a_layout_that_torch_s_own_kernel_ignores_is_excluded() -> None:
    mean = Mutant("aten::native_layer_norm_backward", "strides-ignored", 4)
    assert "torch's own kernel gives different results" in str(
        equivalent_mutants.equivalence_reason(mean, ASLEEP, {})
    )


def test_strides_that_torch_s_own_kernel_rejects_are_excluded() -> None:
    assert equivalence_reason("_weight_norm_interface", "strides-ignored") is not None
    assert equivalence_reason("_weight_norm_interface", "offset-ignored") is None
    assert equivalence_reason("_weight_norm_interface", "strides-ignored", fate=SURVIVED) is None


def test_keyword_arguments_are_judged_too() -> None:
    assert (
        equivalence_reason("_fused_adagrad_", "grad-strided", position=10) is not None
    )  # found_inf has one element
    assert equivalence_reason("_fused_adagrad_", "offset-ignored", position=10) is None


def test_dtypes_that_the_cpu_does_not_support_are_excluded() -> None:
    for fate in (SURVIVED, ASLEEP):
        beyond = Mutant("aten::special_zeta", "leak", dtype="bfloat16")
        assert equivalent_mutants.equivalence_reason(beyond, fate, {}) is not None
        for overload_name, dtype in (("special_zeta", "float32"), ("scatter.value", "bfloat16")):
            assert (
                equivalent_mutants.equivalence_reason(
                    Mutant(f"aten::{overload_name}", "leak", dtype=dtype), fate, {}
                )
                is None
            )


def test_a_result_is_judged_by_its_own_values() -> None:
    # Position 0 is the permutation, which contains zeros and ones even if the factors contain NaN.
    assert equivalence_reason("lu_unpack", "nan-lost") is not None
    assert equivalence_reason("lu_unpack", "nan-lost", position=1) is None


def test_an_option_that_changes_no_documented_value_is_excluded() -> None:
    assert equivalence_reason("group_norm", "option-ignored", position=5) is not None  # cudnn_enabled
    assert equivalence_reason("group_norm", "option-ignored", position=4) is None  # eps
    assert equivalence_reason("linalg_cholesky_ex", "option-ignored", position=2) is None  # check_errors


def test_a_layout_that_torch_s_own_kernel_reads_wrongly_is_excluded() -> None:
    for fate in (SURVIVED, ASLEEP):
        wrong = "_native_batch_norm_legit.out"
        assert equivalence_reason(wrong, "offset-in-channels-last-ignored", fate=fate) is not None
        assert equivalence_reason(wrong, "offset-ignored", fate=fate) is None
        assert equivalence_reason("mm", "strides-ignored", fate=fate) is None


def test_an_optional_argument_is_judged_by_the_calls_that_pass_it() -> None:
    assert (
        equivalence_reason("native_layer_norm_backward", "offset-ignored", position=6) is not None
    )  # position 6 is the bias
    assert equivalence_reason("native_layer_norm_backward", "offset-ignored", position=5) is None


def test_a_dtype_that_the_cpu_accepts_only_for_empty_tensors_is_excluded() -> None:
    fault = Mutant("aten::_linalg_det", "leak", 0, 0, "bfloat16")
    assert "in that dtype" in str(equivalent_mutants.equivalence_reason(fault, SURVIVED, {}))
    assert (
        equivalent_mutants.equivalence_reason(
            Mutant("aten::_linalg_det", "leak", 0, 0, "float64"), SURVIVED, {}
        )
        is None
    )


def test_layout_mutants_of_a_scalar_argument_are_excluded() -> None:
    assert "one element" in str(equivalence_reason("index_fill_.int_Tensor", "strides-ignored", position=3))
    assert equivalence_reason("where.self", "strides-ignored", position=1) is None


def test_calls_in_8_bit_dtypes_decide_if_no_other_calls_exist() -> None:
    assert "4 dimensions" in str(equivalence_reason("_scaled_mm", "rank", 4))
    assert equivalence_reason("_scaled_mm", "strides-ignored", position=1) is None


def test_a_stale_result_of_a_factory_is_equivalent() -> None:
    for overload_name, same in (
        ("kaiser_window", True),
        ("eye.m", True),
        ("kaiser_window.beta", False),
        ("add.Tensor", False),
    ):
        assert (
            equivalent_mutants.equivalence_reason(
                Mutant(f"aten::{overload_name}", "stale-result"), SURVIVED, {}
            )
            is not None
        ) == same, overload_name


def test_dtypes_that_torch_lists_for_other_devices_or_callers_are_not_excluded() -> None:
    for overload_name, dtype in (
        ("mul.Scalar", "complex32"),
        ("ne.Tensor", "complex32"),
        ("rrelu_with_noise", "float16"),
    ):
        assert (
            equivalent_mutants.equivalence_reason(
                Mutant(f"aten::{overload_name}", "leak", dtype=dtype), SURVIVED, {}
            )
            is None
        ), overload_name


def test_an_option_with_one_supported_value_is_excluded() -> None:
    assert "not implemented" in str(equivalence_reason("linalg_lu_factor_ex", "option-ignored", position=1))
    assert equivalence_reason("linalg_lu_solve", "option-ignored", position=3) is None
    assert equivalence_reason("_linalg_solve_ex", "option-ignored", position=2) is None
