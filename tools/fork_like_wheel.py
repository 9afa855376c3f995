"""Make a fork-like build of torch out of a public one: same binaries, another version label.

    python tools/fork_like_wheel.py torch-2.13.0+cpu-….whl -o dist           a wheel that pip installs
    python tools/fork_like_wheel.py --from-environment PYTHON -o .nox/fork   an environment over another one

The result is a repack, no fork: it exercises what goes by the version (detection, gating, resolving), never
another kernel or ABI. ``torch.version.repacked_from`` names the build that it was made of.
"""

from __future__ import annotations

import argparse
import base64
import copy
import csv
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO

VERSION_FILE = "torch/version.py"
_RECORD_LIMIT = 64 << 20
#: Signatures of the RECORD that is replaced.
_SIGNATURES = ("RECORD.jws", "RECORD.p7s")
_OVERLAY_MARK = "repack.json"


class RepackError(Exception):
    """A wheel or an environment that cannot be repacked; the message says why and what to do."""


def checked_label(text: str) -> str:
    """A local version label as PEP 440 writes it; RepackError unless it is one that fork-like builds have."""
    label = re.sub(r"[-_]", ".", text.lower())
    if not re.fullmatch(r"(git|hpu)[a-z0-9]*(\.[a-z0-9]+)*", label):
        raise RepackError(
            f"label {text!r} does not begin with git or hpu, or holds more than letters, digits and dots; "
            "use one like git2236df1 or hpu.1.21.0.555.git603340c"
        )
    return label


class Relabel:
    """The new contents of the few files that say which build this is."""

    def __init__(self, version: str, version_file: str, label: str | None) -> None:
        revision = re.search(r"^git_version = '([0-9a-f]+)'", version_file, re.M)
        if label is None:
            # The commit that the binaries really come from: the label then claims nothing that is not so.
            label = f"git{revision.group(1)[:7] if revision else '0000000'}"
        self.old = version
        self.new = f"{version.partition('+')[0]}+{checked_label(label)}"
        claimed = re.search(r"git([0-9a-f]{7,40})", self.new)
        text, count = re.subn(
            r"^__version__ = .*$", f"__version__ = {self.new!r}", version_file, count=1, flags=re.M
        )
        if not count:
            raise RepackError(f"{VERSION_FILE} has no line '__version__ = '; is this a wheel of torch?")
        if claimed and not (revision and revision.group(1).startswith(claimed.group(1))):
            text = re.sub(
                r"^git_version = .*$", f"git_version = {claimed.group(1)!r}", text, count=1, flags=re.M
            )
        self.version_file = f"{text.rstrip()}\nrepacked_from = {version!r}\n"

    def metadata(self, text: str) -> str:
        """METADATA with the new version."""
        return re.sub(r"^Version: .*$", f"Version: {self.new}", text, count=1, flags=re.M)

    def folder(self, version: str | None = None) -> str:
        """Name of the dist-info folder of the new build, or of another version."""
        return f"torch-{version or self.new}.dist-info"

    def renamed(self, name: str) -> str:
        """Where a file of the old build is in the new one."""
        old = self.folder(self.old) + "/"
        return f"{self.folder()}/{name[len(old) :]}" if name.startswith(old) else name

    def record(self, text: str, changed: dict[str, bytes]) -> bytes:
        """RECORD with the new names, and new digests of the changed files (by new name)."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        for row in csv.reader(io.StringIO(text)):
            if not row or row[0].rpartition("/")[2] in _SIGNATURES:
                continue
            name = self.renamed(row[0])
            if name in changed:
                writer.writerow([name, f"sha256={digest(changed[name])}", len(changed[name])])
            else:
                writer.writerow([name, *row[1:]])
        return out.getvalue().encode()


def digest(content: bytes) -> str:
    """SHA-256 as RECORD writes it."""
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")


def version_in(names: Iterable[str]) -> str:
    """The version in the name of torch's dist-info folder; RepackError where there is none."""
    for name in names:
        found = re.match(r"torch-([^/]+)\.dist-info/METADATA$", name)
        if found:
            return found.group(1)
    raise RepackError("there is no torch-*.dist-info/METADATA in it; name a wheel of torch")


def repack(wheel: Path, folder: Path, label: str | None = None) -> Path:
    """Write the fork-like wheel of a public one to a folder and return its path.

    Everything but four small files is copied as the compressed bytes that it is.
    """
    try:
        source = zipfile.ZipFile(wheel)
    except (OSError, zipfile.BadZipFile) as error:
        raise RepackError(f"{wheel} cannot be read as a wheel ({error}); name a .whl file of torch") from None
    with source:
        version = version_in(source.namelist())
        relabel = Relabel(version, source.read(VERSION_FILE).decode(), label)
        old = relabel.folder(version)
        changed = {
            VERSION_FILE: relabel.version_file.encode(),
            f"{relabel.folder()}/METADATA": relabel.metadata(
                source.read(f"{old}/METADATA").decode()
            ).encode(),
        }
        changed[f"{relabel.folder()}/RECORD"] = relabel.record(source.read(f"{old}/RECORD").decode(), changed)
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
                    entry.filename = relabel.renamed(info.filename)
                    if entry.filename in changed:
                        out.writestr(entry, changed[entry.filename])
                    else:
                        _copy_member(raw, info, out, entry)
            scratch.replace(target)
        finally:
            scratch.unlink(missing_ok=True)
    return target


