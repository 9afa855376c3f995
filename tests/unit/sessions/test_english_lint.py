"""``sessions.english_lint``: each rule reports its example, and correct sentences pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from sessions.english_lint import __main__ as prose

#: Rule -> a sentence that breaks it.
BROKEN = {
    "condition": "An error where there is no file.",
    "opening": "Whether the file exists.",
    "told": "The user is told so.",
    "nobody": "nobody reads it",
    "came of": "what came of each result",
    "none of": "the word is none of those",
    "no noun": "the word is no level",
    "mend": "who mends it",
    "foreign": "a foreign device",
    "hang": "it hangs on the mode",
    "stands in": "it stands in a file",
    "is had": "where it can be had",
    "twice given": "for all that is known",
    "red and green": "the test turns red",
    "planted": "a planted fault",
    "held to": "the result is held to the bound",
    "left out": "the file is left out",
    "anew": "it is built anew",
    "stand for": "the digest stands for the file",
    "speak of": "a rule that speaks of one dtype",
    "know no": "the target knows no streams",
    "free relative": "It ends. What follows is read.",
    "stand-in": "a stand-in of the device",
    "so many": "one in so many tests",
}


@pytest.mark.parametrize("rule", prose.load_rules(), ids=lambda rule: rule.name)
def test_every_rule_reports_its_example(rule: prose.Rule) -> None:
    source = f'def read() -> None:\n    """{BROKEN[rule.name]}"""\n'
    assert any(f": {rule.name}: " in line for line in prose.rule_matches(Path("a.py"), source, [rule]))


def test_correct_uses_and_code_are_not_reported() -> None:
    source = '"""Return the place where the file is, from where `torch.where` reads it."""\nwhere = 1\n'
    assert list(prose.rule_matches(Path("a.py"), source, prose.load_rules())) == []
    page = "The folder where it is.\n\n```\nwhere there is no rule\n```\n"
    assert list(prose.rule_matches(Path("a.md"), page, prose.load_rules())) == []


def test_comments_messages_and_prose_are_checked() -> None:
    source = '# told by the user\nraise ValueError("the user is told so, always")\n'
    assert len(list(prose.rule_matches(Path("a.py"), source, prose.load_rules()))) == 2
    assert len(list(prose.rule_matches(Path("a.md"), "It is told.\n", prose.load_rules()))) == 1
    assert (
        len(list(prose.rule_matches(Path("a.h"), "int a;  // told by the user\n", prose.load_rules()))) == 1
    )
