"""``results.scrub`` replaces paths and host names in texts, and keeps web addresses and result ids."""

from __future__ import annotations

import pytest

from conformance.results import scrub


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("raised OSError: /home/jane/work/x.py: no", "raised OSError: <path>: no"),
        ('File "/opt/venv/lib/torch/_ops.py", line 3', 'File "<path>", line 3'),
        ("see ~/secrets/key and C:\\Users\\jane\\a.txt", "see <path> and <path>"),
        ("file:///srv/data/a.bin", "<path>"),
        ("jane@build7.example.org refused 10.1.2.3", "<host> refused <host>"),
        (
            "value/add@float32 differs, see docs/torch-bugs.md#out",
            "value/add@float32 differs, see docs/torch-bugs.md#out",
        ),
        (
            "https://github.com/pytorch/pytorch/issues/84577",
            "https://github.com/pytorch/pytorch/issues/84577",
        ),
        ("at 1/2 and 3 / 4 of aten::add", "at 1/2 and 3 / 4 of aten::add"),
    ],
)
def test_paths_and_host_names_are_replaced_in_texts(text: str, wanted: str) -> None:
    assert scrub.scrub_text(text) == wanted
    assert scrub.scrub_text(wanted) == wanted