def _copy_member(raw: IO[bytes], info: zipfile.ZipInfo, out: zipfile.ZipFile, entry: zipfile.ZipInfo) -> None:
    """Append a member to a wheel without unpacking it.

    ``zipfile`` has no public way to do this; the three attributes that are used here are the same from
    Python 3.8 to 3.14.
    """
    raw.seek(info.header_offset)
    head = raw.read(30)
    if head[:4] != b"PK\x03\x04":
        raise RepackError(f"member {info.filename} has no header where the directory says; download it again")
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
    # Sizes stand in the header and not behind the data; what the header's extra fields said is known anyway.
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
            raise RepackError("the wheel ends in the middle of a member; download it again")
        out.write(block)
        count -= len(block)


def overlay(python: Path, folder: Path, label: str | None = None) -> bool:
    """Make an environment in which torch is a fork-like build of the one that another environment has.

    torch's files are hard links (symbolic ones across file systems), version and metadata are rewritten, and
    everything else is found in the other environment. What is already there and still fits is kept.

    Returns:
        whether anything was made.
    """
    base = _describe(python)
    site = Path(base["site"])
    version = base["version"]
    info = site / f"torch-{version}.dist-info"
    if not (info / "RECORD").is_file():
        raise RepackError(f"torch of {python} has no {info.name}/RECORD; install torch from a wheel there")
    text = (info / "RECORD").read_text()
    relabel = Relabel(version, (site / VERSION_FILE).read_text(), label)
    mark = {"base": base, "version": relabel.new, "record": digest(text.encode())}
    marker = folder / _OVERLAY_MARK
    if marker.is_file():
        try:
            if json.loads(marker.read_text()) == mark:
                return False
        except ValueError:
            pass
    elif folder.exists() and any(folder.iterdir()):
        raise RepackError(f"{folder} is not empty and no overlay; name another folder")
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([base["executable"], "-m", "venv", "--without-pip", str(folder)], check=True)
    own = Path(_describe_site(folder / "bin" / "python"))
    link = _linker(site, own)
    changed = {
        VERSION_FILE: relabel.version_file.encode(),
        f"{relabel.folder()}/METADATA": relabel.metadata((info / "METADATA").read_text()).encode(),
        f"{relabel.folder()}/INSTALLER": b"fork_like_wheel\n",
    }
    rows = []
    for row in csv.reader(io.StringIO(text)):
        name = row[0] if row else ""
        # Scripts lie outside, and bytecode of the rewritten file would be that of the old one.
        if not name or name.startswith(("..", "/")) or name.startswith("torch/__pycache__/version."):
            continue
        rows.append(row)
        target = relabel.renamed(name)
        if target not in changed and not target.endswith("/RECORD"):
            link(name, target)
    record = io.StringIO()
    csv.writer(record, lineterminator="\n").writerows(rows)
    changed[f"{relabel.folder()}/RECORD"] = relabel.record(record.getvalue(), changed)
    for name, content in changed.items():
        (own / name).parent.mkdir(parents=True, exist_ok=True)
        (own / name).write_bytes(content)
    # addsitedir, not a plain path: editable installs of the other environment are .pth files themselves.
    (own / "zz_base_environment.pth").write_text(f"import site; site.addsitedir({str(site)!r})\n")
    marker.write_text(json.dumps(mark))
    return True


def _linker(site: Path, own: Path) -> Callable[[str, str], None]:
    made: set[Path] = set()

    def link(name: str, target: str) -> None:
        source, place = site / name, own / target
        if place.parent not in made:
            place.parent.mkdir(parents=True, exist_ok=True)
            made.add(place.parent)
        try:
            os.link(source, place)
        except FileNotFoundError:
            return  # bytecode that pip recorded and somebody removed
        except OSError:
            place.symlink_to(source)

    return link


def _describe(python: Path) -> dict[str, str]:
    """Where torch is in an environment, without importing it."""
    code = (
        "import importlib.metadata as m, importlib.util as u, json, os, sys\n"
        "spec = u.find_spec('torch')\n"
        "site = spec and os.path.dirname(os.path.dirname(spec.origin))\n"
        "version = spec and next(iter(m.distributions(name='torch', path=[site]))).version\n"
        "print(json.dumps({'site': site, 'version': version, 'executable': sys.executable}))"
    )
    try:
        done = subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=True)
        found: dict[str, str] = json.loads(done.stdout)
    except (OSError, subprocess.CalledProcessError, ValueError) as error:
        raise RepackError(f"{python} cannot be asked for its torch ({error}); name a Python") from None
    if not found["site"]:
        raise RepackError(f"{python} has no torch; install the public build there first")
    return found


def _describe_site(python: Path) -> str:
    code = "import sysconfig; print(sysconfig.get_path('platlib'))"
    done = subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def main(arguments: list[str] | None = None) -> int:
    """The command line; exit code 2 with one sentence where nothing can be made."""
    parser = argparse.ArgumentParser(prog="fork_like_wheel", description=__doc__.splitlines()[0])
    parser.add_argument("wheel", nargs="?", type=Path, metavar="WHEEL", help="public wheel of torch")
    parser.add_argument(
        "--from-environment",
        nargs="?",
        const=Path(sys.executable),
        type=Path,
        metavar="PYTHON",
        help="lay an environment over that of this Python instead (default: the one that runs)",
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR")
    parser.add_argument("--label", help="local version label (default: git and the commit of the wheel)")
    options = parser.parse_args(arguments)
    if (options.wheel is None) == (options.from_environment is None):
        parser.error("name either a wheel or --from-environment")
    started = time.monotonic()
    try:
        if options.wheel is not None:
            made = str(repack(options.wheel, options.output, options.label))
        else:
            fresh = overlay(options.from_environment, options.output, options.label)
            made = f"{options.output}{'' if fresh else ' (unchanged)'}"
    except (RepackError, OSError) as error:
        print(f"fork_like_wheel: {error}", file=sys.stderr)
        return 2
    print(f"{made} in {time.monotonic() - started:.2f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
