"""The parts of a snippet: values are written as source text, definitions are copied with their dependencies,
and samples are shrunk.
"""

from __future__ import annotations

import ast
import copy
import dataclasses
import math
import re
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import torch

from conformance.model.verdicts import CaseId, Failure, Kind, ResultId, Verdict
from conformance.properties.registry import find_property
from conformance.reproduction import script, shrinking, snippet_call_checks, snippet_runtime
from conformance.reproduction.dead_code import needed_statements
from conformance.reproduction.inline_source import DefinitionCollector, statements_text
from conformance.reproduction.literals import ExpressionWriter
from conformance.reproduction.module_ast import NotWritableAsSource, Place, statements_by_name
from conformance.reproduction.rerun import RerunTrial, failure_signature
from conformance.reproduction.snippet_data import RELATIONS, SnippetData
from conformance.samples import operators as samples
from conformance.samples.operators import Sample
from conformance.subjects import torch_databases
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target
from conformance.worker.executor import Executor


def value_from_source_text(value: Any, *, share: Any = None) -> Any:
    """Write a value as source text, execute the text, and return the resulting value."""
    collector = DefinitionCollector()
    writer = ExpressionWriter(collector)
    writer.register_shared_tensors(value if share is None else share)
    text = writer.write(value)
    lines = [*sorted(collector.imports), collector.definitions_text(), *writer.statements, f"made = {text}"]
    space: dict[str, Any] = {"torch": torch, "math": math}
    for name in ("base64", "zlib", "types", "functools", "operator"):
        space[name] = __import__(name)
    exec(collector.with_readable_names("\n".join(lines)), space)
    return space["made"]


def same_values_and_metadata(left: torch.Tensor, right: torch.Tensor) -> bool:
    metadata = [(t.dtype, t.shape, t.layout, t.requires_grad, t.is_conj(), t.is_neg()) for t in (left, right)]
    if metadata[0] != metadata[1]:
        return False
    if left.layout is torch.strided and (left.stride(), left.storage_offset()) != (
        right.stride(),
        right.storage_offset(),
    ):
        return False
    dense = [(t.detach() if t.layout is torch.strided else t.detach().to_dense()) for t in (left, right)]
    first, second = (
        samples.bytes_of_storage(t.resolve_conj().resolve_neg().contiguous().clone()) for t in dense
    )
    return first == second


FLOATING = torch.tensor([[1.5, -0.0, math.inf], [math.pi, 1e-40, -math.inf]])
TENSORS = {
    "plain": FLOATING,
    "scalar": torch.tensor(3),
    "empty": torch.empty(0, 3),
    "bfloat16": FLOATING.bfloat16(),
    "float8": torch.tensor([0.5, -2.0]).to(torch.float8_e4m3fn),
    "complex32": torch.tensor([1 + 2j, -0.5j]).to(torch.complex32),
    "bool": torch.tensor([True, False]),
    "unsigned": torch.tensor([2**63 + 1, 0], dtype=torch.uint64),
    "equal": torch.full((3, 3), 7.25),
    "negative zeros": torch.full((9,), -0.0),
    "transposed": FLOATING.t(),
    "offset": torch.arange(10.0)[3:9:2],
    "expanded": torch.tensor([[1.0], [2.0]]).expand(2, 3),
    "conjugate": torch.tensor([1 + 2j]).conj(),
    "negative": torch._neg_view(torch.tensor([1.0, 2.0])),
    "differentiable": torch.tensor([1.0], requires_grad=True),
    "many": torch.randn(40, 40, generator=torch.Generator().manual_seed(0)),
    "sparse": torch.tensor([[0.0, 2.0], [3.0, 0.0]]).to_sparse(),
    "compressed": torch.tensor([[0.0, 2.0], [3.0, 0.0]]).to_sparse_csr(),
}


@pytest.mark.parametrize("name", TENSORS)
def test_the_source_text_of_a_tensor_evaluates_to_the_tensor(name: str) -> None:
    assert same_values_and_metadata(value_from_source_text(TENSORS[name]), TENSORS[name])


