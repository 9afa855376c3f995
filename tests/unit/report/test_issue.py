"""``report.issue`` writes the issue text of a cause: complete, valid Markdown, without paths and
host names.
"""

from __future__ import annotations

from typing import Any

from conformance.report import causes, issue
from tests.support.sample_legs import leg

MESSAGE = (
    "the call raised RuntimeError: lost a lane at /home/someone/backend/scan.cpp:12 "
    "of someone@lab.example.org"
)


def cause_with_legs(message: str = MESSAGE, count: int = 3, **changes: Any) -> tuple[causes.Cause, list[Any]]:
    rows = [
        {
            "id": f"value/scan{number}@float32",
            "verdict": "fail",
            "seconds": 0.1,
            "failures": [{"kind": "exception", "message": message}],
            **changes,
        }
        for number in range(count)
    ]
    cases = {row["id"].rpartition("@")[0]: "fail" for row in rows}
    legs: list[Any] = [leg("eager", results=rows, cases=cases, exit=1)]
    legs[0]["facts"] = {
        "python": "3.11.7",
        "platform": "Linux-6.1.0-secret-x86_64",
        "torch": {"version": "2.13.0", "revision": "abc"},
        "backend": {"module": "torch_mydev", "version": "1.2"},
        "environment": {"HOME": "/home/someone"},
    }
    (group,) = causes.causes_of(legs)
    return group, legs


def test_the_issue_contains_results_command_snippet_and_versions() -> None:
    pattern = {"when": "an input is expanded", "failed": 2, "such": 2, "others": 9}
    group, legs = cause_with_legs(pattern=pattern)
    text = issue.issue_body(group, legs, "mine.toml", "import torch\nprint('WRONG')\n")
    assert issue.issue_title(group) == (
        "scan, 3 subjects: fails in 6 of 6 samples in which an input is expanded, and in 0 of 27 others"
    )
    assert "**3 fail** on cpu in mode eager" in text
    assert "conformance repro value/scan0@float32 --target mine.toml --mode eager" in text
    assert "```python\nimport torch\nprint('WRONG')\n```" in text
    assert "| torch | 2.13.0, revision abc |" in text and "| backend | torch_mydev 1.2 |" in text
    assert "| python | 3.11.7, Linux x86_64 |" in text


def test_the_issue_contains_nothing_private() -> None:
    group, legs = cause_with_legs()
    text = issue.issue_title(group) + issue.issue_body(group, legs, "mine.toml")
    for private_text in ("/home", "someone", "secret", "example.org"):
        assert private_text not in text
    assert "<path>" in text


def test_a_message_cannot_end_its_code_block() -> None:
    group, legs = cause_with_legs("the call raised RuntimeError: ```\n@everyone <b>x</b> ````")
    lines = issue.issue_body(group, legs, "mine.toml", "x = '''```'''\n").splitlines()
    fences = [line for line in lines if set(line.removesuffix("python")) == {"`"}]
    assert fences[0] == fences[1] == "`````"
    assert "````python" in lines and "````" in lines


def test_many_results_are_counted() -> None:
    group, legs = cause_with_legs(count=40)
    text = issue.issue_body(group, legs, "mine.toml")
    assert text.count("- `value/") == 15 and "- and 25 more, of property `value`" in text
