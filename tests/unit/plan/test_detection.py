"""The detection power that certificates carry."""

from pathlib import Path

from conformance.model.vocabulary import LEVELS
from conformance.plan.levels.mutation_score import EarlierScores, LevelScore, MutationScores


def test_figures_are_read_as_they_were_written(tmp_path: Path) -> None:
    found = MutationScores("mine", "eager", "2.13", "2026-01-02", {"core": LevelScore(45, 100, 44, 50)})
    found.write(tmp_path / "detection.json")
    assert MutationScores.read(tmp_path / "detection.json") == found
    assert found.of("core", "eager") == LevelScore(45, 100, 44, 50)
    assert found.of("core", "lazy") is None
    assert found.of("full", "eager") is None
    assert LevelScore(45, 100, 44, 50).words() == (
        "45.0 % of 100 mutants, 88.0 % of the 50 mutants in code that it calls"
    )


def test_the_committed_figures_are_of_every_level() -> None:
    found = MutationScores.read()
    assert set(found.levels) == set(LEVELS)
    killed = [found.levels[level].killed for level in LEVELS]
    assert killed == sorted(killed)
    assert all(power.killed_called <= power.of_called <= power.of for power in found.levels.values())


def test_figures_of_earlier_days_become_history(tmp_path: Path) -> None:
    levels = {"core": LevelScore(45, 100, 44, 50)}
    days = [MutationScores("mine", "eager", "2.13", f"2026-01-0{day}", levels) for day in range(1, 4)]
    third = days[2].after(days[1].after(days[0]))
    assert [past.day for past in third.history] == ["2026-01-01", "2026-01-02"]
    third.write(tmp_path / "detection.json")
    assert MutationScores.read(tmp_path / "detection.json") == third
    assert third.history[0] == EarlierScores("2026-01-01", levels)
    assert days[2].after(third).history == third.history, "measured twice on a day"
    assert MutationScores("mine", "lazy", "2.13", "2026-01-04", levels).after(third).history == ()
    assert MutationScores("other", "eager", "2.13", "2026-01-04", levels).after(third).history == ()
