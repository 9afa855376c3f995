"""``plan.levels.mutation_score`` reads and writes the mutation scores that certificates state."""

from pathlib import Path

from conformance.model.vocabulary import LEVELS
from conformance.plan.levels.mutation_score import EarlierScores, LevelScore, MutationScores


def test_scores_are_written_and_read_back(tmp_path: Path) -> None:
    scores = MutationScores("mine", "eager", "2.13", "2026-01-02", {"core": LevelScore(45, 100, 44, 50)})
    scores.write(tmp_path / "detection.json")
    assert MutationScores.read(tmp_path / "detection.json") == scores
    assert scores.of("core", "eager") == LevelScore(45, 100, 44, 50)
    assert scores.of("core", "lazy") is None
    assert scores.of("full", "eager") is None
    assert LevelScore(45, 100, 44, 50).describe() == (
        "45.0 % of 100 mutants, 88.0 % of the 50 mutants in code that it calls"
    )


def test_the_committed_scores_include_every_level() -> None:
    scores = MutationScores.read()
    assert set(scores.levels) == set(LEVELS)
    killed = [scores.levels[level].killed for level in LEVELS]
    assert killed == sorted(killed)
    assert all(power.killed_called <= power.of_called <= power.of for power in scores.levels.values())


def test_scores_of_earlier_days_become_history(tmp_path: Path) -> None:
    levels = {"core": LevelScore(45, 100, 44, 50)}
    days = [MutationScores("mine", "eager", "2.13", f"2026-01-0{day}", levels) for day in range(1, 4)]
    third = days[2].with_history_of(days[1].with_history_of(days[0]))
    assert [past.day for past in third.history] == ["2026-01-01", "2026-01-02"]
    third.write(tmp_path / "detection.json")
    assert MutationScores.read(tmp_path / "detection.json") == third
    assert third.history[0] == EarlierScores("2026-01-01", levels)
    assert days[2].with_history_of(third).history == third.history, (
        "a second measurement on one day added to the history"
    )
    assert MutationScores("mine", "lazy", "2.13", "2026-01-04", levels).with_history_of(third).history == ()
    assert MutationScores("other", "eager", "2.13", "2026-01-04", levels).with_history_of(third).history == ()
