"""Check that the documentation mentions only existing paths, commands, modules, symbols and environment
variables.

``python -m sessions.doc_references`` checks README, CONTRIBUTING and docs/. It lists each reference to
something that does not exist.
"""

from __future__ import annotations

import argparse
import functools
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: Folders to which paths in the documentation are relative.
BASES = (
    "",
    "docs",
    "conformance",
    "conformance/plan",
    "conformance/properties",
    "reference_backend",
    "reference_backend/csrc",
    "reference_backend/habana_frameworks/torch",
    "tests",
    ".github",
    ".github/workflows",
)
_SUFFIXES = r"py|toml|json|cpp|h|md|yml|hcl|so|sh|css|js"
_PATH = re.compile(rf"^[\w.*{{}},-]+(/[\w.*{{}},-]+)*\.({_SUFFIXES})$|^[\w.-]+(/[\w.-]+)+/?$")
_VARIABLE = re.compile(r"^([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)(=\S*)?$")
_SCOPED = re.compile(r"^([a-z_]\w*)::(\w+)(\(.*\))?$")
_IDENTIFIER = re.compile(r"^_?[a-z]\w*_\w+(\(\))?$|^[A-Z][a-z]+([A-Z][a-z]+)+(\(\))?$")
_MODULE = re.compile(r"^(conformance|habana_frameworks|sessions|tests|benchmarks)(\.\w+)+$")
#: Namespaces of other projects. References to their symbols are not checked.
_FOREIGN_NAMESPACES = {"at", "aten", "c10", "c10d", "torch", "std", "vendor"}
#: Variables of the real device that a page mentions because the reference device does not have them.
_ABSENT = {"PT_HPU_EMULATE_DISTRIBUTED"}
#: Generated pages of docs/. They mention names of torch, which the project's code does not contain.
_GENERATED = {"mutation-score.md"}
#: Names of torch that pages quote. The project's code does not contain them.
_OF_TORCH = {"PendingUnbackedSymbolNotFound", "capture_scalar_outputs"}
#: Output files of the project, and placeholders. They do not exist in the checkout.
_OUTPUTS_AND_PLACEHOLDERS = re.compile(
    r"^(conformance-out|out|before|after|legs|dist|torch|\.nox|DIR|FILE|OWNER|OUT)\b|[A-Z]{3,}/|/[A-Z-]{3,}|NAME"
    r"|mydevice|tiny\.toml|/?(results|torch)\.json$|^conformance\.yml$"
)


