"""The commands of each page of ``docs/how-to`` succeed in the order of the page. Each page has its own copy
of the checkout.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT

PAGES = sorted((ROOT / "docs" / "how-to").glob("*.md"))
#: Pages that compile the device or the interposer.
COMPILING = ("add-an-operator-kernel", "support-a-torch-release", "add-a-mutation-operator")
#: Time limit in seconds for one block of commands.
BLOCK_TIMEOUT = 3000

Block = tuple[str, str | None, str]


def fenced_blocks(text: str) -> list[Block]:
    """Return the fenced blocks of a page. Each block has a language, a file name from the title (None without
    a title), and a content.
    """
    found = []
    for info, content in re.findall(r"^```([^\n`]+)\n(.*?)^```$", text, re.M | re.S):
        match = re.fullmatch(r'(\w+)(?: title="([^"]+)")?', info)
        assert match, f'the fence {info!r} is not LANGUAGE or LANGUAGE title="FILE"'
        language, title = match.groups()
        assert title is not None or language == "sh", f"a block of language {language} needs a title"
        found.append((language, title, content))
    return found


def run_code_blocks(page_blocks: list[Block], checkout: Path, environment: dict[str, str]) -> None:
    """Write each block with a title to the file that the title names. Run every other block as shell commands
    in the root of the checkout.
    """
    for language, title, content in page_blocks:
        if title is not None:
            assert not (checkout / title).exists(), f"{title} exists already"
            (checkout / title).write_text(content)
            continue
        assert language == "sh"
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", content],
            cwd=checkout,
            env=environment,
            capture_output=True,
            text=True,
            timeout=BLOCK_TIMEOUT,
        )
        assert done.returncode == 0, f"{content}{done.stdout[-3000:]}{done.stderr[-3000:]}"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a copy of the checkout with the compiled device, as a git repository."""
    copy = tmp_path / "checkout"
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout
    compiled = (ROOT / "reference_backend" / "habana_frameworks").rglob("*.so")
    names = [
        *map(os.fsdecode, filter(None, listed.split(b"\0"))),
        *(str(p.relative_to(ROOT)) for p in compiled),
    ]
    for name in names:
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)
    options = ("-c", "user.name=test", "-c", "user.email=test@example.com")
    for arguments in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "copy")):
        subprocess.run(["git", *options, *arguments], cwd=copy, check=True)
    return copy


def environment_of_checkout(checkout: Path) -> dict[str, str]:
    """Return the environment variables for the commands of a page.

    Python and torch come from the environment of this test. The suite and the device come from ``checkout``.
    """
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": f"{checkout}{os.pathsep}{checkout / 'reference_backend'}",
        "CONFORMANCE_NIGHTLY": "0",
    }


def test_a_block_without_a_meaning_and_a_failing_command_are_detected(tmp_path: Path) -> None:
    assert fenced_blocks('```python title="a.py"\nx = 1\n```\n```sh\ncat a.py\n```\n') == [
        ("python", "a.py", "x = 1\n"),
        ("sh", None, "cat a.py\n"),
    ]
    with pytest.raises(AssertionError, match="needs a title"):
        fenced_blocks("```python\nx = 1\n```\n")
    with pytest.raises(AssertionError, match="no-such-file"):
        run_code_blocks([("sh", None, "cat no-such-file\ntrue\n")], tmp_path, dict(os.environ))


def test_each_page_has_commands() -> None:
    assert len(PAGES) == 6
    for page in PAGES:
        assert any(language == "sh" for language, _, _ in fenced_blocks(page.read_text())), page.name


@pytest.mark.nightly(
    "each page takes minutes, and the generators and tests that it runs are tested in each run"
)
@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.stem not in COMPILING], ids=lambda page: page.stem
)
def test_page(page: Path, checkout: Path) -> None:
    run_code_blocks(fenced_blocks(page.read_text()), checkout, environment_of_checkout(checkout))


@pytest.mark.nightly("they compile the device or the interposer, which takes minutes")
@pytest.mark.parametrize("name", COMPILING)
def test_page_that_compiles(name: str, checkout: Path) -> None:
    page = ROOT / "docs" / "how-to" / f"{name}.md"
    run_code_blocks(fenced_blocks(page.read_text()), checkout, environment_of_checkout(checkout))
