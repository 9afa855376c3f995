"""``python -m sessions.english_lint [PATH ...]``: check the English of docs, docstrings, comments and
messages.

``rules.toml`` contains the rules. Without paths, all tracked files are checked. The exit code is 1 if a rule
is broken.
"""

from __future__ import annotations

import ast
import dataclasses
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

RULES = Path(__file__).with_name("rules.toml")
SUFFIXES = (".py", ".md", ".h", ".cpp")
#: Skipped paths: names recorded from PyTorch, old decisions, and tests that contain wrong English on purpose.
SKIPPED = (
    "docs/decisions/",
    "docs/upstream-coverage/",
    "sessions/english_lint/",
    "tests/unit/sessions/",
    "conformance/upstream/coverage_map/",
    "docs/mutation-score.md",
)


@dataclasses.dataclass(frozen=True)
class Rule:
    """A pattern that no text may match. ``instead`` is the advice; ``allowed`` matches the exceptions.

    If ``docstring`` is true, the rule applies to docstrings only.
    """

    name: str
    pattern: re.Pattern[str]
    instead: str
    allowed: re.Pattern[str] | None
    docstring: bool

    def match_positions(self, text: str) -> Iterator[int]:
        """Yield the offset of each match that is not allowed."""
        spans = [match.span() for match in self.allowed.finditer(text)] if self.allowed else []
        for match in self.pattern.finditer(text):
            if not any(start <= match.start() < end for start, end in spans):
                yield match.start()


@dataclasses.dataclass(frozen=True)
class TextPassage:
    """A piece of English: its first line number, its text, and whether it is a docstring."""

    line: int
    text: str
    docstring: bool = False


def load_rules(path: Path = RULES) -> list[Rule]:
    """Return the rules. Raise KeyError or re.error for a malformed rule."""
    return [
        Rule(
            entry["name"],
            re.compile(entry["pattern"]),
            entry["instead"],
            re.compile(entry["except"]) if "except" in entry else None,
            entry.get("docstring", False),
        )
        for entry in tomllib.loads(path.read_text())["rule"]
    ]


def text_passages(path: Path, text: str) -> Iterator[TextPassage]:
    """Yield the English of a file: prose of Markdown, comments, docstrings and messages."""
    if path.suffix == ".md":
        yield from _markdown_passages(text)
    elif path.suffix == ".py":
        yield from _python_passages(text)
    else:
        for number, line in enumerate(text.splitlines(), 1):
            if "//" in line:
                yield TextPassage(number, line.partition("//")[2].strip(" /"))


def _markdown_passages(text: str) -> Iterator[TextPassage]:
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield TextPassage(number, re.sub(r"`[^`]*`", "`", line))


def _python_passages(text: str) -> Iterator[TextPassage]:
    tree = ast.parse(text)
    docstrings: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            match node.body:
                case [ast.Expr(ast.Constant(str(words)) as constant), *_]:
                    docstrings.add(id(constant))
                    yield TextPassage(constant.lineno, words, docstring=True)
    for node in ast.walk(tree):
        if id(node) in docstrings:
            continue
        match node:
            # Only a string of several words is a message. Names, paths and code are skipped.
            case ast.Constant(str(words)) if re.search(r"[a-z]+ [a-z]+ ", words) and "\n    " not in words:
                yield TextPassage(node.lineno, words)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield TextPassage(token.start[0], token.string.lstrip("#: "))


def rule_matches(path: Path, text: str, active_rules: Iterable[Rule]) -> Iterator[str]:
    """Yield a line for each match of a rule in a file."""
    active_rules = list(active_rules)
    for passage in text_passages(path, text):
        for rule in active_rules:
            if rule.docstring and not passage.docstring:
                continue
            for offset in rule.match_positions(passage.text):
                line = passage.line + passage.text.count("\n", 0, offset)
                start = passage.text.rfind("\n", 0, offset) + 1
                line_text = passage.text[start:].partition("\n")[0].strip()
                yield f"{path}:{line}: {rule.name}: write {rule.instead}: {line_text[:90]}"


def main(arguments: list[str]) -> int:
    """Print all matches. Return 1 if any exist."""
    listed = subprocess.run(
        ["git", "ls-files", "--", *arguments], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    active_rules = load_rules()
    broken = [
        line
        for name in listed
        if name.endswith(SUFFIXES) and not name.startswith(SKIPPED) and Path(name).is_file()
        for line in rule_matches(Path(name), Path(name).read_text(), active_rules)
    ]
    print("\n".join(broken) if broken else "prose: nothing to change")
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
