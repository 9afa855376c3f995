"""``tools.mutation.score_page`` writes the page of the mutation score. ``regression_sample`` selects the
mutants that CI reruns.
"""

import dataclasses
from pathlib import Path

import pytest

from conformance.errors import UsageError
from conformance.model.vocabulary import KINDS, LEVELS
from conformance.properties.registry import properties
from conformance.subjects.areas import AREAS
from tools.mutation import hold_out, injectors, regression_sample, score, score_page
from tools.mutation.campaign import Fate, MutantResult
from tools.mutation.coverage_run import CoverageData
from tools.mutation.designated_properties import DESIGNATED
from tools.mutation.mutant import Mutant

OUTCOMES = [
    MutantResult(
        "aten::add.Tensor last-element 0 0 @any", Fate.KILLED.value, "value/add@int64", "fail", seconds=0.1
    ),
    MutantResult("aten::mul.Tensor last-element 0 0 @any", Fate.KILLED.value, "value/mul@int64", "crash"),
    MutantResult("aten::mul.Tensor leak 0 0 @any", Fate.KILLED.value, "value/mul@int64", "fail", seconds=0.2),
    MutantResult(
        "aten::sub.Tensor last-element 0 0 @any",
        Fate.KILLED.value,
        "value/sub@int64",
        "fail",
        "value",
        True,
        seconds=60.0,
    ),
    MutantResult("aten::add.Tensor leak 0 0 @float32", Fate.SURVIVED.value),
    MutantResult("aten::add.Tensor swapped-arguments 0 1 @any", Fate.SURVIVED.value),
    MutantResult("aten::_cholesky_solve_helper leak 0 0 @any", Fate.NOT_COVERED.value),
]
CALLS = {("aten::add.Tensor", "called"): {"float32"}}


def test_every_mutation_operator_has_a_designated_property() -> None:
    assert set(DESIGNATED) == set(injectors.MUTATION_OPERATORS)
    designated = {entry.name for kind in KINDS for entry in properties(kind)}
    assert set(DESIGNATED.values()) <= designated | set(AREAS)


def test_the_page_contains_scores_and_surviving_mutants() -> None:
    learned = CoverageData(
        "digest",
        [],
        {"bringup": [], "core": ["value/add@int64"], "training": [], "full": _killing_results()},
        [],
    )
    scores = score_page.PageScores.of(OUTCOMES, learned)
    core = score.Tally(killed=3, survived=1)
    core.levels["core"] = 3
    scores = dataclasses.replace(scores, called_by_core=core, checked_by_core=core)
    text = score_page.markdown("Target x", scores, OUTCOMES, CALLS)
    assert "| drawn | 7 | |" in text
    assert "| not covered: no call triggered them | 1 | 14.3 % of the drawn |" in text
    assert "| altered a call | 6 | 100 % |" in text
    assert "| killed at level core | 1 | 16.7 % |" in text
    assert "| killed at level full | 4 | 66.7 % (" in text
    assert "| killed at level full without parity ([basis](basis.md)) | 3 | 50.0 % |" in text
    assert "| killed at level core, of the 4 at points that its results call | 3 | 75.0 % |" in text
    assert "| survived | 2 | 33.3 % |" in text
    assert "| survived, but equivalent by a rule | 1 | 16.7 % |" in text
    assert "| killed at level full, of the 5 that are not equivalent | 4 | 80.0 % |" in text
    assert "| torch documents the operator as symmetric in the two tensors | 1 |" in text
    assert "| kernels of functions | 6 | 66.7 % | 16.7 % | 2 | 1 | 1 |" in text
    assert "| leak | 2 | 50.0 % | 0.0 % | 1 | 0 | 1 | overload-repeats |" in text
    assert "1 points with 1 mutants, none of which is covered:\n\n`aten::_cholesky_solve_helper`" in text


def test_the_page_lists_survivors_that_are_neither_equivalent_nor_held_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    learned = CoverageData("digest", [], {**{level: [] for level in LEVELS}, "full": _killing_results()}, [])
    scores = score_page.PageScores.of(OUTCOMES, learned)
    for held_out in (False, True):
        monkeypatch.setattr(hold_out, "is_held_out", lambda mutant, answer=held_out: answer)
        text = score_page.markdown("Target x", scores, OUTCOMES, CALLS)
        assert ("**leak** (overload-repeats): `aten::add.Tensor 0 0 @float32`" in text) is not held_out
        assert f"{int(held_out)} held-out survivors are not listed." in text
        assert "swapped-arguments** (" not in text


@pytest.mark.parametrize(
    ("point", "sort_name"),
    [
        ("aten::add.Tensor", "kernels of functions"),
        ("aten::add_.Tensor", "kernels in place"),
        ("aten::add.out", "kernels with out="),
        ("aten::nll_loss_backward.grad_input", "kernels of derivatives"),
        ("aten::copy_", "copies"),
        ("autocast::aten::mm", "autocast"),
        ("guard::block", "streams and events"),
    ],
)
def test_the_family_of_a_mutation_point(point: str, sort_name: str) -> None:
    assert score.family_of_point(Mutant(point, "last-element")) == sort_name


def _killing_results() -> list[str]:
    return [outcome.killer for outcome in OUTCOMES if outcome.killer]


def test_the_sample_contains_quickly_killed_mutants_of_each_operator() -> None:
    chosen = regression_sample.choose_sample(OUTCOMES, "2.13", "eager", 10)
    assert dict(chosen.killers) == {
        "aten::add.Tensor last-element 0 0 @any": "value/add@int64",
        "aten::mul.Tensor leak 0 0 @any": "value/mul@int64",
    }
    assert len(regression_sample.choose_sample(OUTCOMES, "2.13", "eager", 1).killers) == 1


def test_a_sample_is_written_and_read_back(tmp_path: Path) -> None:
    chosen = regression_sample.choose_sample(OUTCOMES, "2.13", "eager")
    chosen.write(tmp_path / "sample.json")
    assert regression_sample.Sample.read(tmp_path / "sample.json") == chosen
    (tmp_path / "sample.json").write_text("[]")
    with pytest.raises(UsageError, match="not a sample"):
        regression_sample.Sample.read(tmp_path / "sample.json")