def code_spans(text: str) -> Iterator[tuple[int, str]]:
    """Yield each inline code span of a Markdown text with its line number, without fenced blocks."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            for span in re.findall(r"`([^`]+)`", line):
                yield number, span


def shell_commands(text: str) -> Iterator[tuple[int, str]]:
    """Yield each command of the fenced shell blocks with its line number. Continuation lines are joined."""
    shell, started, pending = False, 0, ""
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            shell = line[3:].split(" ")[0] in ("sh", "console", "bash") if not shell else False
        elif shell and line.strip():
            started = started if pending else number
            pending += line.rstrip("\\")
            if not line.endswith("\\"):
                yield started, pending
                pending = ""


@functools.cache
def _tracked_files() -> tuple[str, ...]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True)
    return tuple(listed.stdout.splitlines())


@functools.cache
def tracked_text() -> str:
    """Return all tracked code and configuration as one text. A referenced name must occur in it."""
    files = [
        ROOT / name
        for name in _tracked_files()
        if Path(name).suffix in (".py", ".cpp", ".h", ".toml", ".yml", ".mjs", ".sh", ".txt", "")
        and not name.startswith(("docs/", "tests/unit/sessions/"))
    ]
    return "\n".join(path.read_text(errors="replace") for path in files if path.is_file())


@functools.cache
def _words_in_code() -> frozenset[str]:
    return frozenset(re.findall(r"\w+", tracked_text()))


@functools.cache
def _parsers_by_subcommand() -> dict[str, argparse.ArgumentParser]:
    from conformance import cli

    parser = cli.command_parser()
    actions = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return dict(actions[0].choices)


def _option_names(parser: argparse.ArgumentParser) -> set[str]:
    options = set(parser._option_string_actions)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for choice in action.choices.values():
                options |= _option_names(choice)
    return options


def _nox_session_names() -> set[str]:
    return set(re.findall(r"@nox\.session\ndef (\w+)", (ROOT / "noxfile.py").read_text()))


def path_exists(path: str) -> bool:
    """Return whether a path or pattern, with {a,b} alternatives, matches a file in one of the base
    folders.
    """
    alternatives = [path]
    while any("{" in text for text in alternatives):
        alternatives = [
            text.replace(match[0], part, 1)
            for text in alternatives
            for match in [re.search(r"\{([^}]*)\}", text)]
            if match
            for part in match[1].split(",")
        ]
    return all(any(_matches(ROOT / base, text.rstrip("/")) for base in BASES) for text in alternatives)


def _matches(base: Path, path: str) -> bool:
    """Return whether a path exists in a folder. A path without a suffix may denote a pair of .h and .cpp
    files.
    """
    return any(base.glob(path)) or any(base.glob(f"{path}.*"))


def _file_name_occurs(name: str) -> bool:
    """Return whether a file name without a folder belongs to a tracked file, or occurs in the code."""
    return name in tracked_text() or any(path.name == name for path in map(Path, _tracked_files()))


def command_error(line: str) -> str | None:
    """Return the error in a command line of nox, ``python -m`` or ``conformance``, or None."""
    try:
        arguments = shlex.split(line, comments=True)
    except ValueError:
        return None
    for index, argument in enumerate(arguments):
        name, rest = argument.rpartition("/")[2], arguments[index + 1 :]
        if name == "nox" and rest[:1] == ["-s"]:
            for session in rest[1:]:
                if not re.fullmatch(r"[a-z]+", session):
                    break
                if session not in _nox_session_names():
                    return f"nox has no session {session!r}"
        if name in ("python", "python3") and rest[:1] == ["-m"] and len(rest) > 1:
            module = rest[1]
            if _MODULE.match(module) and not _module_exists(module):
                return f"there is no module {module!r}"
        if name == "conformance" and index == 0 and rest:
            return _conformance_command_error(rest)
    return None


def _conformance_command_error(arguments: list[str]) -> str | None:
    if not re.fullmatch(r"[a-z]+", arguments[0]):
        return None
    parser = _parsers_by_subcommand().get(arguments[0])
    if parser is None:
        return f"there is no command 'conformance {arguments[0]}'"
    for argument in arguments[1:]:
        option = re.match(r"--[a-z][a-z-]*", argument)
        if option and option[0] not in _option_names(parser):
            return f"'conformance {arguments[0]}' has no option {option[0]}"
    return None


def _module_exists(name: str) -> bool:
    """Return whether a dotted name is a module or a name in a module. The files are read and not imported."""
    parts = name.split(".")
    for base in (ROOT, ROOT / "reference_backend"):
        for length in range(len(parts), 0, -1):
            path = base.joinpath(*parts[:length])
            files = [file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()]
            if files or (path.is_dir() and length == len(parts)):
                names = set(re.findall(r"\w+", files[0].read_text())) if files else set()
                return set(parts[length:]) <= names
    return False


def _cpp_symbol_exists(scope: str, name: str) -> bool:
    if scope in _FOREIGN_NAMESPACES or f"{scope}::{name}" in tracked_text():
        return True
    files = (ROOT / "reference_backend" / "csrc").rglob("*.*")
    pattern = re.compile(rf"namespace [\w:]*\b{scope}\b|(class|struct) {scope}\b")
    return any(
        pattern.search(text) and re.search(rf"\b{name}\b", text) for text in map(Path.read_text, files)
    )


def span_error(span: str) -> str | None:
    """Return the error in a code span.

    Return None if the reference exists, or if the span is not a reference to the project.
    """
    if _OUTPUTS_AND_PLACEHOLDERS.search(span):
        return None
    if span.startswith(("conformance ", "nox ", "python ", ".venv/")):
        return command_error(span)
    if match := _VARIABLE.match(span):
        return None if match[1] in _words_in_code() | _ABSENT else f"no code reads the variable {match[1]}"
    if match := _SCOPED.match(span):
        return None if _cpp_symbol_exists(match[1], match[2]) else f"there is no symbol {span}"
    if _MODULE.match(span):
        return None if _module_exists(span) else f"there is no module or name {span}"
    if _PATH.match(span) and ("." in span or span.split("/")[0] in _TOP_FOLDERS):
        exists = path_exists(span) or ("/" not in span and _file_name_occurs(span))
        return None if exists else f"no file {span} exists"
    if _IDENTIFIER.match(span):
        return (
            None
            if span.removesuffix("()") in _words_in_code() | _OF_TORCH
            else f"no code has the name {span}"
        )
    return None


_TOP_FOLDERS = {
    "conformance",
    "reference_backend",
    "tests",
    "docs",
    "sessions",
    "docker",
    "benchmarks",
    "csrc",
    "workflows",
}


def broken_references(text: str) -> list[tuple[int, str]]:
    """Return every broken reference of a page with its line number."""
    broken: list[tuple[int, str]] = []
    checks: list[tuple[Iterator[tuple[int, str]], Callable[[str], str | None]]] = [
        (code_spans(text), span_error),
        (shell_commands(text), command_error),
    ]
    for passages, fault in checks:
        for line, passage in passages:
            if message := fault(passage):
                broken.append((line, message))
    return sorted(broken)


def pages_to_check() -> list[Path]:
    """Return the pages to check. Omit generated pages, and decisions, which describe an earlier state."""
    written = [page for page in sorted((ROOT / "docs").glob("*.md")) if page.name not in _GENERATED]
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *written]


def main() -> int:
    """Print every broken reference; return 1 if there are any."""
    broken = [
        f"{page.relative_to(ROOT)}:{line}: {message}"
        for page in pages_to_check()
        for line, message in broken_references(page.read_text())
    ]
    print("\n".join(broken) or "all references exist")
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main())
