"""Repack public builds of torch as fork-like builds: the same binaries under a different version label.

A fork-like build is not a fork: it has the kernels and the ABI of the public build. It tests code that
depends on the version label, such as the detection of forks. ``torch.version.repacked_from`` names the public
build.
"""

from __future__ import annotations

import base64
import copy
import csv
import hashlib
import io
import re
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from conformance.errors import UsageError

VERSION_FILE = "torch/version.py"
#: Files with signatures of RECORD. The repacked wheel omits these files, because it has a different RECORD.
_SIGNATURES = ("RECORD.jws", "RECORD.p7s")


def normalize_label(text: str) -> str:
    """Return a local version label in the form of PEP 440.

    Raise UsageError if it is not a valid label of a fork-like build.
    """
    label = re.sub(r"[-_]", ".", text.lower())
    if not re.fullmatch(r"(git|hpu)[a-z0-9]*(\.[a-z0-9]+)*", label):
        raise UsageError(
            f"label {text!r} must begin with git or hpu and contain only letters, digits and dots; use a "
            "label such as git2236df1 or hpu.1.21.0.555.git603340c"
        )
    return label


class RelabelledFiles:
    """The new contents of the files that identify a build: ``version.py``, METADATA and RECORD."""

    def __init__(self, version: str, version_file: str, label: str | None) -> None:
        revision = re.search(r"^git_version = '([0-9a-f]+)'", version_file, re.M)
        if label is None:
            # The default label names the commit that the binaries were built from.
            label = f"git{revision.group(1)[:7] if revision else '0000000'}"
        self.old = version
        self.new = f"{version.partition('+')[0]}+{normalize_label(label)}"
        claimed = re.search(r"git([0-9a-f]{7,40})", self.new)
        text, count = re.subn(
            r"^__version__ = .*$", f"__version__ = {self.new!r}", version_file, count=1, flags=re.M
        )
        if not count:
            raise UsageError(f"{VERSION_FILE} has no line '__version__ = '; is this a wheel of torch?")
        if claimed and not (revision and revision.group(1).startswith(claimed.group(1))):
            text = re.sub(
                r"^git_version = .*$", f"git_version = {claimed.group(1)!r}", text, count=1, flags=re.M
            )
        original = re.search(r"^__version__ = ['\"]([^'\"]+)", version_file, re.M)
        self.version_file = (
            f"{text.rstrip()}\nrepacked_from = {original.group(1) if original else version!r}\n"
        )

    def new_metadata(self, text: str) -> str:
        """Return METADATA with the new version."""
        return re.sub(r"^Version: .*$", f"Version: {self.new}", text, count=1, flags=re.M)

    def dist_info_folder(self, version: str | None = None) -> str:
        """Return the name of the dist-info folder of a version (default: the version of the new build)."""
        return f"torch-{version or self.new}.dist-info"

    def new_file_name(self, name: str) -> str:
        """Return the new name of a file of the original build."""
        old = self.dist_info_folder(self.old) + "/"
        return f"{self.dist_info_folder()}/{name[len(old) :]}" if name.startswith(old) else name

    def new_record(self, text: str, changed: dict[str, bytes]) -> bytes:
        """Return RECORD with the new names and the new digests. ``changed`` maps new names to contents."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        for row in csv.reader(io.StringIO(text)):
            if not row or row[0].rpartition("/")[2] in _SIGNATURES:
                continue
            name = self.new_file_name(row[0])
            if name in changed:
                writer.writerow([name, f"sha256={digest_for_record(changed[name])}", len(changed[name])])
            else:
                writer.writerow([name, *row[1:]])
        return out.getvalue().encode()


def digest_for_record(content: bytes) -> str:
    """Return the SHA-256 of a file's content in the format of RECORD."""
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")


def version_of_dist_info(names: Iterable[str]) -> str:
    """Return the version in the name of torch's dist-info folder. Raise UsageError if it is missing."""
    for name in names:
        match = re.match(r"torch-([^/]+)\.dist-info/METADATA$", name)
        if match:
            return match.group(1)
    raise UsageError("the wheel has no torch-*.dist-info/METADATA; give a wheel of torch")


def make_fork_like_wheel(wheel: Path, folder: Path, label: str | None = None) -> Path:
    """Write the fork-like wheel of a public wheel to a folder, and return its path.

    All members except the few changed files are copied without decompression.
    """
    try:
        source = zipfile.ZipFile(wheel)
    except (OSError, zipfile.BadZipFile) as error:
        raise UsageError(f"{wheel} cannot be read as a wheel ({error}); give a .whl file of torch") from None
    with source:
        version = version_of_dist_info(source.namelist())
        relabel = RelabelledFiles(version, source.read(VERSION_FILE).decode(), label)
        old = relabel.dist_info_folder(version)
        changed = {
            VERSION_FILE: relabel.version_file.encode(),
            f"{relabel.dist_info_folder()}/METADATA": relabel.new_metadata(
                source.read(f"{old}/METADATA").decode()
            ).encode(),
        }
        changed[f"{relabel.dist_info_folder()}/RECORD"] = relabel.new_record(
            source.read(f"{old}/RECORD").decode(), changed
        )
        tags = wheel.name.removesuffix(".whl").split("-")[-3:]
        target = folder / f"torch-{relabel.new}-{'-'.join(tags)}.whl"
        folder.mkdir(parents=True, exist_ok=True)
        scratch = target.with_suffix(".part")
        try:
            with wheel.open("rb") as raw, zipfile.ZipFile(scratch, "w", zipfile.ZIP_DEFLATED) as out:
                for info in sorted(source.infolist(), key=lambda entry: entry.header_offset):
                    if info.filename.rpartition("/")[2] in _SIGNATURES:
                        continue
                    entry = copy.copy(info)
                    entry.filename = relabel.new_file_name(info.filename)
                    if entry.filename in changed:
                        out.writestr(entry, changed[entry.filename])
                    else:
                        _copy_member(raw, info, out, entry)
            scratch.replace(target)
        finally:
            scratch.unlink(missing_ok=True)
    return target


def _copy_member(raw: IO[bytes], info: zipfile.ZipInfo, out: zipfile.ZipFile, entry: zipfile.ZipInfo) -> None:
    """Copy a member of a wheel without decompressing it.

    ``zipfile`` has no public API for this. The private attributes that this function uses are the same from
    Python 3.8 to 3.14.
    """
    raw.seek(info.header_offset)
    head = raw.read(30)
    if head[:4] != b"PK\x03\x04":
        raise UsageError(f"member {info.filename} has no header at its offset; download the wheel again")
    start = (
        info.header_offset
        + 30
        + int.from_bytes(head[26:28], "little")
        + int.from_bytes(head[28:30], "little")
    )
    file = out.fp
    assert file is not None
    file.seek(out.start_dir)
    entry.header_offset = out.start_dir
    # Write the sizes into the header instead of after the data. Omit the extra fields, because the central
    # directory has the same fields.
    entry.flag_bits &= ~0x08
    entry.extra = b""
    file.write(entry.FileHeader())
    raw.seek(start)
    _copy_bytes(raw, file, info.compress_size)
    out.filelist.append(entry)
    out.NameToInfo[entry.filename] = entry
    out.start_dir = file.tell()
    out._didModify = True  # type: ignore[attr-defined]


def _copy_bytes(raw: IO[bytes], out: IO[bytes], count: int) -> None:
    while count:
        block = raw.read(min(count, 4 << 20))
        if not block:
            raise UsageError("the wheel ends in the middle of a member; download it again")
        out.write(block)
        count -= len(block)
