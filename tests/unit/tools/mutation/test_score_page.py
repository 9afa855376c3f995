"""``tools.mutation.score_page`` writes the page of the mutation score. ``regression_sample`` selects the
mutants that CI reruns.
"""

from pathlib import Path

import pytest

from conformance.errors import UsageError
from conformance.model.vocabulary import KINDS
from conformance.properties.registry import properties
from conformance.subjects.areas import AREAS
from tools.mutation import injectors, regression_sample, score, score_page
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
    MutantResult("aten::_cholesky_solve_helper leak 0 0 @any", Fate.ASLEEP.value),
]
CALLS = {("aten::add.Tensor", "called"): {"float32"}}
LEARNED = CoverageData(
    "digest", [], {"bringup": [], "core": ["value/add@int64"], "training": [], "full": []}, []
)


def test_every_mutation_operator_has_a_designated_property() -> None:
    assert set(DESIGNATED) == set(injectors.MUTATION_OPERATORS)
    designated = {entry.name for kind in KINDS for entry in properties(kind)}
    assert set(DESIGNATED.values()) <= designated | set(AREAS)


def test_the_page_contains_scores_and_surviving_mutants() -> None:
    learned = CoverageData(
        "digest", [], {"bringup": [], "core": [], "training": [], "full": _killing_results()}, []
    )
    core = score.Tally(killed=3, asleep=1)
    core.levels["core"] = 3
    tallies_by_point = score.count_outcomes(OUTCOMES, learned, CALLS, score.family_of_point)
    tallies = score.count_outcomes(OUTCOMES, learned, CALLS)
    text = score_page.markdown("Target x", tallies, OUTCOMES, CALLS, core, core, tallies_by_point)
    assert "| kernels of functions | 6 | 66.7 % | 0.0 % | 1 | 1 | 0 |" in text
    assert "| counted | 6 | 100 % |" in text
    assert "| killed at level full | 4 | 66.7 % |" in text
    assert "| killed at level full without parity ([basis](basis.md)) | 3 | 50.0 % |" in text
    assert "| killed at level core, of the 4 counted at points that its results call | 3 | 75.0 % |" in text
    checked = "of the 4 counted at points of the overloads that it checks | 3 | 75.0 % |"
    assert f"| killed at level core, {checked}" in text
    assert "| leak | 3 | 33.3 % | 0.0 % | 1 | 1 | 0 | overload-repeats |" in text
    assert "1 points with 1 mutants, none of which is covered:\n\n`aten::_cholesky_solve_helper`" in text
    assert "**leak** (overload-repeats): `aten::add.Tensor 0 0 @float32`" in text


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
