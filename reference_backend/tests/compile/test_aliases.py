"""Test that the compiler passes detect all memory that the tensors of a program share."""

from __future__ import annotations

import pytest
import torch
from habana_frameworks.torch.dynamo.compile_backend import recipe_support
from helpers.compile_programs import Program, Statement, assert_no_difference, difference_from_eager

INPUTS = (
    "x0 = numbers(step, 0, (4, 4)).to(device)",
    "x1 = numbers(step, 2, (4, 4)).to(device)",
    "x2 = numbers(step, 7, (4, 4)).to(device)",
)
#: Statements that compute `v0`. The compiler may reuse the memory of `v9` for the result of the addition.
SUM = ("v9 = x0 * 2", "v0 = v9 + x1")
ROWS = "torch.tensor([1, 0, 3, 2], device=x0.device)"

VIEWS = (
    "v0.t()",
    "v0.t()[1:].unsqueeze(0)",
    "v0[1]",
    "v0.as_strided((2, 2), (1, 4))",
    "v0.detach()",
    "torch.ops.aten.alias(v0)",
    "v0.expand(2, 4, 4)",
    "v0.expand_as(v0).t()",
    "v0.split(2)[1]",
    "v0.chunk(2, 1)[0]",
    "v0.unbind()[1]",
    "v0.contiguous().t()",
    "v0.to(torch.float32).t()",
    'v0.to("{device}").t()',
    "v0.reshape(-1)",
    "v0.view_as(x0).t()",
    "v0.diagonal()",
    "v0.clone()",
    "v0.clone().t()",
    "torch.nn.functional.dropout(v0, 0.5, False).t()",
    "torch.ops.aten._unsafe_view(v0, (2, 8))",
)


def make_program(*lines: str, returns: str, inputs: tuple[str, ...] = INPUTS) -> Program:
    on_device = (Statement(line.format(device="hpu"), line.format(device="cpu")) for line in lines)
    return Program(inputs, tuple(on_device), tuple(returns.split()))


def test_view_of_a_sum_survives_a_later_sum(interpreted) -> None:
    def function(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x, y, z = x.to("hpu"), y.to("hpu"), z.to("hpu")
        total = x + y
        view = total.t()
        return view, total + z

    x, y, z = (torch.randn(5, 5) for _ in range(3))
    view, total = interpreted(function)(x, y, z)
    assert torch.equal(view.cpu(), (x + y).t())
    assert torch.equal(total.cpu(), x + y + z)


@pytest.mark.parametrize("view", VIEWS)
def test_view_of_a_sum_is_read_after_a_later_sum(view: str) -> None:
    assert_no_difference(
        make_program(*SUM, f"v1 = {view}", "v2 = v0 + x2[0]", "v3 = v1 * 3", returns="v2 v3"), "interpreted"
    )


@pytest.mark.parametrize("view", [view for view in VIEWS if "dropout" not in view])
def test_view_of_a_sum_is_returned_after_a_later_sum(view: str) -> None:
    assert_no_difference(
        make_program(*SUM, f"v1 = {view}", "v2 = v0 + x2[0]", returns="v1 v2"), "interpreted"
    )


@pytest.mark.parametrize(
    "write",
    [
        f"v0.index_copy(0, {ROWS}, v0)",
        f"v0.index_add(0, {ROWS}, v0)",
        f"v0.index_put(({ROWS},), v0)",
        f"v0.index_put(({ROWS},), v0.t())",
        "v0.scatter(0, (x0 > 0).long(), v0)",
        "v0.scatter_add(0, (x0 > 0).long(), v0)",
        "v0 + v0",
        "v0 + v0.t()",
        "torch.add(v0, v0[0], alpha=2)",
    ],
)
def test_write_reads_the_tensor_that_it_may_overwrite(write: str) -> None:
    assert_no_difference(make_program(*SUM, f"v1 = {write}", returns="v1"), "interpreted")


@pytest.mark.parametrize(
    ("lines", "returns"),
    [
        (("v0 = x0 + x1", "v1 = x0.t()", "v2 = v1 + x2"), "v0 v2"),
        (("v0 = x0.t()", "v1 = v0 + x1", "v2 = v1 + 1"), "v2"),
        (("x0.add_(x1)", "v0 = x0.t()", "v1 = x0 + x2"), "v0 v1 x0"),
        (("v0 = x0.t()", "x0.add_(x1)", "v1 = v0 + x2"), "v0 v1"),
        (("v0 = x0 + x1", "x0.copy_(v0)"), "v0"),
        (("v0 = x0 + x1", "x0.copy_(v0)", "v1 = v0.t()"), "v1"),
        (("v0 = x0 + x1", "x0.copy_(v0)", "x2.copy_(v0)"), "v0 x0"),
        (("x0[1:].add_(x1[1:])", "v0 = x0 + x2"), "v0"),
    ],
)
@pytest.mark.parametrize("mode", ["habana", "core_aten"])
def test_inputs_and_their_views(lines: tuple[str, ...], returns: str, mode: str) -> None:
    assert_no_difference(make_program(*lines, returns=returns), "interpreted", decomposition_mode=mode)


@pytest.mark.parametrize("second", ["x1 = x0", "x1 = x0.t()"])
def test_inputs_that_share_memory(second: str) -> None:
    inputs = (INPUTS[0], second, INPUTS[2])
    lines = ("x0.add_(x2)", "v0 = x1 + x2", "v1 = v0 + x0")
    assert_no_difference(make_program(*lines, returns="v0 v1 x1", inputs=inputs), "interpreted")


@pytest.mark.parametrize(
    ("lines", "returns"),
    [
        # `v0` clones an input, `v1` is a view of `v0`, and `v2` clones this view.
        (("v0 = x0.clone()", "v1 = v0.view(-1)", "v2 = v1.clone()", "v3 = v2.view(4, 4).t()"), "v3"),
        (("v0 = x0 * 2", "v1 = v0.clone().t()", "v2 = v0.clone().t()"), "v1 v2"),
        (("v0 = x0 * 2", "v1 = v0.clone()", "v2 = v1.t()", "v3 = v0 + x1", "v4 = v2 + 1"), "v3 v4"),
        (("v0 = x0.clone()", "x0.add_(1)", "v1 = v0 + x0"), "v1"),
        (("v0 = torch.empty_like(x0).copy_(x0).t()", "v1 = x0 + 1"), "v0 v1"),
        (("v0 = x0 * 2", "v1 = v0.expand(4, 4)", "v2 = v0.view(4, 4)"), "v0 v1 v2"),
    ],
)
def test_clones_are_kept_if_a_program_can_notice_them(lines: tuple[str, ...], returns: str) -> None:
    assert_no_difference(make_program(*lines, returns=returns), "interpreted")


@pytest.mark.parametrize(
    "lines",
    [
        ("v0 = x0 * 2", "v1 = v0[1:3] + x1[1:3]", "v2 = v1.as_strided((2,), (1,), 0)"),
        ("v0 = x0 * 2", "v1 = v0[1:3].clone()", "v2 = v1.as_strided((2,), (1,), 0)"),
        ("v0 = x0[1:3].clone()", "v1 = v0.as_strided((2,), (1,), 1)", "v2 = v1 + 1"),
    ],
)
def test_as_strided_of_a_result_addresses_its_storage(lines: tuple[str, ...]) -> None:
    assert_no_difference(make_program(*lines, returns="v2"), "interpreted")


@pytest.fixture
def negation_falls_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipe_support, "hpu_fallback_op_list", ["aten::neg"])