def test_the_source_text_of_nan_evaluates_to_nan() -> None:
    assert value_from_source_text(torch.tensor([math.nan, 1.0])).isnan().tolist() == [True, False]


def test_tensors_that_share_a_storage_share_it_in_the_source_text() -> None:
    base = torch.arange(6.0)
    first, second, whole = value_from_source_text((base[:4], base[2:], base))
    assert (
        same_values_and_metadata(first, base[:4])
        and same_values_and_metadata(second, base[2:])
        and same_values_and_metadata(whole, base)
    )
    assert len({t.untyped_storage().data_ptr() for t in (first, second, whole)}) == 1


def test_a_tensor_that_is_passed_twice_is_written_once() -> None:
    x = torch.ones(2)
    first, second = value_from_source_text((x, x))
    assert first is second


@pytest.mark.parametrize(
    "value",
    [
        None, True, 3, -0.5, 2 - 1j, "cpu", b"x", (1,), [1, (2.0, "a")], {"k": torch.float32},
        slice(1, None, 2),
        torch.Size([2, 3]), torch.channels_last, frozenset({1, 2}), torch.add, torch.nn.functional.relu,
        torch.Tensor.add_, torch.nn.Linear, math.sin, int, Kind.VALUE,
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_the_source_text_of_a_value_evaluates_to_the_value(value: Any) -> None:
    parsed = value_from_source_text(value)
    assert parsed == value if not isinstance(value, Kind) else parsed.value == value.value


def test_the_source_text_of_nan_and_infinity() -> None:
    assert math.isnan(value_from_source_text(math.nan))
    assert value_from_source_text((math.inf, -math.inf)) == (math.inf, -math.inf)


def test_every_operator_of_the_database_has_source_text() -> None:
    writer = ExpressionWriter(DefinitionCollector())
    for subject in torch_databases.subjects("operator"):
        for name in ("op", "method_variant", "inplace_variant", "operator_variant", "gradcheck_wrapper"):
            writer.write(getattr(subject.info, name))


def test_the_source_text_of_a_wrapper_computes_the_same() -> None:
    names = (
        "polygamma.polygamma_n_1",
        "std_mean",
        "cat",
        "norm.nuc",
        "sum_to_size",
        "einsum",
        "item",
        "float",
    )
    compared = 0
    for name in names:
        try:
            subject = torch_databases.find("operator", name)
        except LookupError:
            continue
        compared += 1
        parsed = value_from_source_text(subject.info.op)
        sample = samples.samples_of(subject, torch.float32)[0]
        expected, actual = sample.call(subject.info.op), sample.call(parsed)
        for a, b in zip(samples.trees.leaves(expected), samples.trees.leaves(actual), strict=True):
            assert torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b
    assert compared >= 5


def test_a_value_without_source_text_is_reported() -> None:
    with pytest.raises(NotWritableAsSource, match="cannot be written as a literal"):
        ExpressionWriter(DefinitionCollector()).write(
            torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
        )


@pytest.mark.parametrize("name", ["limit", "_for"])
def test_generated_names_hide_no_name_and_are_not_keywords(name: str) -> None:
    collector = DefinitionCollector()
    own = collector.temporary_name(name)
    text = collector.with_readable_names(
        f"def f(limit):\n    return {own}(limit)\n\n\n{own} = abs\nfound = f(-3)"
    )
    space: dict[str, Any] = {}
    exec(text, space)
    assert space["found"] == 3


def test_names_of_one_assignment_are_copied_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "two_names.py").write_text(
        "ONE, (TWO, _) = 1, (2, 3)\n\n\ndef both():\n    return ONE + TWO\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    collector = DefinitionCollector(is_inlined=lambda module: module == "two_names")
    name = collector.add_definition("two_names", "both")
    space: dict[str, Any] = {}
    exec(collector.with_readable_names(f"{collector.definitions_text()}\nmade = {name}()"), space)
    assert space["made"] == 3


def test_a_block_that_becomes_empty_is_valid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "import contextlib\n\n\ndef f(x):\n    with contextlib.nullcontext():\n"
    text += "        from empty_block import g\n"
    text += "    if x:\n        from empty_block import g\n    return g()\n\n\ndef g():\n    return 5\n"
    (tmp_path / "empty_block.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    collector = DefinitionCollector(is_inlined=lambda module: module == "empty_block")
    name = collector.add_definition("empty_block", "f")
    space: dict[str, Any] = {}
    exec(
        collector.with_readable_names(f"import contextlib\n{collector.definitions_text()}\nmade = {name}(1)"),
        space,
    )
    assert space["made"] == 5


def test_a_definition_is_copied_with_its_dependencies() -> None:
    collector = DefinitionCollector()
    name = collector.add_definition("conformance.model.verdicts", "ResultId")
    text = collector.with_readable_names(
        "\n".join([*sorted(collector.imports), collector.definitions_text(), f"made = {name}"])
    )
    assert "conformance" not in text.replace("of the conformance", "")
    space: dict[str, Any] = {"__name__": "snippet"}
    sys.modules["snippet"] = type(sys)("snippet")  # @dataclass looks up the module of a class
    exec("from __future__ import annotations\n" + text, space)
    assert str(space["made"].parse("value/add@float32")) == "value/add@float32"


def test_lambdas_and_closures_are_copied() -> None:
    def adder(amount: int) -> Any:
        return lambda x: x + amount

    def scaler(factor: int) -> Any:
        def scaled(x: int, *, times: int = factor) -> int:
            return sum(factor * x for factor in (times,)) + factor

        return scaled

    writer = ExpressionWriter(DefinitionCollector(is_inlined=lambda module: module == __name__))
    text = writer.write((adder(2), scaler(3), lambda x, double=2: x * double))
    space: dict[str, Any] = {}
    exec(writer.collector.with_readable_names(f"{writer.collector.definitions_text()}\nmade = {text}"), space)
    added, scaled, doubled = space["made"]
    assert (added(1), scaled(5), scaled(5, times=2), doubled(4)) == (3, 18, 13, 8)


def test_names_of_inner_scopes_hide_names_of_the_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = """
        limit, count = 7, 0

        class Box:
            limit = 2

            def get(self):
                return limit

        def inner(limit):
            return [limit for limit in (limit + 1,)] + [(lambda limit=limit: limit)()]

        def bound():
            global count
            count += 1
            try:
                raise ValueError(limit)
            except ValueError as error:
                limits = {str(error): limit}
            return inner(1), Box().get(), Box.limit, limits, count
        """
    (tmp_path / "scopes.py").write_text(textwrap.dedent(text))
    monkeypatch.syspath_prepend(str(tmp_path))
    collector = DefinitionCollector(is_inlined=lambda module: module == "scopes")
    name = collector.add_definition("scopes", "bound")
    space: dict[str, Any] = {}
    exec(collector.with_readable_names(f"{collector.definitions_text()}\nmade = {name}()"), space)
    assert space["made"] == ([2, 1], 7, 2, {"7": 7}, 1)


def test_unused_definitions_are_omitted() -> None:
    text = """
        class _q1q_A:
            def used(self):
                return _q2q_f()
            def unused(self):
                return _q3q_g()
            def __len__(self):
                return 0

        class _q4q_B(Exception):
            def called_by_the_base(self):
                pass

        def _q2q_f():
            raise _q4q_B

        def _q3q_g():
            return _q3q_g()

        _q5q_x = 1
        """
    needed_text = statements_text(needed_statements(ast.parse(textwrap.dedent(text)).body, "_q1q_A().used()"))
    names = {
        node.name
        for node in ast.walk(ast.parse(needed_text))
        if isinstance(node, (ast.FunctionDef, ast.ClassDef))
    }
    assert names == {"_q1q_A", "used", "__len__", "_q4q_B", "called_by_the_base", "_q2q_f"}
    assert "_q5q_x" not in needed_text


def definitions_named_in_strings() -> set[Place]:
    """Return every (module, name) pair that the package ``reproduction`` mentions in strings."""
    data = SnippetData(trial_with_broken_operator("add", "float32", None), None, rules=False)
    named: set[Place] = {*script.REPLACED, *script.REPLACED.values(), *data.values, RELATIONS}
    for path in Path(script.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("require"):
                constants = [constant.value for constant in node.args if isinstance(constant, ast.Constant)]
                if len(constants) == 2:
                    named.add((constants[0], constants[1]))
    return named


def test_every_definition_that_is_named_by_strings_exists() -> None:
    named = definitions_named_in_strings()
    assert ("conformance.model.verdicts", "ResultId") in named
    assert len(named) > 50
    for module, name in named:
        assert name in statements_by_name(module), f"{module} has no {name}"
        assert not name.startswith("_"), f"{name} of {module} is private"


def test_every_check_that_call_snippets_use_exists() -> None:
    names = set(re.findall(r"\bcheck_\w+", (Path(script.__file__).parent / "call_snippet.py").read_text()))
    assert names == {name for name in vars(snippet_call_checks) if name.startswith("check_")}


# Tests of shrinking, with an injected fault on the CPU


def trial_with_broken_operator(name: str, dtype: str, breaks: Any, *, property: str = "value") -> RerunTrial:
    whole = torch_databases.find("operator", name)
    info = copy.copy(whole.info)
    right = info.op
    info.op = lambda *args, **kwargs: breaks(right, *args, **kwargs)
    target = Target("cpu", None, "cpu", frozenset({dtype}), {})
    identity = ResultId(CaseId(property, name), dtype)
    samples.clear_cache()
    return RerunTrial(
        Executor(target), find_property("operator", property), Subject("operator", name, info), identity
    )


def shrink_first_failure(trial: RerunTrial, **options: Any) -> shrinking.ShrinkingResult:
    result = trial.run()
    assert result.verdict is Verdict.FAIL
    return shrinking.shrink_samples(trial, result.failures[0], sample_index=None, **options)


def test_a_fault_in_all_results_shrinks_to_one_number() -> None:
    shrunk_sample = shrink_first_failure(
        trial_with_broken_operator("mul", "float32", lambda op, *a, **k: op(*a, **k) + 1)
    )
    assert (
        shrunk_sample.sample.describe() == "float32[], float32[]"
        or shrunk_sample.sample.describe() == "float32[], 0.0"
    )
    assert shrunk_sample.failure.kind is Kind.VALUE
    assert all(float(t) == 0 for t in shrunk_sample.sample.tensors())


def test_a_fault_of_one_keyword_keeps_only_this_keyword() -> None:
    trial = trial_with_broken_operator(
        "add", "float32", lambda op, *a, alpha=1, **k: op(*a, alpha=alpha, **k) + (alpha != 1)
    )
    shrunk_sample = shrink_first_failure(trial)
    assert set(shrunk_sample.sample.kwargs) == {"alpha"}
    assert shrunk_sample.sample.input.dim() == 0


def test_a_fault_of_larger_shapes_keeps_the_smallest_that_fails() -> None:
    def breaks(op: Any, x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        return op(x, *args, **kwargs) + (x.dim() >= 1 and x.shape[-1] >= 3)

    shrunk_sample = shrink_first_failure(trial_with_broken_operator("exp", "float32", breaks))
    assert list(shrunk_sample.sample.input.shape) == [3]


def test_a_fault_of_strides_keeps_a_strided_input() -> None:
    def breaks(op: Any, x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        return op(x, *args, **kwargs) + (not x.is_contiguous())

    trial = trial_with_broken_operator("exp", "float32", breaks, property="layout")
    shrunk_sample = shrink_first_failure(trial)
    assert shrunk_sample.failure.kind is Kind.VALUE
    assert shrunk_sample.sample.input.numel() <= 4


def test_shrinking_does_not_accept_a_different_failure() -> None:
    """If a smaller input is refused, the refusal does not reproduce the wrong value of the larger input."""

    def breaks(op: Any, x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if x.numel() < 6:
            raise NotImplementedError("too small")
        return op(x, *args, **kwargs) + 1

    trial = trial_with_broken_operator("exp", "float32", breaks)
    result = trial.run()
    wrong = next(failure for failure in result.failures if failure.kind is Kind.VALUE)
    shrunk_sample = shrinking.shrink_samples(trial, wrong, sample_index=None)
    assert shrunk_sample.sample.input.numel() >= 6
    assert shrunk_sample.failure.kind is Kind.VALUE


def test_without_simplify_the_failing_sample_runs_alone() -> None:
    trial = trial_with_broken_operator("mul", "float32", lambda op, *a, **k: op(*a, **k) + 1)
    before = trial.run().failures[0].sample
    shrunk_sample = shrink_first_failure(trial, simplify=False)
    assert shrunk_sample.tried == 0
    assert shrunk_sample.summary == f"sample {before} alone"


def test_shrinking_ends_with_its_time_budget() -> None:
    shrunk_sample = shrink_first_failure(
        trial_with_broken_operator("mul", "float32", lambda op, *a, **k: op(*a, **k) + 1), budget=0.0
    )
    assert shrunk_sample.tried == 0
    assert shrunk_sample.failure.kind is Kind.VALUE


def test_shrinking_restores_the_shared_samples() -> None:
    trial = trial_with_broken_operator("mul", "float32", lambda op, *a, **k: op(*a, **k) + 1)
    trial.run()
    before = {key: len(sample_set) for key, sample_set in trial.used_sample_sets().items()}
    shrink_first_failure(trial)
    assert {key: len(sample_set) for key, sample_set in trial.used_sample_sets().items()} == before
    assert not samples.modified_samples()


def test_candidates_do_not_change_the_original_sample() -> None:
    sample = Sample(0, torch.randn(3, 4), (torch.randn(4), 3), {"alpha": 2, "beta": True})
    before = samples.sample_fingerprint(sample)
    smaller = list(shrinking.simpler_samples(sample))
    assert len(smaller) > 10
    assert samples.sample_fingerprint(sample) == before
    assert all(
        dataclasses.asdict(candidate).keys() == dataclasses.asdict(sample).keys() for candidate in smaller
    )


@pytest.mark.parametrize(
    ("left", "right", "same_kind"),
    [
        (
            "the result is 1.5 at [0, 1], expected 2.5 (1 of 9)",
            "the result is nan at [], expected 0.0",
            True,
        ),
        ("the result is 1.5 at [0]", "the method's result is 1.5 at [0]", False),
    ],
)
def test_the_signature_ignores_numbers_of_a_message(left: str, right: str, same_kind: bool) -> None:
    first, second = (failure_signature(Failure(Kind.VALUE, text)) for text in (left, right))
    assert (first == second) is same_kind


def test_signatures_of_different_errors_and_kinds_differ() -> None:
    def signature_of(kind: Kind, text: str) -> str:
        return failure_signature(Failure(kind, text))

    raised = "the operator on (float32[2, 3]) raised RuntimeError: no block of 24 bytes"
    assert signature_of(Kind.EXCEPTION, raised) == signature_of(
        Kind.EXCEPTION, raised.replace("24", "8").replace("[2, 3]", "[]")
    )
    assert signature_of(Kind.EXCEPTION, raised) != signature_of(
        Kind.EXCEPTION, raised.replace("RuntimeError", "TypeError")
    )
    assert signature_of(Kind.EXCEPTION, raised) != signature_of(Kind.REFUSED, raised)


def test_the_recorder_of_snippets_has_the_methods_of_the_recorder() -> None:
    from conformance.framework.recorder import Recorder

    identity = ResultId(CaseId("value", "add"), "float32")
    real, short = Recorder(identity, seed=1), snippet_runtime.Recorder(identity, seed=1)
    wanted = {name for name in dir(real) if not name.startswith("_")} - {
        "result",
        "excuse_failures_shared_with",
    }
    assert wanted <= set(dir(short))
