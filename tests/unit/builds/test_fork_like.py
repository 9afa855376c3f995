"""``builds.fork_like`` repacks a wheel of torch under the label of a fork-like build."""

from __future__ import annotations

import base64
import csv
import hashlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from conformance import cli
from conformance.builds import fork_like
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


@pytest.fixture()
def torch_wheel(tmp_path: Path) -> Path:
    path = tmp_path / "torch-2.13.0+cpu-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        for name, content in FILES.items():
            out.writestr(name, content)
        out.writestr(RECORD, record_file())
    return path


def test_repacking_changes_only_the_label(torch_wheel: Path, tmp_path: Path) -> None:
    repacked = fork_like.make_fork_like_wheel(torch_wheel, tmp_path / "dist")
    assert repacked.name == "torch-2.13.0+gitcf30153-py3-none-any.whl"
    with zipfile.ZipFile(repacked) as repacked_zip, zipfile.ZipFile(torch_wheel) as before:
        assert repacked_zip.testzip() is None
        info = "torch-2.13.0+gitcf30153.dist-info"
        assert set(repacked_zip.namelist()) == {
            name.replace("torch-2.13.0+cpu.dist-info", info) for name in [*FILES, RECORD]
        }
        assert repacked_zip.read("torch/lib/libtorch.so") == BINARY
        for attribute in ("CRC", "compress_size", "external_attr", "date_time"):
            old, new = (
                getattr(each.getinfo("torch/lib/libtorch.so"), attribute) for each in (before, repacked_zip)
            )
            assert old == new
        lines = repacked_zip.read("torch/version.py").decode().splitlines()
        assert lines[1:] == [
            "__version__ = '2.13.0+gitcf30153'",
            "git_version = 'cf30153c4c13'",
            "repacked_from = '2.13.0+cpu'",
        ]
        metadata = repacked_zip.read(f"{info}/METADATA").decode()
        assert "\nVersion: 2.13.0+gitcf30153\n" in metadata and metadata.endswith("\nVersion: x\n")
        for name, checksum, size in csv.reader(repacked_zip.read(f"{info}/RECORD").decode().splitlines()):
            if not name.endswith("/RECORD"):
                content = repacked_zip.read(name)
                assert (checksum, int(size)) == (sha256_record_entry(content), len(content))


def test_pip_installs_the_wheel(torch_wheel: Path, tmp_path: Path) -> None:
    repacked = fork_like.make_fork_like_wheel(torch_wheel, tmp_path / "dist", "hpu_1.21.0-555.git603340c")
    assert repacked.name == "torch-2.13.0+hpu.1.21.0.555.git603340c-py3-none-any.whl"
    site = tmp_path / "site"
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--target", str(site)]
    subprocess.run([*command, str(repacked)], check=True)
    code = (
        "import torch, importlib.metadata as m\n"
        "print(torch.__version__, torch.version.git_version, m.version('torch'), torch.__file__)"
    )
    completed = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(site)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    version = "2.13.0+hpu.1.21.0.555.git603340c"
    assert completed.stdout.split() == [version, "603340c", version, str(site / "torch" / "__init__.py")]


def test_invalid_labels_and_wheels_are_usage_errors(torch_wheel: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="label 'cpu' must begin with git or hpu"):
        fork_like.make_fork_like_wheel(torch_wheel, tmp_path, "cpu")
    with pytest.raises(UsageError, match="cannot be read as a wheel"):
        fork_like.make_fork_like_wheel(tmp_path / "none.whl", tmp_path)
    with zipfile.ZipFile(tmp_path / "other.whl", "w") as out:
        out.writestr("other-1.dist-info/METADATA", "")
    with pytest.raises(UsageError, match="give a wheel of torch"):
        fork_like.make_fork_like_wheel(tmp_path / "other.whl", tmp_path)
    assert not list(tmp_path.glob("*.part"))
    assert cli.main(["torch", "fork-like", str(tmp_path / "other.whl"), "-o", str(tmp_path)]) == 2