VIEW_OF_A_WRITTEN_INPUT = make_program(
    "v0 = x0.t()", "v1 = v0 + 1", "v2 = v1.neg()", "v3 = v0 * 2 + v2", "x0.copy_(v2 + x1)", returns="v1 v3"
)


@pytest.mark.parametrize("executable", ["interpreted", "fused"])
def test_recipe_writes_an_input_and_reads_a_view_of_it(executable: str, negation_falls_back) -> None:
    assert_no_difference(VIEW_OF_A_WRITTEN_INPUT, executable)


def test_part_of_a_backward_graph_does_not_write_the_gradient(fused, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipe_support, "hpu_fallback_op_list", ["aten::mm", "aten::cos"])
    x, weight = (torch.randn(4, 4, device="hpu", requires_grad=grad) for grad in (False, True))
    program = fused(lambda x, weight: (x @ weight).sin() * 2)
    for _ in range(2):
        gradient = torch.randn(4, 4, device="hpu")
        before = gradient.clone()
        program(x, weight).backward(gradient)
        assert torch.equal(gradient, before)


def test_results_on_the_cpu_share_memory() -> None:
    inputs = (INPUTS[0], "x1 = numbers(step, 2, ())")
    lines = ("v0 = x1 + 1", "v1 = v0.detach()", "v2 = x0 * v0")
    assert_no_difference(make_program(*lines, returns="v0 v1 v2", inputs=inputs), "fused")


def test_wrong_aliasing_is_detected_and_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    from habana_frameworks.torch.dynamo.compile_backend import aliases

    monkeypatch.setattr(aliases.AliasSets, "record_shared_memory", lambda self, first, second: None)
    wrong = make_program(*SUM, "v1 = v0.t()", "v2 = v0 + x2", "v3 = v2 * 1", returns="v1 v2 v3")
    assert "result 0 (v1) is" in difference_from_eager(wrong, "interpreted")
    with pytest.raises(
        AssertionError, match=r"import torch(.|\n)*v1 = v0.t\(\)\n +v2 = v0 \+ x2\n +return \(v1, v2, \)"
    ):
        assert_no_difference(wrong, "interpreted")


@pytest.mark.parametrize("executable", ["interpreted", "fused"])
def test_an_expanded_result_keeps_its_strides(executable: str) -> None:
    def expanded(x: torch.Tensor) -> list[torch.Tensor]:
        return [(x + 1).expand(1, 3, 2), (x * 2).expand(2, 3, 1).transpose(0, 2)]

    x = torch.tensor([[3.0]], device="hpu")
    torch.compiler.reset()
    outputs = torch.compile(expanded, backend="hpu_backend", options={"executable": executable})(x)
    for output, expected in zip(outputs, expanded(x), strict=True):
        assert torch.equal(output.cpu(), expected.cpu())
        assert [s for s, n in zip(output.stride(), output.shape, strict=True) if n > 1] == [0, 0]
