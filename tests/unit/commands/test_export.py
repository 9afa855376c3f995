"""``conformance export`` writes each format. It counts the results that the format cannot express."""

from __future__ import annotations

import pytest

from conformance import cli
from tests.support.sample_deviating_leg import leg, row
from tests.support.sample_passing_leg import fixed_suite_digest, write_output_folder


@pytest.fixture
def run(tmp_path):
    rows = [
        row("out/add@float32", "fail", "value"),
        row("value/add@int8", "unsupported"),
        row("out_device/add@float32", "fail", "state"),
        row("value/mul@int8", "flaky"),
    ]
    with fixed_suite_digest():
        write_output_folder(tmp_path / "run", leg(*rows))
    return tmp_path


@pytest.mark.parametrize(
    ("form", "expected_text", "part"),
    [
        ("op-overrides", "2 deviations in ", "'TestCommon', 'test_out'"),
        ("skips", "2 deviations in ", "TestCommonCPU.test_out_add_cpu_float32  # expectedFailure: value"),
        ("dtypes", "1 dtypes of 1 operators", "    'add': (torch.int8,),"),
    ],
)
def test_each_export_form_counts_results_that_it_cannot_express(form, expected_text, part, run, capsys):
    file = run / "new" / "file.py"
    assert cli.main(["export", str(run / "run"), "--form", form, "-o", str(file)]) == 0
    assert part in file.read_text()
    out = capsys.readouterr().out
    not_exported = 3 if form == "dtypes" else 2
    assert expected_text in out and f"; {not_exported} results are not exported" in out
    assert "1: it passed and failed" in out and f"# Not exported: {not_exported} results." in file.read_text()


def test_a_mode_that_did_not_run(run, capsys):
    arguments = ["export", str(run / "run"), "--form", "skips", "-o", str(run / "x"), "--mode", "lazy"]
    assert cli.main(arguments) == 2
    assert "no leg of mode 'lazy'" in capsys.readouterr().err and not (run / "x").exists()
