"""Every file, command, option and name that the documentation mentions exists, and a broken reference is
reported.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from sessions import doc_references


@pytest.mark.parametrize("page", doc_references.pages_to_check(), ids=lambda page: page.name)
def test_every_reference_of_a_page_exists(page: Path) -> None:
    assert doc_references.broken_references(page.read_text()) == []


@pytest.mark.parametrize(
    ("text", "expected_text"),
    [
        ("see `conformance/plan/gone.py`", "no file conformance/plan/gone.py"),
        ("see `csrc/graph/recorder`", "no file csrc/graph/recorder"),
        ("see `csrc/{memory,gone}/arena.cpp`", "no file"),
        ("run `conformance rum -o DIR`", "no command 'conformance rum'"),
        ("run `conformance run --modes eager`", "no option --modes"),
        ("```sh\nconformance diff a b \\\n  --quietly\n```", "no option --quietly"),
        ("```sh\n.venv/bin/nox -s conformence\n```", "no session 'conformence'"),
        ("```sh\npython -m conformance.timing DIR\n```", "no module 'conformance.timing'"),
        ("`conformance.plan.plan.biuld` does it", "no module or name"),
        ("`engine::function_of_no_name` does it", "no symbol engine::function_of_no_name"),
        ("set `PT_HPU_NO_SUCH_VARIABLE=1`", "no code reads the variable PT_HPU_NO_SUCH_VARIABLE"),
        ("`function_of_no_name()` does it", "no code has the name function_of_no_name"),
    ],
)
def test_a_broken_reference_is_detected(text: str, expected_text: str) -> None:
    assert any(expected_text in message for _, message in doc_references.broken_references(text)), (
        doc_references.broken_references(text)
    )


def test_existing_references_are_not_reported() -> None:
    text = (
        "`conformance/plan/plan.py`, `conformance run --mode eager`, `conformance.plan.plan.build_plan`,\n"
        "`at::Tensor`, `OMP_NUM_THREADS`, `results.json`\n"
        "```sh\n.venv/bin/nox -s conformance -- --level smoke\n```"
    )
    assert doc_references.broken_references(text) == []
