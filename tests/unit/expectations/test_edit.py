"""``expectations.edit`` changes entries of an expectation file and leaves the rest of the text unchanged."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from expecttest import assert_expected_inline

from conformance.errors import UsageError
from conformance.expectations import edit, entries
from tests.support.sample_legs import expectation


def test_an_edit_changes_only_the_affected_entries() -> None:
    text = (
        "# The head of the file.\nschema = 1\n\n# About the first.\n"
        + edit.entry_toml(expectation("p/a@d", "value"))
        + "\n# About the second.\n"
        + edit.entry_toml(expectation("p/*@d", "value")).replace("id =", "id   =")
        + "\n"
        + edit.entry_toml(expectation("p/c@d", "message"))
    )
    path = Path("known.toml")
    narrow = [expectation("p/b@d", "value"), expectation("p/d@d", "value", modes=("lazy",))]
    edited = edit.text_with_edited_entries(path, text, {0: [], 1: narrow})
    assert_expected_inline(
        edited,
        """\
# The head of the file.
schema = 1

# About the second.
[[expect]]
id = "p/b@d"
kind = "value"
reason = "accuracy"
link = "https://example.org"
until = "2999-01-01"

[[expect]]
id = "p/d@d"
kind = "value"
reason = "accuracy"
link = "https://example.org"
until = "2999-01-01"
modes = ["lazy"]

[[expect]]
id = "p/c@d"
kind = "message"
reason = "accuracy"
link = "https://example.org"
until = "2999-01-01"
""",
    )
    assert edit.text_with_edited_entries(path, text, {}) == text
    with pytest.raises(UsageError, match="cannot be changed; write each entry as a table"):
        text = 'schema = 1\nexpect = [{id = "a/b@c", kind = "value", reason = "accuracy", '
        text += 'link = "docs/x", until = "torch 2.99"}]\n'
        edit.text_with_edited_entries(path, text, {0: []})


def test_any_detail_text_is_written_and_read_back(tmp_path: Path) -> None:
    for text in ('say "no"\\', "tab\tand\nline", "\x00\x1b[0m\u2028", "[[expect]]", "é 字 😀"):
        entry = dataclasses.replace(expectation("p/a@d", "value"), detail=text)
        path = tmp_path / "known.toml"
        path.write_text(edit.text_with_appended_entries(edit.HEAD, [entry]))
        assert entries.load_expectations([path]).entries[0].detail == text


def test_the_processor_of_an_entry_is_written_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "known.toml"
    entry = dataclasses.replace(expectation("p/a@d", "value"), processor="with AVX-512")
    path.write_text("schema = 1\n\n" + edit.entry_toml(entry))
    assert 'processor = "with AVX-512"' in path.read_text()
