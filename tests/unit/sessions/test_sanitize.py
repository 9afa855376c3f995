"""The session ``sanitize`` counts the defects in sanitizer reports. Its suppressions have reasons, and the
tests that it excludes exist.
"""

from __future__ import annotations

import pytest

from sessions.sanitize.builds import SANITIZER_BUILDS, SUPPRESSIONS_FOLDER
from sessions.sanitize.reports import count_report_summaries
from tests.support import ROOT

RACE = """==================
WARNING: ThreadSanitizer: data race (pid={pid})
  Write of size 8 at 0x7b08002ac3{pid} by thread T{pid}:

SUMMARY: ThreadSanitizer: data race engine.cpp:249 in run_and_learn
==================
"""


def test_reports_of_one_defect_are_counted_together(tmp_path):
    for pid in (11, 12):
        (tmp_path / f"report.{pid}").write_text(RACE.format(pid=pid) * 2)
    (tmp_path / "report.13").write_text("call.cpp:7:3: runtime error: signed integer overflow at 0x12ab\n")
    assert count_report_summaries(tmp_path) == {
        "SUMMARY: ThreadSanitizer: data race engine.cpp:249 in run_and_learn": 4,
        "call.cpp:7:3: runtime error: signed integer overflow at …": 1,
    }


def test_a_report_without_a_summary_is_counted(tmp_path):
    (tmp_path / "report.5").write_text("==5==ERROR: AddressSanitizer failed to allocate 0x1000 bytes\nmore\n")
    assert count_report_summaries(tmp_path) == {"…ERROR: AddressSanitizer failed to allocate … bytes": 1}


@pytest.mark.parametrize("name", SANITIZER_BUILDS)
def test_each_suppression_has_a_reason(name):
    for file in SANITIZER_BUILDS[name].suppression_files.values():
        before = ""
        for line in (SUPPRESSIONS_FOLDER / file).read_text().splitlines():
            assert not line or line.startswith("#") or before, f"{file}: {line} has no reason above it"
            assert not line.endswith(":*"), f"{file}: {line} covers everything"
            before = line


@pytest.mark.parametrize("build", SANITIZER_BUILDS)
def test_excluded_tests_exist(build):
    for test in SANITIZER_BUILDS[build].omitted_tests:
        file, name = test.split("::")
        assert f"def {name}(" in (ROOT / file).read_text(), test
