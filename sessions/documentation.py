"""Build the documentation site from docs/, a generated page about target files, and the extension API.

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

[Extending](extending.md) explains the API with a worked example.

::: conformance.extension
    options:
      members: true
      show_root_heading: false
      show_root_toc_entry: false
"""


def _as_code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _markdown_table(head: tuple[str, str], rows: dict[str, str]) -> str:
    lines = [f"| {head[0]} | {head[1]} |", "|---|---|"]
    return "\n".join([*lines, *(f"| `{key}` | {text} |" for key, text in rows.items())]) + "\n"


def target_file_page() -> str:
    """Return the page about target files as Markdown, generated from the tables in
    conformance/target/file.py.
    """
    modes, precisions, builds, dtypes = map(_as_code, (MODES, PRECISIONS, BUILDS, DTYPES))
    return "\n".join(
        (
            "# Target files\n",
            "A target file is TOML. `conformance targets --new DEVICE` probes a device and writes a target",
            "file. An unknown key or value is an error; the message lists the known ones.\n",
            "## Keys\n",
            _markdown_table(("key", "meaning"), KEYS),
            f"Modes: {modes}. Classes of precision: {precisions}. Builds: {builds}.\n",
            "## Capabilities\n",
            "A capability that the table `[capabilities]` does not list is declared.\n",
            _markdown_table(("capability", "requirement"), CAPABILITIES),
            "## Hooks\n",
            'The table `[hooks]` names functions as `"module:function"`.\n',
            _markdown_table(("hook", "signature and meaning"), HOOKS),
            "## Dtypes\n",
            f"Default: the dtypes of the CPU: {dtypes}.\n",
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
    # The site contains pages only. A link to any other file of the repository is replaced by its link text.
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
    variables = os.environ | {"NO_MKDOCS_2_WARNING": "1"}  # otherwise mkdocs prints an advertisement
    command += ["--site-dir", str(options.output.resolve())]
    return subprocess.run(command, cwd=ROOT, env=variables).returncode


if __name__ == "__main__":
    sys.exit(main())
