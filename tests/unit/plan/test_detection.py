"""The detection power that certificates carry."""

from pathlib import Path

from conformance.model.vocabulary import LEVELS
from conformance.plan.levels.detection import Detection, Power


def test_figures_are_read_as_they_were_written(tmp_path: Path) -> None:
    found = Detection("mine", "eager", "2.13", {"core": Power(45, 100, 44, 50)})
    found.write(tmp_path / "detection.json")
    assert Detection.read(tmp_path / "detection.json") == found
    assert found.of("core", "eager") == Power(45, 100, 44, 50)
    assert found.of("core", "lazy") is None
    assert found.of("full", "eager") is None
    assert Power(45, 100, 44, 50).words() == (
        "45.0 % of 100 planted faults, 88.0 % of the 50 at places that it calls"
    )


def test_the_committed_figures_are_of_every_level() -> None:
    found = Detection.read()
    assert set(found.levels) == set(LEVELS)
    killed = [found.levels[level].killed for level in LEVELS]
    assert killed == sorted(killed)
    assert all(power.killed_called <= power.of_called <= power.of for power in found.levels.values())
