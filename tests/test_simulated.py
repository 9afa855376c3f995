"""A simulated device says so wherever its results are shown; and what a run writes down of its machine."""

from __future__ import annotations

from pathlib import Path

import certifiable
import pytest

from conformance.builds import describe, installed
from conformance.certificate import issue
from conformance.errors import UsageError
from conformance.plan.levels import manifest
from conformance.report import compact, summary
from conformance.results.document import document
from conformance.target import file as target_file


def _leg(simulated: bool) -> certifiable.Leg:
    leg = certifiable.leg()
    leg["target"]["simulated"] = simulated
    return leg


@pytest.mark.parametrize("simulated", [True, False])
def test_summary_report_and_certificate_say_it(simulated: bool, tmp_path: Path) -> None:
    leg = _leg(simulated)
    lines = list(summary.lines(document([leg]), folder=tmp_path))
    assert ("mine (simulated), eager" in lines[0]) is simulated
    assert compact.compact(document([leg]))["legs"][0]["target"]["simulated"] is simulated
    _, certificate, _ = issue.issue(leg, manifest.load(), "bringup")
    assert (certificate["claim"]["notice"] is not None) is simulated
    assert certificate["statements"]["target"]["simulated"] is simulated


def test_the_page_shows_it() -> None:
    script = (Path(compact.__file__).parent / "page.js").read_text()
    assert script.count("target.simulated") == 2


def test_the_targets_that_are_simulated_say_so(tmp_path: Path) -> None:
    found = {name for name in target_file.known_targets() if target_file.load(name).simulated}
    assert found >= {"hpu-reference", "hpu-reference-queued"}
    assert not found & {"cpu", "cuda", "mps", "torch_npu", "xpu"}
    (tmp_path / "mine.toml").write_text('schema = 1\nname = "mine"\ndevice = "cpu"\nsimulated = "yes"\n')
    with pytest.raises(UsageError, match="simulated is 'yes'; it must be true or false"):
        target_file.load(str(tmp_path / "mine.toml"))


def test_results_carry_what_the_file_declares(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        'schema = 1\nname = "mine"\ndevice = "cpu"\ndtypes = ["float32", "bool"]\n'
        '[capabilities]\nstreams = false\n[unsupported]\n"*/fft*@float32" = "no transforms"\n'
        '[operators.add]\ndtypes = ["float32"]\n[hooks]\ndelay = "mine:delay"\n'
    )
    assert target_file.load(str(tmp_path / "mine.toml")).declared() == {
        "dtypes": ["bool", "float32"],
        "capabilities": {"streams": False},
        "unsupported": {"*/fft*@float32": "no transforms"},
        "operators": {"add": ["float32"]},
        "hooks": ["delay"],
    }


def test_no_variable_but_those_of_the_list_is_written_down_and_no_path() -> None:
    variables = {"OMP_NUM_THREADS": "2", "HOME": "/home/jane", "PYTHONHASHSEED": "/etc", "TOKEN": "x"}
    assert installed.environment(variables) == {"OMP_NUM_THREADS": "2"}


def test_the_digest_of_the_wheel_is_that_of_its_files_alone() -> None:
    def digest(*lines: str) -> str | None:
        return describe.digest("\n".join(lines))

    own = ("torch/_C.so,sha256=abc,12", "torch/version.py,sha256=def,3")
    here = (
        "../../bin/torchrun,sha256=xyz,4",
        "torch/__pycache__/version.cpython-311.pyc,,",
        "torch-2.dist-info/INSTALLER,,",
    )
    assert digest(*own) == digest(*reversed(own), *here) is not None
    assert digest("torch/_C.so,sha256=other,12", own[1]) != digest(*own)
    assert digest() is None
