"""``builds.fork_like_environment`` creates an environment that overlays an existing one and shows its torch
under the label of a fork-like build.
"""

from __future__ import annotations

import base64
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.builds import describe, fork_like_environment
from conformance.errors import UsageError

VERSION_FILE = "from typing import Optional\n__version__ = '2.13.0+cpu'\ngit_version = 'cf30153c4c13'\n"


BINARY = os.urandom(300_000)


FILES = {
    "torch/__init__.py": b"from .version import __version__\n",
    "torch/version.py": VERSION_FILE.encode(),
    "torch/lib/libtorch.so": BINARY,
    "torch/include/torch/all.h": b"#pragma once\n",
    "torch-2.13.0+cpu.dist-info/METADATA": (
        b"Metadata-Version: 2.1\nName: torch\nVersion: 2.13.0+cpu\n\nVersion: x\n"
    ),
    "torch-2.13.0+cpu.dist-info/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
}


RECORD = "torch-2.13.0+cpu.dist-info/RECORD"


def sha256_record_entry(content: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")


def record_file() -> str:
    rows = [f"{name},{sha256_record_entry(content)},{len(content)}\n" for name, content in FILES.items()]
    return "".join(rows) + f"{RECORD},,\n"


def create_environment(folder: Path) -> Path:
    """Create an environment with an artificial torch and two other modules. Return its Python interpreter."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    code = "import sysconfig; print(sysconfig.get_path('platlib'))"
    site = Path(
        subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    )
    for name, content in {**FILES, RECORD: record_file().encode(), "beside.py": b"here = True\n"}.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_bytes(content)
    (site / "editable.pth").write_text(f"{folder / 'source'}\n")
    (folder / "source").mkdir()
    (folder / "source" / "edited.py").write_text("here = True\n")
    return python


def test_an_overlay_shows_the_fork_like_label_and_keeps_the_base(tmp_path: Path) -> None:
    python = create_environment(tmp_path / "base")
    over = tmp_path / "over"
    assert fork_like_environment.make_fork_like_overlay(python, over) is True
    code = (
        "import torch, torch.version, beside, edited, importlib.metadata as m\n"
        "print(torch.__version__, m.version('torch'), torch.version.repacked_from, torch.__file__)"
    )
    done = subprocess.run([over / "bin" / "python", "-c", code], capture_output=True, text=True, check=True)
    version = "2.13.0+gitcf30153"
    assert done.stdout.split()[:3] == [version, version, "2.13.0+cpu"]
    assert done.stdout.split()[3].startswith(str(over))
    linked = next(over.glob("lib/*/site-packages/torch/lib/libtorch.so"))
    assert linked.stat().st_nlink == 2 or linked.is_symlink()
    base = next((tmp_path / "base").glob("lib/*/site-packages/torch/version.py"))
    assert base.read_text() == VERSION_FILE, "the existing environment was changed"
    assert fork_like_environment.make_fork_like_overlay(python, over) is False
    assert fork_like_environment.make_fork_like_overlay(python, over, "git2236df1") is True
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("keep")
    with pytest.raises(UsageError, match="is neither empty nor an overlay"):
        fork_like_environment.make_fork_like_overlay(python, tmp_path / "full")


def test_metadata_without_the_local_label(tmp_path: Path) -> None:
    """In PyPI's torch wheels the metadata contains 2.6.0, and torch/version.py contains 2.6.0+cu124."""
    python = create_environment(tmp_path / "base")
    site = Path(describe.describe_interpreter(str(python)).site or "")
    info = site / "torch-2.13.0+cpu.dist-info"
    text = (info / "RECORD").read_text().replace("2.13.0+cpu", "2.13.0")
    (info / "RECORD").write_text(text)
    (info / "METADATA").write_text((info / "METADATA").read_text().replace("2.13.0+cpu", "2.13.0"))
    info.rename(site / "torch-2.13.0.dist-info")
    assert fork_like_environment.make_fork_like_overlay(python, tmp_path / "over") is True
    own = next((tmp_path / "over").glob("lib/*/site-packages"))
    assert "repacked_from = '2.13.0+cpu'" in (own / "torch" / "version.py").read_text()
    assert (own / "torch-2.13.0+gitcf30153.dist-info" / "METADATA").read_text().count("gitcf30153") == 1
