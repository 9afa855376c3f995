"""Build the documentation site: pages of docs/, the generated reference of target files and the extension
API.

``python -m sessions.documentation [-o DIR]`` writes the pages and builds the site with mkdocs in strict mode:
a broken link, or a page that is missing in the menu, is an error.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from conformance.model.vocabulary import CAPABILITIES, MODES
from conformance.target.file import BUILDS, DTYPES, HOOKS, KEYS, PRECISIONS

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / ".nox" / "documentation" / "pages"
SITE = ROOT / ".nox" / "documentation" / "site"

EXTENSION = """\
# The API of extensions

How to use it, with a worked example: [extending](extending.md).

::: conformance.extension
    options:
      members: true
      show_root_heading: false
      show_root_toc_entry: false
"""


def _codes(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _table(head: tuple[str, str], rows: dict[str, str]) -> str:
    lines = [f"| {head[0]} | {head[1]} |", "|---|---|"]
    return "\n".join([*lines, *(f"| `{key}` | {text} |" for key, text in rows.items())]) + "\n"


def target_file_page() -> str:
    """Return the reference of target files as Markdown, generated from the tables of their reader."""
    modes, precisions, builds, dtypes = map(_codes, (MODES, PRECISIONS, BUILDS, DTYPES))
    return "\n".join(
        (
            "# Target files\n",
            "A target file is TOML. `conformance targets --new DEVICE` probes a device and writes one; an",
            "unknown key or word is an error that names the known ones.\n",
            "## Keys\n",
            _table(("key", "means"), KEYS),
            f"Modes: {modes}. Classes of precision: {precisions}. Builds: {builds}.\n",
            "## Capabilities\n",
            "A word that the table `[capabilities]` leaves out is declared.\n",
            _table(("word", "promise"), CAPABILITIES),
            "## Hooks\n",
            'The table `[hooks]` names functions as `"module:function"`.\n',
            _table(("word", "signature and duty"), HOOKS),
            "## Dtypes\n",
            f"Default: those of the CPU: {dtypes}.\n",
        )
    )


def rebuild_site_source(folder: Path = PAGES) -> None:
    """Copy docs/ to a folder, with the README as index, and add the generated pages."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "docs", folder)
    readme = re.sub(r"\]\(docs/", "](", (ROOT / "README.md").read_text())
    for name in ("CONTRIBUTING.md", "LICENSE"):
        shutil.copy(ROOT / name, folder / name)
    (folder / "index.md").write_text(readme)
    contributing = folder / "CONTRIBUTING.md"
    text = re.sub(r"\]\(docs/", "](", contributing.read_text())
    # The site contains pages only. A link to another file of the repository becomes its text.
    contributing.write_text(re.sub(r"\[([^]]*)\]\((?:tests|conformance)/[^)]*\)", r"\1", text))
    (folder / "target-file.md").write_text(target_file_page())
    (folder / "extension.md").write_text(EXTENSION)


def main(arguments: list[str] | None = None) -> int:
    """Write the pages and build the site. Return the exit code of mkdocs."""
    parser = argparse.ArgumentParser(prog="python -m sessions.documentation")
    parser.add_argument("-o", "--output", type=Path, default=SITE, metavar="DIR")
    options = parser.parse_args(arguments)
    rebuild_site_source()
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--clean"]
    variables = os.environ | {"NO_MKDOCS_2_WARNING": "1"}  # an advertisement
    command += ["--site-dir", str(options.output.resolve())]
    return subprocess.run(command, cwd=ROOT, env=variables).returncode


if __name__ == "__main__":
    sys.exit(main())
