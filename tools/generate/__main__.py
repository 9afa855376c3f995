"""``python -m tools.generate``: write every generated file that is computed from the checkout alone.

With ``--check`` no file is written: each stale file is listed with its difference, and the exit code is 1.
The overload table and the table of subject seconds need measurements: see ``overload_table`` and
``subject_seconds``.
"""

from __future__ import annotations

import argparse
import difflib
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: The maximal number of printed difference lines for a stale file.
SHOWN_LINES = 20

Texts = Mapping[Path, "str | None"]


def _manifest() -> Texts:
    import torch

    from conformance.plan.levels import manifest as committed
    from tools.generate import manifest

    before = committed.load() if committed.PATH.is_file() else None
    generated = manifest.generate(before, committed.minor_of(torch.__version__))
    return {committed.PATH: manifest.manifest_text(generated)}


def _mutation_operators() -> Texts:
    from conformance.plan.levels import mutation_operators as reader
    from tools.generate import mutation_operators

    return {reader.PATH: mutation_operators.mutation_operators_text()}


def _glossary() -> Texts:
    from conformance.model import glossary as reader
    from tools.generate import glossary

    return {reader.PATH: glossary.glossary_text((ROOT / "docs" / "glossary.md").read_text())}


def _upstream_coverage() -> Texts:
    from conformance.upstream import coverage_map
    from tools.upstream_coverage import pages

    folder = ROOT / "docs" / "upstream-coverage"
    texts = pages.pages({stem: coverage_map.methods_of_file(stem) for stem in coverage_map.file_stems()})
    removed = {path: None for path in folder.glob("*.md") if path.name not in texts}
    return {**removed, **{folder / name: text for name, text in texts.items()}}


#: Generators by name. A generator returns path -> text for its files, with None for a file to be deleted.
GENERATORS: Mapping[str, Callable[[], Texts]] = {
    "glossary": _glossary,
    "manifest": _manifest,
    "mutation-operators": _mutation_operators,
    "upstream-coverage": _upstream_coverage,
}


def difference(path: Path, text: str | None) -> list[str]:
    """Return the lines that differ between a committed file and its generated text. The list is empty if they
    are equal.
    """
    committed = path.read_text() if path.is_file() else None
    if committed == text:
        return []
    name = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)
    lines = difflib.unified_diff(
        (committed or "").splitlines(), (text or "").splitlines(), name, "generated", lineterm="", n=0
    )
    return list(lines) or [f"{name}: {'must not exist' if text is None else 'is missing'}"]


def _fix_hash_seed() -> None:
    """Restart this program with hash seed 0, because samples of some operators depend on the hash seed."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        command = [sys.executable, "-m", "tools.generate", *sys.argv[1:]]
        os.execve(sys.executable, command, os.environ | {"PYTHONHASHSEED": "0"})


def _add_release(arguments: list[str]) -> int:
    from conformance.errors import UsageError
    from tools.generate import release

    try:
        return release.main(arguments)
    except UsageError as error:
        print(f"python -m tools.generate release: {error}", file=sys.stderr)
        return 2


def main(arguments: list[str] | None = None) -> int:
    """Write or compare the generated files; return 1 if ``--check`` finds a stale file."""
    listed = sys.argv[1:] if arguments is None else arguments
    if listed[:1] == ["release"]:
        if arguments is None:
            _fix_hash_seed()
        return _add_release(listed[1:])
    parser = argparse.ArgumentParser(
        prog="python -m tools.generate",
        description="Write the generated files.",
        epilog="'release [MINOR]' adds the installed torch to the manifest and prints the open decisions.",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"only these: {', '.join(GENERATORS)}")
    parser.add_argument("--check", action="store_true", help="write nothing, exit with 1 if a file is stale")
    options = parser.parse_args(arguments)
    for name in options.names:
        if name not in GENERATORS:
            parser.error(f"{name!r} is not a generator. Use one of {', '.join(GENERATORS)}.")
    if arguments is None:
        _fix_hash_seed()
    stale = 0
    for name in options.names or GENERATORS:
        for path, text in GENERATORS[name]().items():
            lines = difference(path, text)
            if not lines:
                continue
            stale += 1
            if options.check:
                print("\n".join(line[:200] for line in lines[:SHOWN_LINES]))
            elif text is None:
                path.unlink()
            else:
                path.write_text(text)
                print(f"{name}: wrote {path.relative_to(ROOT)}")
    if options.check and stale:
        print(f"{stale} generated files are stale. Run 'nox -s generate' and review the change.")
    elif not stale:
        print("All generated files are current.")
    return int(options.check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
