"""The output of ``conformance certify``, and its messages for user errors."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from expecttest import assert_expected_inline

from conformance import cli
from conformance.results.merge import merge_legs
from tests.support import sample_passing_leg
from tests.support.sample_passing_leg import Leg

Capture = pytest.CaptureFixture[str]


def with_declaration(leg: Leg, **changes: Any) -> Leg:
    leg["target"]["declared"] |= changes
    return leg


def test_the_output_for_a_held_level(tmp_path: Path, capsys: Capture) -> None:
    leg = sample_passing_leg.leg()
    leg["target"]["simulated"] = True
    out, bundle = sample_passing_leg.write_output_folder(tmp_path / "out", leg), tmp_path / "bringup.zip"
    assert cli.main(["certify", str(out), "-o", str(bundle)]) == 0
    output = capsys.readouterr().out
    assert "mine: bringup in eager on torch 2.13, self-reported" in output
    assert "simulated device: no hardware stands behind these results" in output
    assert cli.main(["certify", "--verify", str(bundle)]) == 0
    output = capsys.readouterr().out
    order = [
        output.index(heading)
        for heading in ("verified:", "evidence (recounted", "statements (self-reported", "to repeat the run:")
    ]
    assert order == sorted(order) and "simulated device" in output


def test_the_output_for_a_level_that_is_not_held(tmp_path: Path, capsys: Capture) -> None:
    off = {"verdict": "fail", "failures": [{"kind": "value", "message": "off"}], "failure_count": 1}
    leg = with_declaration(sample_passing_leg.leg("core"), dtypes=["float32", "int64", "bool"])
    leg["results"] = [
        row for row in leg["results"] if row["id"] not in ("value/exp@float32", "value/mul@float16")
    ]
    leg = sample_passing_leg.with_rows(
        leg, {f"layout/{name}@float32": off for name in ("add", "mul", "mm", "sub")}
    )
    out = sample_passing_leg.write_output_folder(tmp_path / "out", leg)
    assert cli.main(["certify", str(out), "-o", str(tmp_path / "core.zip")]) == 3
    assert not (tmp_path / "core.zip").exists()
    lines = [
        line
        for line in capsys.readouterr().out.splitlines()
        if "not claimed" not in line and "claimed results" not in line
    ]
    assert_expected_inline(
        re.sub(r"of \d+ results", "of N results", "\n".join(lines)),
        """\
mine, eager, torch 2.13.0+cpu: does not hold core in eager on torch 2.13
  4 missing: fail (value)
    layout/add@float32
    layout/mm@float32
    layout/mul@float32
    and 1 more
  1 missing: no result
    value/exp@float32
held: no level
nearest: bringup, 1 of N results are missing, first value/exp@float32
next: conformance repro layout/add@float32 --target mine.toml --mode eager""",
    )


def test_the_output_names_the_narrower_level_that_is_held(tmp_path: Path, capsys: Capture) -> None:
    leg = sample_passing_leg.with_rows(
        sample_passing_leg.leg("core"), {"layout/add@float32": {"verdict": "flaky"}}
    )
    out = sample_passing_leg.write_output_folder(tmp_path / "out", leg)
    assert cli.main(["certify", str(out)]) == 3
    output = capsys.readouterr().out
    assert "held: bringup in eager" in output and "--level bringup --mode eager -o BUNDLE" in output
    assert cli.main(["certify", str(out), "--level", "bringup"]) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "either the output folder of a run, or --verify"),
        (["out", "--verify", "x.zip"], "either the output folder of a run, or --verify"),
        (["--verify", "x.zip", "--level", "core"], "--verify accepts no other options"),
        (["out", "--mode", "eager", "--level", "smoke"], "level smoke cannot be certified"),
        (
            ["out", "--level", "whole"],
            "level 'whole' does not exist; certify one of bringup, core, training, full\n",
        ),
        (["out", "--mode", "lazy"], "no leg of mode lazy"),
        (["out"], "a certificate covers one leg, but 2 legs match"),
        (["out", "--mode", "eager", "-o", "."], "is a folder"),
        (["nothing"], "contains no results"),
        (["--verify", "nothing.zip"], "cannot be read"),
    ],
)
def test_errors_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    sample_passing_leg.write_output_folder(
        tmp_path / "out", sample_passing_leg.leg(), sample_passing_leg.leg(mode="graph")
    )
    assert cli.main(["certify", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_mode_selects_one_of_several_legs(tmp_path: Path, capsys: Capture) -> None:
    out = sample_passing_leg.write_output_folder(
        tmp_path / "out", sample_passing_leg.leg(), sample_passing_leg.leg(mode="graph")
    )
    assert cli.main(["certify", str(out), "--mode", "graph"]) == 0
    assert "bringup in graph" in capsys.readouterr().out


def test_a_torch_without_manifest_entry_is_a_usage_error(tmp_path: Path, capsys: Capture) -> None:
    leg = sample_passing_leg.leg(torch="2.99.0", name="2.99.0-eager", build="2.99.0")
    out = sample_passing_leg.write_output_folder(tmp_path / "out", leg)
    assert cli.main(["certify", str(out)]) == 3
    output = capsys.readouterr().out
    assert output.count("\n") == 1 and "the manifest has no entry for torch 2.99 (it has 2.6, 2.7," in output


def test_results_of_a_different_suite_are_not_certified(tmp_path: Path, capsys: Capture) -> None:
    leg = sample_passing_leg.leg()
    leg["digests"]["suite"] = "f" * 64
    out = sample_passing_leg.write_output_folder(tmp_path / "out", leg)
    assert cli.main(["certify", str(out), "-o", str(tmp_path / "b.zip")]) == 3
    assert "different copy of the suite" in capsys.readouterr().out
    assert not (tmp_path / "b.zip").exists()


def test_results_without_a_declaration_must_be_rerun(tmp_path: Path, capsys: Capture) -> None:
    leg = sample_passing_leg.leg()
    del leg["target"]["declared"]
    assert cli.main(["certify", str(sample_passing_leg.write_output_folder(tmp_path / "out", leg))]) == 2
    assert "run the suite again" in capsys.readouterr().err


def test_a_certificate_needs_all_shards(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with sample_passing_leg.fixed_suite_digest():
        shard = sample_passing_leg.leg(shard="1/2")
        for name, leg_record in (("shard", shard), ("merged", merge_legs([("a", shard)])[0])):
            out = sample_passing_leg.write_output_folder(tmp_path / name, leg_record)
            assert cli.main(["certify", str(out)]) == 3
            output = capsys.readouterr().out
            assert (
                "  the run is shard 1/2; merge all shards first\n" in output and "not complete" not in output
            )
            assert output.endswith(
                "next: conformance merge DIR... -o OUT, with the folders of all 2 shards\n"
            )
        # This leg also has too few samples. The remaining shard would not correct this, so the command
        # proposes a new run.
        out = sample_passing_leg.write_output_folder(
            tmp_path / "less", sample_passing_leg.leg(shard="1/2", samples="4")
        )
        assert cli.main(["certify", str(out)]) == 3
        assert "\nnext: conformance run --target mine.toml" in capsys.readouterr().out
