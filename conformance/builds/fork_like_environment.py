"""Make an overlay of an environment, in which torch is a fork-like build of that environment's torch."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from conformance.builds.describe import describe_interpreter, find_dist_info, version_of
from conformance.builds.fork_like import VERSION_FILE, RelabelledFiles, digest_for_record
from conformance.errors import UsageError

_OVERLAY_MARK = "repack.json"


def make_fork_like_overlay(python: Path, folder: Path, label: str | None = None) -> bool:
    """Make an overlay environment in which torch is a fork-like build of the torch of ``python``.

    The files of torch are hard links, or symbolic links if the overlay is on a different file system. Version
    and metadata are rewritten. All other packages are imported from the base environment.

    Returns:
        True if the overlay was made, False if an up-to-date overlay existed.
    """
    base_environment = describe_interpreter(str(python))
    if base_environment.site is None:
        raise UsageError(f"{python} has no torch; install the public build there first")
    site = Path(base_environment.site)
    info = find_dist_info(site, version_of((site / VERSION_FILE).read_text(), str(site)))
    if info is None or not (info / "RECORD").is_file():
        raise UsageError(f"torch of {python} has no RECORD file; install torch from a wheel there")
    version = info.name.partition("-")[2].removesuffix(".dist-info")
    executable = base_environment.executable
    base = {"site": str(site), "version": version, "executable": executable}
    text = (info / "RECORD").read_text()
    relabel = RelabelledFiles(version, (site / VERSION_FILE).read_text(), label)
    mark = {"base": base, "version": relabel.new, "record": digest_for_record(text.encode())}
    marker = folder / _OVERLAY_MARK
    if marker.is_file():
        try:
            if json.loads(marker.read_text()) == mark:
                return False
        except ValueError:
            pass
    elif folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} is neither empty nor an overlay; choose another folder")
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    overlay_site = Path(_site_packages_of(folder / "bin" / "python"))
    link = _make_linker(site, overlay_site)
    changed = {
        VERSION_FILE: relabel.version_file.encode(),
        f"{relabel.dist_info_folder()}/METADATA": relabel.new_metadata(
            (info / "METADATA").read_text()
        ).encode(),
        f"{relabel.dist_info_folder()}/INSTALLER": b"conformance\n",
    }
    rows = []
    for row in csv.reader(io.StringIO(text)):
        name = row[0] if row else ""
        # Skip scripts, which are outside site-packages, and the stale bytecode of the rewritten version.py.
        if not name or name.startswith(("..", "/")) or name.startswith("torch/__pycache__/version."):
            continue
        rows.append(row)
        target = relabel.new_file_name(name)
        if target not in changed and not target.endswith("/RECORD"):
            link(name, target)
    record = io.StringIO()
    csv.writer(record, lineterminator="\n").writerows(rows)
    changed[f"{relabel.dist_info_folder()}/RECORD"] = relabel.new_record(record.getvalue(), changed)
    for name, content in changed.items():
        (overlay_site / name).parent.mkdir(parents=True, exist_ok=True)
        (overlay_site / name).write_bytes(content)
    # The .pth file calls ``addsitedir`` instead of listing the path, because ``addsitedir`` also processes
    # the .pth files of editable installs in the base environment.
    (overlay_site / "zz_base_environment.pth").write_text(f"import site; site.addsitedir({str(site)!r})\n")
    marker.write_text(json.dumps(mark))
    return True


def _make_linker(site: Path, overlay_site: Path) -> Callable[[str, str], None]:
    created: set[Path] = set()

    def link(name: str, target: str) -> None:
        source, link_path = site / name, overlay_site / target
        if link_path.parent not in created:
            link_path.parent.mkdir(parents=True, exist_ok=True)
            created.add(link_path.parent)
        try:
            os.link(source, link_path)
        except FileNotFoundError:
            return  # RECORD lists bytecode that was removed after the installation
        except OSError:
            link_path.symlink_to(source)

    return link


def _site_packages_of(python: Path) -> str:
    code = "import sysconfig; print(sysconfig.get_path('platlib'))"
    done = subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()
